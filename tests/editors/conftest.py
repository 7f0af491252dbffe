from collections.abc import Iterator

import pytest

from tests.editors.place import MountedPlace, Place, PlainPlace, place
from tests.mount.mounting import can_mount


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
