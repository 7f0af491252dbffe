"""Handlers called directly."""

import errno
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pyfuse3
import pytest
import trio

from fusefs.handler import errno_of
from fusefs.inodes import ROOT, Place
from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from store.conversations.chain import Chain
from store.conversations.contexts import Append
from store.conversations.viewer import Viewer
from store.errors import (
    Conflict,
    ConvfsError,
    DamageError,
    FormatTooNew,
    NotFound,
    StoreBusy,
    StoreFailed,
    UsageError,
)
from store.events.conversation import EventRow
from store.ids import hash_bytes
from store.index.views import Views
from store.store import Store
from tests.fusefs.tree.mounting import add, assistant, new_store, run, user

T = TypeVar("T")

PATH = ["conversations", "project", "2026-03-05-talk", "events"]


def failure(handler: Coroutine[Any, Any, object]) -> int:
    with pytest.raises(pyfuse3.FUSEError) as caught:
        run(handler)
    return caught.value.errno


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path / "store") as store:
        add(store, [user("one", 1), assistant("two", 2)])
        yield store


@pytest.fixture
def operations(store: Store) -> Operations:
    return Operations(Tree(store))


def walk(operations: Operations, names: list[str]) -> int:
    ino = ROOT
    for name in names:
        ino = run(operations.lookup(ino, name.encode(), None)).st_ino
    return ino


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotFound, errno.ENOENT),
        (Conflict, errno.EEXIST),
        (UsageError, errno.EINVAL),
        (StoreBusy, errno.EBUSY),
        (DamageError, errno.EIO),
        (FormatTooNew, errno.EIO),
        (StoreFailed, errno.EROFS),
        (ConvfsError, errno.EIO),
    ],
)
def test_whose_fault_it_is_says_the_errno(error: type[ConvfsError], expected: int) -> None:
    assert errno_of(error("what happened")) == expected


def test_lookups_are_counted_and_forgotten(operations: Operations) -> None:
    for _ in range(3):
        event = walk(operations, [*PATH, "00001-user.md"])
    assert operations.lookups.count(event) == 3
    run(operations.forget([(event, 2)]))
    assert event in operations.lookups
    run(operations.forget([(event, 1)]))
    assert event not in operations.lookups
    assert run(operations.getattr(event, None)).st_ino == event


def test_a_file_of_whose_change_the_kernel_is_yet_to_be_told_is_read_past_its_cache(operations: Operations) -> None:
    """It would fill what is answered with NULs, or cut it, to the length that it knows."""
    ino = walk(operations, [*PATH[:-1], "metadata.json"])
    kept = run(operations.open(ino, os.O_RDONLY, None))
    assert (kept.direct_io, kept.keep_cache) == (False, True)
    operations.tree.unsettle(ino)
    past = run(operations.open(ino, os.O_RDONLY, None))
    assert (past.direct_io, past.keep_cache) == (True, False)
    assert run(operations.read(past.fh, 0, 1 << 16)) == run(operations.read(kept.fh, 0, 1 << 16))


def test_a_failed_lookup_is_not_counted(operations: Operations) -> None:
    before = {ino: operations.lookups.count(ino) for ino in operations.lookups}
    assert failure(operations.lookup(ROOT, b"missing", None)) == errno.ENOENT
    assert failure(operations.lookup(ROOT, b"x" * 256, None)) == errno.ENAMETOOLONG
    assert failure(operations.lookup(ROOT, b"\xff", None)) == errno.ENOENT
    assert {ino: operations.lookups.count(ino) for ino in operations.lookups} == before


def test_what_is_not_a_directory_has_nothing_in_it(operations: Operations) -> None:
    event = walk(operations, [*PATH, "00001-user.md"])
    assert failure(operations.lookup(event, b"x", None)) == errno.ENOTDIR
    assert failure(operations.opendir(event, None)) == errno.ENOTDIR
    assert failure(operations.readlink(event, None)) == errno.EINVAL
    readme = walk(operations, ["README.md"])
    assert failure(operations.readlink(readme, None)) == errno.EINVAL


def test_an_unknown_inode_is_an_error_of_that_request_only(operations: Operations) -> None:
    for ino in (999, 1 << 52, (7 << 50) + 1, (1 << 50) + (5 << 26) + 1, (2 << 50) + (1 << 26) + 77):
        assert failure(operations.getattr(ino, None)) == errno.ENOENT


@pytest.mark.logs("failed")
def test_any_other_exception_is_eio_and_logged(
    operations: Operations, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(operations.router, "node", lambda ino: 1 / 0)
    handlers: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: operations.getattr(ROOT, None),
        lambda: operations.lookup(ROOT, b"x", None),
        lambda: operations.opendir(ROOT, None),
        lambda: operations.getxattr(ROOT, b"user.convfs.x", None),
        lambda: operations.listxattr(ROOT, None),
        lambda: operations.readlink(ROOT, None),
        lambda: operations.open(ROOT, os.O_RDONLY, None),
        lambda: operations.read(12345, 0, 10),
        lambda: operations.release(12345),
        lambda: operations.releasedir(12345),
    ]
    for handler in handlers:
        caplog.clear()
        assert failure(handler()) == errno.EIO
        assert "failed" in caplog.text


def test_a_file_that_was_forgotten_and_is_still_open_can_be_read(operations: Operations, store: Store) -> None:
    content = b"some content of its own"
    digest = store.intake.put(content)
    assert digest == hash_bytes(content)
    blob = walk(operations, [".convfs", "blobs", digest.hex()])
    opened = run(operations.open(blob, os.O_RDONLY, None))
    assert run(operations.read(opened.fh, 5, 100)) == content[5:]
    run(operations.release(opened.fh))
    run(operations.forget([(blob, 1)]))
    assert failure(operations.getattr(blob, None)) == errno.ENOENT
    again = walk(operations, [".convfs", "blobs", digest.hex()])
    assert again != blob
    assert run(operations.getattr(again, None)).st_size == len(content)


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC])
def test_what_is_no_file_of_a_conversation_is_not_opened_for_writing(operations: Operations, flags: int) -> None:
    assert failure(operations.open(walk(operations, ["README.md"]), flags, None)) == errno.EACCES
    assert failure(operations.open(walk(operations, PATH), flags, None)) == errno.EISDIR
    record = walk(operations, [*PATH[:-1], ".records", "00001.json"])
    assert failure(operations.open(record, flags, None)) == errno.EROFS


def test_reads_beyond_the_end_are_empty(operations: Operations) -> None:
    event = walk(operations, [*PATH, "00001-user.md"])
    opened = run(operations.open(event, os.O_RDONLY, None))
    size = run(operations.getattr(event, None)).st_size
    assert len(run(operations.read(opened.fh, 0, 1 << 20))) == size
    for offset in (size, size + 1, 1 << 40, (1 << 63) - 1):
        assert run(operations.read(opened.fh, offset, 4096)) == b""


def asked(handler: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a handler to its end, whatever it waits for."""

    async def answered() -> T:
        return await handler()

    return trio.run(answered)


def test_others_are_answered_while_very_many_are_forgotten(operations: Operations) -> None:
    for ino in range(1 << 51, (1 << 51) + 20_000):
        operations.lookups.add(ino)
    left: list[int] = []

    async def look() -> None:
        while (known := sum(1 for _ in operations.lookups)) > 100:
            left.append(known)
            await trio.lowlevel.checkpoint()

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            nursery.start_soon(operations.forget, [(ino, 1) for ino in range(1 << 51, (1 << 51) + 20_000)])

    trio.run(both)
    assert max(one - other for one, other in pairwise(left)) <= 1024
    assert len(left) > 20


def test_a_first_look_at_very_many_records_is_a_threads_work(
    store: Store, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, where all requests are answered, no more is measured or read than a little, at any length."""
    context = store.contexts.create(metadata={"project": "project", "name": "long"}).context
    store.contexts.append_many(context, [Append(b"said", "plain.text") for _ in range(9000)])
    here = threading.get_ident()
    elsewhere: list[int] = []
    listed: list[int] = []
    measure, rows = Viewer._measure_some, Views.rows

    def measured(viewer: Viewer, some: Sequence[tuple[int, int]], chain: Chain) -> list[EventRow]:
        elsewhere.append(len(some))
        assert threading.get_ident() != here
        return measure(viewer, some, chain)

    def read(views: Views, runs: Iterable[tuple[int, int]], number: int) -> list[EventRow]:
        found = rows(views, runs, number)
        assert threading.get_ident() != here or len(found) < 1000
        listed.append(len(found))
        return found

    monkeypatch.setattr(Viewer, "_measure_some", measured)
    monkeypatch.setattr(Views, "rows", read)
    ino = ROOT
    for name in ["conversations", "project", "long", "events"]:
        ino = asked(partial(operations.lookup, ino, name.encode(), None)).st_ino
    assert asked(partial(operations.lookup, ino, b"00009-note.md", None)).st_size > 0
    assert sum(elsewhere) == 512
    transcript = operations.tree.place(context, Place.TRANSCRIPT)
    assert asked(partial(operations.getattr, transcript, None)).st_size > 9000
    assert sum(elsewhere) == 9000
    store.records.forget_rows()
    listed.clear()
    entries = operations.tree.view(context).event_entries()
    next(entries)
    assert sum(listed) <= 1024
    assert 1 + sum(1 for _ in entries) == 9000 == sum(listed)
