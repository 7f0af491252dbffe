"""Native export: a conversation as its tool's own files, byte for byte.

If the original of an edited file parsed as JSON, the edited one does too: a bad splice would give a tool a file that it
skips lines of, or refuses. A file of lines may have no more unparsable lines than before; a document stays one.
"""

import mmap
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path, PurePath
from typing import NamedTuple, Protocol
from uuid import UUID, uuid5

from msgspec import structs

from store.artifacts.names import files_beside
from store.content.cuts import MAX_CUT_BYTES
from store.disk.beneath import Beneath
from store.errors import NotFound, UsageError
from store.events.conversation import REDACTED, Conversation
from store.filenames import inside
from store.formats.core.format import Format, Source
from store.formats.core.json_view import is_json
from store.formats.registry import format_named
from store.importing.assembly import Assembly, Edited, main_as_imported, restored, restored_files, stored_records
from store.importing.placing import ExportFolder, File, Stage, last_export, note_export
from store.importing.provenance import ImportedFile, SessionFiles, named_hash, read_as, read_files
from store.importing.snapshot import path_text, text_path
from store.index.catalogue import ContextEntry
from store.store import Store

_PADDING = b"\0 \t\r\n\v\f"
_LONGEST_LINE = 16 << 20
"""A longer line is checked on disk, not in memory."""

NATIVE = "native"
"""The format of a conversation's own tool."""

Pieces = Callable[[], Iterable[bytes]]


Files = Iterator[File]

class Lost(Protocol):
    """Is told what an export leaves out, and of which events."""

    def __call__(self, what: str, /, *events: int) -> object:
        """Note it."""


NOT_THERE = "a content that the store does not have: its reference leads nowhere"


def nothing(_what: str, /, *_events: int) -> None:
    """Ignore what is left out."""


def intact(name: str, now: Pieces, before: Pieces, scratch: Path) -> Iterator[bytes]:
    """Yield the pieces of the file ``name``; ``before`` gives those of the original.

    After the last one, raises UsageError if something in it no longer parses. Only suspects are looked at twice.
    """
    lines = _Lines()
    for piece in now():
        lines.add(piece)
        yield piece
    lines.end()
    if not lines.bad and not lines.long:
        return
    scratch.mkdir(mode=0o700, exist_ok=True)
    with _on_disk(now(), scratch) as data:
        lines = _lines_of(data)
        if not lines.bad or _is_document(data, lines):
            return
    with _on_disk(before(), scratch) as data:
        was = _lines_of(data)
        was_document = _is_document(data, was)
    # a damaged line may have become another one
    worse = lines.bad - was.bad
    if was_document or (worse.total() > (was.bad - lines.bad).total() and was.good > was.bad.total()):
        where = name if was_document else f"line {min(lines.numbers[line] for line in worse)} of {name}"
        raise UsageError(f"{where} would be no JSON after what was edited: nothing was written; take another format")


class _Lines:
    """Counts the lines of a file that parse; those that do not are ``bad``."""

    def __init__(self) -> None:
        self.begins: bool | None = None
        """True if the first line parses; None as long as there is none."""
        self.good = 0
        self.bad: Counter[bytes] = Counter()
        self.numbers: dict[bytes, int] = {}
        """The numbers of these lines, from 1."""
        self.long = False
        """True if a line was too long to be looked at."""
        self._number = 0
        self._held: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._hold(piece[start:end])
            self.end()
            start = end + 1
        self._hold(piece[start:])

    def end(self) -> None:
        self._number += 1
        held, size = self._held, self._size
        self._held, self._size = [], 0
        if size > _LONGEST_LINE:
            self.long = True
            return
        self.see(b"".join(held), self._number)

    def see(self, line: bytes | memoryview, number: int) -> None:
        if len(line) <= _LONGEST_LINE and not bytes(line).strip():
            return
        good = is_json(line)
        if self.begins is None and bytes(line[:_LONGEST_LINE]).strip(_PADDING):
            self.begins = good
        if good:
            self.good += 1
        else:
            beginning = bytes(line[:_LONGEST_LINE])
            self.bad[beginning] += 1
            self.numbers.setdefault(beginning, number)

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= _LONGEST_LINE:
            self._held.append(piece)


def _lines_of(data: mmap.mmap | bytes) -> _Lines:
    lines = _Lines()
    start = number = 0
    with memoryview(data) as view:
        while start < len(data):
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            number += 1
            with view[start:end] as line:
                lines.see(line, number)
            start = end + 1
    return lines


def _is_document(data: mmap.mmap | bytes, lines: _Lines) -> bool:
    # a document whose first line parses has only bytes behind it that readers skip
    return not lines.begins and lines.good <= lines.bad.total() and is_json(data)


@contextmanager
def _on_disk(pieces: Iterable[bytes], scratch: Path) -> Iterator[mmap.mmap | bytes]:
    with tempfile.TemporaryFile(dir=scratch) as file:
        file.writelines(pieces)
        file.flush()
        if not file.tell():
            yield b""
            return
        with closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as data:
            yield data


@contextmanager
def staging(directory: Path) -> Iterator[ExportFolder]:
    """Open ``directory``, made if need be, with a hidden folder in it. Errors of the system within are UsageErrors."""
    try:
        with Beneath.opened(directory) as opened, opened.temporary(".convfs-export-") as staged:
            yield ExportFolder(opened, staged)
    except OSError as error:
        raise UsageError(f"cannot export to {error.filename or directory}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"cannot export to {directory!r}: {error}") from error


def place(
    store: Store,
    conversation: Conversation,
    directory: Path,
    form: str,
    write: Callable[[Stage], None],
    written: Callable[[int], None] = lambda size: None,
) -> list[Path]:
    """Export a conversation in the format ``form`` into ``directory``: ``write`` gives the files. Return their paths.

    ``written`` is told how many bytes were written, again and again. Raises Conflict if files of somebody else are in
    the directory, and in ``PROJECT/NAME/`` within it, and UsageError if the directory cannot be written to.
    """
    with staging(directory) as folder:
        stage = Stage(folder.staged, written)
        write(stage)
        where = Path(os.path.realpath(directory))
        target, hashes = folder.put(conversation, stage, last_export(store, conversation.id, where, form))
        note_export(store, conversation.id, where, form, target, hashes)
        return [directory / target / name for name in stage.files]


def export_native(
    store: Store,
    conversation: Conversation,
    directory: Path,
    lost: Lost = nothing,
    written: Callable[[int], None] = lambda size: None,
) -> list[Path]:
    """Write a conversation into ``directory`` in the files of its tool and return their paths.

    An unedited conversation becomes the very bytes that were imported; an edited one differs from these only in its
    edits. Deleted records are left out, and the rest is linked as the tool needs it. What its records refer to beside
    the session comes along; ``lost`` is told of what the store does not have.

    A session that was one file becomes one of the same name, one that was a directory becomes one. If such a name
    is taken, everything goes into ``PROJECT/NAME/`` under ``directory`` instead; if that is taken too, Conflict.
    Only what the last export wrote is overwritten, and nothing appears under its name before it is whole and on disk.
    UsageError for a conversation that came from no tool, and if the directory cannot be written to.
    """
    return place(store, conversation, directory, NATIVE, native_writer(store, conversation, lost), written)


def native_writer(store: Store, conversation: Conversation, lost: Lost) -> Callable[[Stage], None]:
    """Return the function that stages such files. UsageError for a conversation that came from no tool."""
    files = list(native_files(store, conversation))

    def write(stage: Stage) -> None:
        stage.add(files)
        stage.add(content_beside(store, conversation, lost))
        tell_left(conversation, stage, lost)

    return write


def came_in_files(conversation: Conversation) -> bool:
    """Return whether a conversation can be exported as files of a tool."""
    return read_files(conversation.metadata) is not None or "file" in conversation.metadata


def native_files(store: Store, conversation: Conversation) -> Files:
    """Yield the session's files as :func:`export_native` writes them into an empty directory."""
    if (kept := read_files(conversation.metadata)) is not None:
        return _files_of_one(store, conversation, kept)
    if "file" in conversation.metadata:
        return _files_of_many(store, conversation)
    who = f"{conversation.project}/{conversation.name}"
    raise UsageError(f"{who} was not imported from a tool: there are no files to export it as")


def _files_of_many(store: Store, conversation: Conversation) -> Files:
    """Yield the files of a conversation that shares them with others, without these in them."""
    file, imported = _file_of_many(store, conversation)
    chosen = [store.catalogue.entry(conversation.id)]
    layout = imported.read_layout(store)
    assembly = Assembly(store, file, layout, chosen)
    source = text_path(str(conversation.metadata.get("exported_as") or file.metadata["layout_of"]))
    folder = PurePath(source.name if imported.main else "")
    name = _inside(folder, imported.main or source.name)
    pieces: Iterable[bytes] = assembly.pieces()
    if assembly.edited:
        before = Assembly(store, file, layout, None)
        pieces = intact(path_text(name.name), assembly.pieces, before.pieces, store.files.aside.scratch)
    main = imported.main or path_text(text_path(str(file.metadata["layout_of"])).name)
    sidecars: Mapping[str, str] = imported.sidecars
    if not imported.rendered:
        yield File(name, pieces)
    elif imported.main and (assembly.edited or not imported.has_original or _was_redacted(store, conversation)):
        there = imported.original | imported.sidecars
        changed = restored_files(store, format_named(file.format), main, there, pieces)
        yield from (File(_inside(folder, one), (content,)) for one, content in changed.items() if content)
        sidecars = {one: digest for one, digest in there.items() if one not in changed}
    elif assembly.edited or not imported.has_original:
        yield File(name, restored(store, format_named(file.format), main, imported.original, pieces))
    else:
        for beside, digest in imported.original.items():
            at = name if beside == main else _inside(name.parent, name.name + beside.removeprefix(main))
            yield File(at, store.blobs.pieces(named_hash(digest)))
    yield from _sidecars(store, folder, sidecars)


def _was_redacted(store: Store, conversation: Conversation) -> bool:
    """Return whether a redaction changed a conversation: files that tell the hashes of others have changed with it."""
    return any(version.action == REDACTED for version in store.catalogue.versions(conversation.id))


def _file_of_many(store: Store, conversation: Conversation) -> tuple[ContextEntry, ImportedFile]:
    number = conversation.metadata["file"]
    file = store.catalogue.entry(int(number)) if isinstance(number, str | int) and str(number).isdecimal() else None
    imported = read_as(file.metadata, ImportedFile) if file else None
    if file is None or imported is None or "layout_of" not in file.metadata:
        raise UsageError(f"{conversation.source} was not imported to its end: import it again")
    return file, imported


def is_one_of_many(store: Store, conversation: Conversation) -> bool:
    """Return whether the file of a conversation holds others, too."""
    if "file" not in conversation.metadata:
        return False
    _file, imported = _file_of_many(store, conversation)
    return len({place.context for place in imported.read_layout(store).places}) > 1


def is_fork(conversation: Conversation | ContextEntry) -> bool:
    """Return whether a conversation was forked in the store, and is no session of its tool yet."""
    return "exported_as" in conversation.metadata and not conversation.source


class Identity(NamedTuple):
    """The id of a session, and its file; ``parent`` is that of the session that it was forked from in the store."""

    session: str
    path: Path
    parent: "Identity | None" = None


def identity(store: Store, entry: Conversation | ContextEntry) -> Identity:
    """Return the id and the file of a session; a fork that was made in the store has those of its parent, renamed."""
    if not is_fork(entry):
        path = text_path(entry.source)
        return Identity(str(entry.metadata.get("session") or path.stem), path)
    own = str(uuid5(UUID(bytes=store.store_id[:16]), f"{entry.format} {entry.id}"))
    forked = entry.metadata.get("forked_from")
    try:
        above = store.catalogue.entry(forked["context"] if isinstance(forked, dict) else 0)
    except NotFound:
        path = text_path(str(entry.metadata["exported_as"]))
        return Identity(own, path.with_name(own + path.suffix), Identity("", path))
    parent = identity(store, above)
    name = parent.path.name
    name = name.replace(parent.session, own) if parent.session and parent.session in name else own + parent.path.suffix
    return Identity(own, parent.path.with_name(name), parent)


def has_own_forks(conversation: Conversation) -> bool:
    """Return whether forks of a conversation are sessions of its tool with files of their own."""
    format_ = format_named(conversation.format)
    kept = read_files(conversation.metadata)
    return type(format_).forked is not Format.forked and kept is not None and not (kept.main or kept.first)


def _files_of_one(store: Store, conversation: Conversation, kept: SessionFiles) -> Files:
    if is_fork(conversation) and has_own_forks(conversation):
        return _files_of_fork(store, conversation, kept)
    return _files_as_kept(store, conversation, kept)


def _files_of_fork(store: Store, conversation: Conversation, kept: SessionFiles) -> Files:
    """Yield the files of a fork as a session of its own, which names its parent."""
    own = identity(store, conversation)
    assert own.parent is not None
    parent, path = own.parent.session, path_text(own.parent.path)
    forked = partial(format_named(conversation.format).forked, session=own.session, parent=parent, path=path)
    exported = structs.replace(conversation, metadata=conversation.metadata | {"exported_as": own.path.name})
    main, *beside = _files_as_kept(store, exported, kept)
    yield main._replace(pieces=(forked(line) or line for line in _lines_in(main.pieces)))
    yield from beside


def _lines_in(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends."""
    held: list[bytes] = []
    for piece in pieces:
        *lines, rest = piece.split(b"\n")
        for line in lines:
            yield b"".join((*held, line, b"\n"))
            held = []
        held.append(rest)
    yield b"".join(held)


def _files_as_kept(store: Store, conversation: Conversation, kept: SessionFiles) -> Files:
    source = text_path(conversation.source or str(conversation.metadata.get("exported_as")))
    folder = _folder(source, kept)
    main = _inside(folder, kept.main or source.name)
    entry = store.catalogue.entry(conversation.id)
    turns = [turn for start, count in store.records.runs(conversation.head) for turn in range(start, start + count)]
    was = partial(main_as_imported, store, kept, entry.imported_head)
    if conversation.head == entry.imported and not entry.merged:
        for position, record in enumerate(stored_records(store, turns[: len(kept.first)])):
            yield File(_of_first(folder, kept, position), record)
        yield File(main, was())
    else:
        edited = Edited(store, conversation, entry.imported_head, kept)
        pieces = intact(path_text(main.name), edited.pieces, was, store.files.aside.scratch)
        if edited.each_a_file:
            named = _each_a_file(store, conversation, edited, kept, pieces)
            yield from (File(_inside(folder, name), record) for name, record in named)
        else:
            for position, turn in edited.first:
                yield File(_of_first(folder, kept, position), next(stored_records(store, [turn])))
            yield File(main, pieces)
        yield from (File(PurePath(name), (content,), shared=True) for name, content in edited.outside.items())
    has_folder = format_named(conversation.format).outputs_beside
    beside = files_beside(conversation.metadata, kept.sidecars, path_text(source.stem) if has_folder else "")
    yield from _sidecars(store, folder, beside)


def _each_a_file(
    store: Store, conversation: Conversation, edited: Edited, kept: SessionFiles, main: Iterable[bytes]
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the names and contents of files that hold a record each, in the order of the conversation."""
    had = {turn: kept.first[position] for position, turn in edited.first} | dict.fromkeys(edited.left, kept.main)
    new = dict(zip(edited.added, map(b"".join, stored_records(store, edited.added)), strict=True))
    turns = (turn for start, count in store.records.runs(conversation.head) for turn in range(start, start + count))
    left = [turn for turn in turns if turn in had or turn in new]
    files = [(had.get(turn, ""), new.get(turn, b"")) for turn in left]
    names = format_named(conversation.format).file_names(kept.main, files)
    assert names is not None
    for turn, name in zip(left, names, strict=True):
        if turn in new:
            yield name, (new[turn],)
        else:
            yield name, main if had[turn] == kept.main else next(stored_records(store, [turn]))


def content_beside(store: Store, conversation: Conversation, lost: Lost) -> Files:
    """Yield the files that the records of a session refer to beside it; ``lost`` is told of those that are missing."""
    format_ = format_named(conversation.format)
    if type(format_).blobs is Format.blobs or read_files(conversation.metadata) is None:
        return
    path = text_path(conversation.source or str(conversation.metadata.get("exported_as")))
    source = Source(format_.name, path, path)
    runs = store.records.runs(conversation.head)
    turns = [turn for run in runs for turn in store.turns.range(*run)]
    numbers = {turn.turn_id: number for number, turn in enumerate(turns, 1) if not turn.deleted}
    # larger ones were not looked into when they came in
    looked_into = [turn for turn in numbers if store.blobs.size(turns[numbers[turn] - 1].payload_hash) <= MAX_CUT_BYTES]
    seen: set[bytes] = set()
    for turn, pieces in zip(looked_into, stored_records(store, looked_into), strict=True):
        for blob in format_.blobs(source, b"".join(pieces)):
            if blob.place and blob.digest not in seen:
                seen.add(blob.digest)
                content = store.contents.aliased(blob.algorithm, blob.digest)
                if content is None:
                    lost(NOT_THERE, numbers[turn])
                else:
                    yield File(inside(PurePath(), PurePath(blob.place)), (blob.written(content),), shared=True)


def tell_left(conversation: Conversation, stage: Stage, lost: Lost) -> None:
    """Tell of files that lie beside a session, outputs of tools and the like, and that an export did not stage."""
    kept = read_files(conversation.metadata)
    describing: Set[str] = frozenset()
    with suppress(UsageError):
        # what came from no tool may say of any
        describing = format_named(conversation.format).describing
    beside = files_beside(conversation.metadata, kept.sidecars if kept else {}, "outputs")
    there = set(stage.hashes.values())
    left = [name for name, digest in beside.items() if digest not in there and name not in describing]
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        lost(f"what lies beside the session: {PurePath(left[0]).name!r}{more}")


def _sidecars(store: Store, folder: PurePath, sidecars: Mapping[str, str]) -> Files:
    for name, digest in sidecars.items():
        yield File(_inside(folder, name), store.blobs.pieces(named_hash(digest)))


def _folder(source: Path, kept: SessionFiles) -> PurePath:
    """Return the folder that a session's names are relative to: its files may lie beside the folders above it."""
    if kept.main:
        return PurePath(source.name)
    above = max((text_path(name).parts.count("..") for name in kept.first), default=0)
    return PurePath(*source.parent.parts[len(source.parent.parts) - above :])


def _of_first(folder: PurePath, kept: SessionFiles, position: int) -> PurePath:
    name = kept.first[position]
    if kept.main:
        return _inside(folder, name)
    return _inside(PurePath(), path_text(os.path.normpath(folder / text_path(name))))


def _inside(folder: PurePath, name: str) -> PurePath:
    return inside(folder, text_path(name))
