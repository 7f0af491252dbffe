"""Stores that are replicas: each that a test makes is the first of a space of its own."""

import filecmp
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from store import paths
from store import store as store_module
from store.disk import identity
from store.shared import remote
from store.shared.space import Membership, Place, membership
from store.store import Store
from tests.waiting import until as until

MAKERS = ("directory", "postgres")


class Spaces:
    """Makes spaces of one kind, each with a name of its own."""

    def __init__(self, place: Callable[[], Place]) -> None:
        self._place = place

    def make(self) -> tuple[Place, str]:
        """Make an empty space; return where it is, and its name."""
        place, name = self._place(), f"tested-{uuid.uuid4().hex[:12]}"
        remote.init(place, name)
        return place, name


def spaces(request: pytest.FixtureRequest, maker: str, directory: Path) -> Spaces:
    """Return what makes spaces in a directory, or on a PostgreSQL server with packs in a directory, or in S3."""
    if maker == "directory":
        return Spaces(lambda: Place(str(directory)))
    server = request.getfixturevalue("postgres")
    objects = request.getfixturevalue("s3").url if maker == "servers" else f"file://{directory}/objects"
    return Spaces(lambda: Place(postgres=server.url(), objects=objects))


def let_in(member: Path, root: Path, machine: str = "", place: Place | None = None) -> Membership:
    """Make a replica of an encrypted space, by an invitation of another; it may reach it by another way."""
    invitation = remote.invite(member, "admin")
    if place is not None:
        invitation = structs.replace(invitation, place=place)
    joined = remote.accept(invitation, root, machine)
    if joined is None:
        # nobody has let it in by now who has the space open
        remote.approve(member)
        joined = remote.accept(invitation, root, machine)
    assert joined is not None
    return joined


def said(store: Store, context: int) -> list[bytes]:
    """Return the payloads of a context."""
    turns = store.contexts.last(context, 1 << 20, latest=True)
    return [bytes(store.blobs.blob(turn.payload_hash)) for turn in turns]


@contextmanager
def replicas(monkeypatch: pytest.MonkeyPatch, directory: Path, spaces: Spaces) -> Iterator[None]:
    """Within the block, each store that is made is a replica; then another replica of each must have the same logs."""
    opened: dict[str, Path] = {}
    """The replica of each space that was opened last: a test may go on with a copy of the first."""

    def joined(root: Path) -> Membership | None:
        found = membership(root)
        if found is None and identity.files_id(root) is None:
            place, name = spaces.make()
            found = remote.join(place, name, root)
        if found is not None:
            opened[found.id] = root
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "membership", joined)
        yield
    for number, root in enumerate(opened.values()):
        if not (root / paths.HEAD_LOG).exists():
            continue
        other = directory / f"other-{number}"
        let_in(root, other)
        with Store.open(other):
            for log in (paths.TURN_LOG, paths.HEAD_LOG):
                assert filecmp.cmp(root / log, other / log, shallow=False), f"{log} is another in another replica"
        shutil.rmtree(other)
