from collections.abc import Iterator

import pytest

from tests.editors.place import MountedPlace, Place, PlainPlace, place
from tests.fusefs.tree.mounting import can_mount


@pytest.fixture
def mount() -> Iterator[MountedPlace]:
    """``events/`` of the invented session, in a mount."""
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    with place(MountedPlace) as made:
        assert isinstance(made, MountedPlace)
        yield made


@pytest.fixture
def plain() -> Iterator[Place]:
    """The same files on a plain disk."""
    with place(PlainPlace) as made:
        yield made


@pytest.fixture(params=["plain", "mount"])
def here(request: pytest.FixtureRequest) -> Place:
    """Both, one after the other: what holds on a plain disk holds in a mount."""
    made = request.getfixturevalue(request.param)
    assert isinstance(made, Place)
    return made


@pytest.fixture(scope="module")
def still() -> Iterator[MountedPlace]:
    """A mount for everything in a module that changes no event."""
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    with place(MountedPlace) as made:
        assert isinstance(made, MountedPlace)
        versions, payloads = made.version_names(), made.payloads()
        yield made
        made.remount()
        assert made.files() == made.drawn
        assert made.version_names() == versions
        assert made.payloads() == payloads


@pytest.fixture
def unchanged(still: MountedPlace) -> Iterator[MountedPlace]:
    """The same mount, looked at afterwards."""
    still.mount.check_alive()
    versions = still.version_names()
    yield still
    still.mount.check_alive()
    assert still.files() == still.drawn
    assert still.version_names() == versions
