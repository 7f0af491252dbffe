"""Stores that are replicas: each that a test makes is the first of a space of its own."""

import filecmp
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store import paths
from store import store as store_module
from store.disk import identity
from store.shared import remote
from store.shared.space import Membership, Place, membership
from store.store import Store

NAME = "tested"


@contextmanager
def replicas(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Iterator[None]:
    """Within the block, each store that is made is a replica; then another replica of each must have the same logs."""
    made: list[tuple[Path, Place]] = []

    def joined(root: Path) -> Membership | None:
        found = membership(root)
        if found is None and identity.files_id(root) is None:
            place = Place(str(directory / str(len(made))))
            remote.init(place, NAME)
            found = remote.join(place, NAME, root)
            made.append((root, place))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "membership", joined)
        yield
    for number, (root, place) in enumerate(made):
        if not (root / paths.HEAD_LOG).exists():
            continue
        other = directory / f"other-{number}"
        remote.join(place, NAME, other)
        with Store.open(other):
            for log in (paths.TURN_LOG, paths.HEAD_LOG):
                assert filecmp.cmp(root / log, other / log, shallow=False), f"{log} is another in another replica"
        shutil.rmtree(other)
