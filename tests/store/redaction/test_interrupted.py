"""Who redacts is killed, or the disk fails, at any moment: nothing is lost, and a second time finishes it."""

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.content.cuts import is_text
from store.disk import durable
from store.errors import ConvfsError, StoreFailed
from store.paths import REDACTING
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.store import Store
from store.upkeep.fsck import fsck
from tests.conftest import scratch
from tests.model import instead
from tests.store.redaction.planted import ENCODED, plant

SECRETS = Secrets([ENCODED, b"tr0ub4dor&3"])
WATCHED = ("pwrite_all", "fdatasync", "replace", "remove", "link", "truncate", "overwrite", "sync_directory")
LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
MOMENTS = 400 if LARGE else 8


@pytest.fixture(scope="module")
def planted() -> Iterator[Path]:
    folder = scratch()
    plant(folder / "store", folder / "home")
    yield folder
    shutil.rmtree(folder)


def copied(planted: Path, to: Path) -> Path:
    shutil.copytree(planted / "store", to, symlinks=True)
    instead(to)
    return to


def watch(patch: pytest.MonkeyPatch, before: Callable[[int], None]) -> None:
    """Have ``before`` called before each operation on the disk, with its number."""
    count = 0

    def watched(operation: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal count
            count += 1
            before(count)
            return operation(*arguments, **named)

        return call

    for name in WATCHED:
        patch.setattr(durable, name, watched(getattr(durable, name)))


def redact(root: Path) -> None:
    with Store.open(root, renderer=FileRenderer()) as store:
        Redaction(store, SECRETS).run()


@pytest.fixture(scope="module")
def operations(planted: Path) -> int:
    """How many operations a redaction takes."""
    numbers = [0]
    root = copied(planted, planted / "counted")
    with pytest.MonkeyPatch.context() as patch, Store.open(root, renderer=FileRenderer()) as store:
        watch(patch, numbers.append)
        Redaction(store, SECRETS).run()
    assert numbers[-1] > 50
    return numbers[-1]


def contents(store: Store) -> dict[tuple[int, int], list[bytes]]:
    """Return the payloads of every state of every conversation, as they are when it is redacted, without names."""
    return {
        (context, tip): [seen(store.contents.payload(row.turn)) for row in store.records.rows(tip)]
        for context, tip in store.catalogue.states()
    }


def seen(payload: bytes) -> bytes:
    clean = SECRETS.removed(payload) if is_text(payload) else SECRETS.blanked(payload)
    return re.sub(rb"[0-9a-f]{64}", b"name", clean)


def check(root: Path, found: dict[tuple[int, int], list[bytes]], expected: dict[tuple[int, int], list[bytes]]) -> None:
    for state, payloads in expected.items():
        assert found.get(state) == payloads, f"{root.name}: {state}"


def sound_and_finished(root: Path, expected: dict[tuple[int, int], list[bytes]]) -> None:
    """Look at what is left of a store, and redact once more."""
    with Store.open(root, renderer=FileRenderer()) as store:
        interrupted = (root / REDACTING).exists()
        assert any("redaction was interrupted" in note for note in store.recovered) == interrupted
        check(root, contents(store), expected)
        assert fsck(store) == []
        done = Redaction(store, SECRETS).run()
        assert prove(store, SECRETS, done.gone).found == []
        check(root, contents(store), expected)
        assert not (root / REDACTING).exists()
    assert not list((root / "turns").glob("*.erased")) + list((root / "blobs").glob("*.erased"))


def spread(count: int) -> list[int]:
    return sorted({1 + number * (count - 1) // (MOMENTS - 1) for number in range(MOMENTS)})


def test_killed(planted: Path, operations: int, memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = set(spread(operations))
    root = copied(planted, memory_path / "store")
    with Store.open(root, renderer=FileRenderer()) as store:
        expected = contents(store)
        with monkeypatch.context() as patch:

            def image(number: int) -> None:
                # what is there if the process is killed now
                if number in chosen:
                    # with what has two names as one file
                    subprocess.run(["cp", "-a", root, memory_path / str(number)], check=True, timeout=60)

            watch(patch, image)
            Redaction(store, SECRETS).run()
    images = sorted(path for path in memory_path.iterdir() if path.name.isdecimal())
    assert len(images) >= len(chosen) // 2
    for path in images:
        sound_and_finished(path, expected)
        shutil.rmtree(path)


def test_a_disk_that_fails(planted: Path, operations: int, memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(copied(planted, memory_path / "asked"), renderer=FileRenderer()) as store:
        expected = contents(store)
    failures = 0
    for at in spread(operations)[1:-1]:
        root = copied(planted, memory_path / str(at))
        with monkeypatch.context() as patch:

            def fail(number: int, at: int = at) -> None:
                if number == at:
                    raise OSError(errno.EIO, "the disk fails, for a test")

            store = Store.open(root, renderer=FileRenderer())
            watch(patch, fail)
            try:
                Redaction(store, SECRETS).run()
            except (ConvfsError, OSError):
                failures += 1
            # what was told when it happened may be told once more
            with suppress(StoreFailed, OSError):
                store.close()
        sound_and_finished(root, expected)
        shutil.rmtree(root)
    assert failures >= len(spread(operations)) // 2
