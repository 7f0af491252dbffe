"""Every sample of every format, as it is and damaged: imported, readable, exported as the same bytes, edits alone."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec
import pytest

from fusefs.text.render import FileRenderer
from store.conversations.chain import Recorded
from store.editing.editor import Editor
from store.errors import UsageError
from store.events.conversation import Conversation
from store.events.event import Block, BlockEdit, Event, EventEdit, Kind
from store.formats.core.format import Format, Source
from store.formats.registry import format_named, lens_for
from store.importing.importer import Importer
from store.importing.walk import walk
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.formats.places import check
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES, bring, exported, imported

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
FOLDERS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir()) if SAMPLES.is_dir() else []
T = TypeVar("T")
EDITED = 'Edited → "quoted" \\ <b>&amp; é😀 end'
_LARGEST_DAMAGED = 1 << 20 if LARGE else 150 << 10
_SPOILED = 2000 if LARGE else 100
_MOST_DAMAGED = 1000 if LARGE else 5
_EDITS = 60 if LARGE else 6
_MOST_EDITED = 1000 if LARGE else 12


def found(folder: Path) -> list[Source]:
    sources = [source for source in walk(folder) if isinstance(source, Source)]
    assert sources, f"nothing in {folder} is a session of any format"
    return sources


def some(items: list[T], most: int) -> list[T]:
    """Return at most so many of the items, from all over."""
    return items[:: max(1, -(-len(items) // most))]


def of(store: Store, source: Source) -> list[Conversation]:
    return [conversation for conversation in store.library.conversations() if conversation.source == str(source.path)]


def check_export(store: Store, conversation: Conversation, source: Source, where: str = "") -> None:
    """Fail unless a conversation's export is what lies on disk, and its main file is part of it."""
    with exported(store, conversation) as files:
        beside = dict(source.sidecars)
        for name, content in files.items():
            assert content == beside.get(name, root_of(source, files) / name).read_bytes(), f"{source.path} {where}"


def root_of(source: Source, files: dict[str, bytes]) -> Path:
    """Return the directory that names of exported files are relative to: a session may be of several directories."""
    return next(above for above in source.path.parents if str(source.main.relative_to(above)) in files)


def check_events(store: Store, conversation: Conversation) -> dict[Kind, int]:
    """Fail unless every event can be read, and each block is where it says; return how many there are of each kind."""
    kinds: dict[Kind, int] = {}
    rows = store.records.rows(conversation.head) if conversation.head else []
    for row, event in store.viewer.events(rows):
        assert isinstance(event, Event), event
        check(event)
        kinds[event.kind] = kinds.get(event.kind, 0) + 1
        assert event.kind is row.kind
        assert (row.file_size > 0) == (event.kind is not Kind.RECORD)
    return kinds


@pytest.mark.parametrize("folder", FOLDERS)
def test_samples_are_read_and_written(store: Store, folder: str) -> None:
    sources = found(SAMPLES / folder)
    imported(store, SAMPLES / folder)
    kinds: dict[Kind, int] = {}
    for source in sources:
        conversations = of(store, source)
        assert conversations or not source.main.stat().st_size, source.path
        for conversation in conversations:
            for kind, count in check_events(store, conversation).items():
                kinds[kind] = kinds.get(kind, 0) + count
        for conversation in some(conversations, 3):
            check_export(store, conversation, source)
    assert kinds.get(Kind.USER)
    assert kinds.get(Kind.ASSISTANT) or kinds.get(Kind.TOOL_CALL)
    assert kinds.get(Kind.NOTE, 0) <= sum(kinds.values()) * 0.6
    again = imported(store, SAMPLES / folder)
    assert (again.imported, again.grown) == (0, 0)


# -- edits ---------------------------------------------------------------------------------------------------------


def edited(store: Store, context: int, most: int) -> dict[int, tuple[bytes, bytes]]:
    """Edit a text of some records, each in one commit of all; return by number what they were and are."""
    changes: dict[int, tuple[bytes, bytes]] = {}
    rows = store.records.rows(store.library.conversation(context).head)
    can = [(row, event) for row, event in store.viewer.events(rows) if isinstance(event, Event) and _texts(event)]
    for at, (row, event) in enumerate(some(can, most)):
        texts = _texts(event)
        block = texts[at % len(texts)]
        turn = store.turns.get(row.turn)
        lens = lens_for(store.viewer.lens(turn).type_name)
        payload = store.contents.payload(row.turn)
        before = Recorded(row.tool, row.parent, store.contents.aliased)
        change = BlockEdit(block.path, EDITED, block.name, "text", block.encoding)
        try:
            new = lens.edit(payload, EventEdit((change,)), before)
        except UsageError:
            # what stands for content elsewhere, and damaged records, can only be read
            continue
        assert new != payload
        changes[row.number] = payload, new
    Editor(store).edit(context, {number: new for number, (_old, new) in changes.items()})
    return changes


def _texts(event: Event) -> list[Block]:
    return [block for block in event.blocks if block.type == "text" and block.text and not event.lossy]


def expected(format_: Format, data: bytes, changes: dict[int, tuple[bytes, bytes]], records: int) -> bytes:
    """Return a file of which some records have other contents: by number, or where it holds more, in their order."""
    pieces, position = [], 0
    spans = list(format_.spans(memoryview(data), 0))
    numbers = sorted(changes)
    waiting = [changes[number] for number in numbers]
    for number, span in enumerate(spans, 1):
        here = number == numbers[-len(waiting)] if waiting and records == len(spans) else bool(waiting)
        if here and data[span.start : span.end] == waiting[0][0]:
            pieces += [data[position : span.start], waiting.pop(0)[1]]
            position = span.end
    assert not waiting
    return b"".join((*pieces, data[position:]))


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_edit_of_texts_is_exported_as_just_that(store: Store, folder: str) -> None:
    sources = some(found(SAMPLES / folder), _MOST_EDITED)
    count = 0
    for source in sources:
        format_ = format_named(source.format)
        imported(store, source.path)
        for conversation in some(of(store, source), 3):
            if not conversation.head:
                continue
            changes = edited(store, conversation.id, _EDITS)
            with exported(store, store.library.conversation(conversation.id)) as files:
                root = root_of(source, files)
                if format_.rendition(source, store.root / "scratch") is None and not source.first:
                    written = expected(format_, source.main.read_bytes(), changes, conversation.records)
                    assert files[str(source.main.relative_to(root))] == written, source.path
                assert changes == {} or any(files[name] != (root / name).read_bytes() for name in files)
            count += len(changes)
            Editor(store).restore(conversation.id, 1)
            check_export(store, store.library.conversation(conversation.id), source)
    assert count


# -- damage --------------------------------------------------------------------------------------------------------


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what becomes of a file: cut off, padded, joined, said twice, recoded."""
    middle = data.find(b"\n", len(data) // 2) + 1 or len(data) // 2
    line = data[middle : data.find(b"\n", middle) + 1 or len(data)]
    yield "cut", data[: len(data) * 3 // 5]
    yield "cut in the middle of its beginning", data[: min(len(data) // 2, 200)]
    yield "nuls", data[:middle] + b"\0" * 4096 + data[middle:]
    yield "nuls at the end", data + b"\0" * 512
    yield "no utf-8", data[: len(data) // 3] + b"\xff\xfe\xed\xa0\x80" + data[len(data) // 3 :]
    yield "crlf", data.replace(b"\n", b"\r\n")
    yield "two on a line", data[: middle - 1] + data[middle:]
    yield "a line twice", data[:middle] + line + data[middle:]
    yield "byte order mark", b"\xef\xbb\xbf" + data
    yield "no newline", data.rstrip(b"\n")


@pytest.mark.parametrize("folder", FOLDERS)
def test_damaged_samples_are_read_and_written(store: Store, tmp_path: Path, folder: str) -> None:
    sources = [source for source in found(SAMPLES / folder) if 0 < source.main.stat().st_size <= _LARGEST_DAMAGED]
    claimed = total = 0
    for source in some(sources, _MOST_DAMAGED):
        is_text = b"\0" not in source.main.read_bytes()
        for number, (what, data) in enumerate(damaged(source.main.read_bytes())):
            there = _copied(source, tmp_path / str(number), data)
            with _for_itself(store, there, tmp_path / f"store {number}") as apart:
                report = Importer(apart).run([there.path])
                assert is_text or report.errors or of(apart, there)
                if is_text and not of(apart, there):
                    bring(apart, there)
                else:
                    claimed += 1
                total += 1
                for conversation in some(of(apart, there), 3):
                    check_events(apart, conversation)
                    check_export(apart, conversation, there, what)
    assert claimed >= total * 0.7


ODD = (b'"', b"{", b"}", b"[", b"]", b"\n", b"\\", b"\0", b"\xff", b",", b":", b"\r\n", b"}{", b'"}', b"\n\n")


def spoiled(data: bytes, random: Random) -> bytes:
    """Return a file with one to four pieces of it gone, doubled, moved, or replaced."""
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(data) + 1)
        end, other = start + random.randint(1, 400), random.randrange(len(data) + 1)
        data = random.choice(
            (
                data[:start] + data[end:],
                data[:end] + data[start:],
                data[:start],
                data[:start] + random.choice(ODD) + data[start:],
                data[:start] + random.randbytes(1) + data[start + 1 :],
                data[:start] + data[other : other + 3000] + data[start:],
                data[:start] + data[start:].replace(b"\n", b"", 1),
            )
        )
    return data


def test_samples_spoiled_at_random_are_read_and_written(store: Store, tmp_path: Path) -> None:
    random = Random(1)
    sources = [source for folder in FOLDERS for source in some(found(SAMPLES / folder), 8)]
    small = [source for source in sources if 0 < source.main.stat().st_size <= _LARGEST_DAMAGED]
    for number in range(_SPOILED):
        source = random.choice(small)
        there = _copied(source, tmp_path / str(number), spoiled(source.main.read_bytes(), random))
        with _for_itself(store, there, tmp_path / f"store {number}") as apart:
            Importer(apart).run([there.path])
            for conversation in some(of(apart, there), 3):
                check_events(apart, conversation)
                check_export(apart, conversation, there, f"spoiled {number}")


@contextmanager
def _for_itself(store: Store, source: Source, root: Path) -> Iterator[Store]:
    """Give a store of its own for a file whose conversations, by their ids, are those of other files too."""
    if type(format_named(source.format)).parts is Format.parts:
        yield store
        return
    with Store.open(root, renderer=FileRenderer()) as apart:
        yield apart
        assert fsck(apart) == []
    shutil.rmtree(root)


def _copied(source: Source, folder: Path, data: bytes) -> Source:
    """Return a copy of a session under ``folder``, at the same place there, whose main file has other content."""
    moved = folder / source.path.relative_to(SAMPLES)
    moved.parent.mkdir(parents=True, exist_ok=True)
    if source.path.is_dir():
        shutil.copytree(source.path, moved, dirs_exist_ok=True)
    main = moved / source.main.relative_to(source.path) if source.path.is_dir() else moved
    main.write_bytes(data)
    first = [folder / Path(path).relative_to(SAMPLES) for path in source.first]
    for path, copy in zip(source.first, first, strict=True):
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return msgspec.structs.replace(source, path=moved, main=main, first=tuple(map(str, first)), sidecars=())
