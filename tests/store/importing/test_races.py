"""Files that change while they are read."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store.importing import snapshot
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.sessions import imported, lines, long_lines, native, payloads, session

ROUNDS = 25
CONTENT = long_lines(150)


@contextmanager
def meanwhile(change: Callable[[int], None]) -> Iterator[None]:
    """Have a thread make changes, one after the other, until the block ends."""
    stop = threading.Event()

    def run() -> None:
        number = 0
        while not stop.is_set():
            change(number)
            number += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def grow(path: Path, number: int) -> None:
    with path.open("ab") as file:
        file.write(CONTENT[number * 1000 % len(CONTENT) :][:1000])


def truncate(path: Path, number: int) -> None:
    with path.open("r+b") as file:
        file.truncate(number * 7919 % len(CONTENT))
        file.seek(0)
        file.write(CONTENT)


def delete(path: Path, _number: int) -> None:
    path.unlink()
    path.write_bytes(CONTENT)


def replace(path: Path, number: int) -> None:
    fresh = path.with_suffix(".tmp")
    fresh.write_bytes(lines(f"Version {number}", *["And on."] * (number % 50)))
    fresh.replace(path)


def change_in_the_middle(path: Path, number: int) -> None:
    with path.open("r+b") as file:
        file.seek(number * 7919 % len(CONTENT))
        file.write(b"changed")


@pytest.mark.parametrize("mapped", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize("change", [grow, truncate, delete, replace, change_in_the_middle])
def test_a_file_changes_while_it_is_read(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, int], None],
    mapped: bool,
) -> None:
    if mapped:
        monkeypatch.setattr(snapshot, "_MAPPED_FROM", 1)
    path = session(tmp_path, CONTENT)
    with meanwhile(lambda number: change(path, number)):
        for _ in range(ROUNDS):
            report = Importer(store).run([path])
            assert all("No such file" in error or "holds no session" in error for error in report.errors)
            if path.exists() and store.catalogue.by_source(str(path)):
                payloads(store, path)
    imported(store, path)
    assert native(store, path) == path.read_bytes()
    assert fsck(store) == []


def test_two_imports_of_the_same_growing_session_at_once(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, CONTENT)
    errors: list[str] = []

    def run() -> None:
        for _ in range(ROUNDS):
            errors.extend(Importer(store).run([path]).errors)

    with meanwhile(lambda number: grow(path, number)):
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    imported(store, path)
    assert errors == []
    assert native(store, path) == path.read_bytes()
    assert len(store.catalogue.page()) == 1
