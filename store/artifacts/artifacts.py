"""The outputs kept beside conversations: written piece by piece, read in parts, numbered, moved.

An output that is being written is a file below ``scratch/.growing/``, which reserves its number: so outputs survive a
killed process, with the bytes that it had written. When an output ends, its content is chunked into the store and named
in the conversation's metadata, and the file is removed.

In a space, another machine may begin an output at the same moment. So a number is reserved in the metadata, too, until
the output ends: by a commit that nobody who reserves or ends another one may have come before. Where that has to wait,
as while the space is away, the output has a number that only this machine knows of, and a file that says so. So have
the outputs of the agents that such an agent starts, whose names begin with its id.
"""

import logging
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from store import paths
from store.artifacts.names import Output, above, free_name, identity, is_name, kept_output, kept_outputs, listed_name
from store.commit import patience
from store.commit.intake import Intake
from store.content.resolver import Reader
from store.conversations.contexts import Contexts
from store.conversations.library import Library
from store.disk import durable, files
from store.errors import Conflict, ConvfsError, NotFound, Unreachable, UsageError
from store.events.conversation import BEGUN, SORTS, Outputs
from store.index.catalogue import ContextEntry
from store.locks import Locks

log = logging.getLogger(__name__)

_READ_AT_ONCE = 1 << 20
_UNRESERVED = stat.S_ISVTX
"""The bit in the mode of an output's file that says that its number is not reserved: a new name takes it along."""
_FOLDER = re.compile(rf"([0-9]+)-({'|'.join(outputs.directory for outputs in SORTS)})")


class FileReader:
    """An output that is being written, readable up to its current end."""

    def __init__(self, path: Path) -> None:
        self._fd = files.lend(durable.open_file(path, read_only=True))

    def __del__(self) -> None:
        # made only if the file could be opened
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, size, offset)


class Numbers(NamedTuple):
    """The outputs of a conversation that hold a number: those that are begun, by key, and those kept, of one sort.

    ``written`` are those that are begun and not given up.
    """

    begun: dict[str, object]
    written: dict[str, object]
    kept: Mapping[str, Output]


class Artifacts:
    """The outputs of the conversations of one store. Safe to use from any thread.

    Calls raise NotFound for a missing context or output, OSError if the file of an output cannot be written, and the
    errors of the store.
    """

    def __init__(self, root: Path, library: Library, contexts: Contexts, intake: Intake, holder: str = "") -> None:
        """``holder`` is what a replica reserves numbers as, and no other; "" outside of spaces."""
        self._catalogue = library.catalogue
        self._blobs = library.contents.blobs
        self._contexts = contexts
        self._intake = intake
        self._root = root / paths.GROWING
        self._holder = holder
        self._numbering = Locks[int]()
        """Held while an output of a context is given its number, for which a space may be asked."""
        self._beginning: set[tuple[int, str]] = set()
        """The contexts and the keys of outputs that get their numbers now, and their files then."""
        self._renamed: dict[tuple[int, Outputs, str], str] = {}
        """The names that outputs were given in the place of those that they had before: by context, sort and name."""
        self.waiting: set[tuple[int, Outputs, str]] = set()
        """The outputs that have ended while the space was away: context, sort and name."""
        self.later: Callable[[int, Outputs, str], None] = lambda *ended: self.waiting.add(ended)
        """Called with each of them: whoever sets this sees to it that it is kept once the space is back."""

    def listed(self, context: int, outputs: Outputs) -> dict[str, Output]:
        """Return the outputs of a conversation by name, those that are being written up to their current end."""
        # first: what ends in between is in both, and not in neither
        growing = self.growing(context, outputs)
        return {**kept_outputs(self._blobs, self._catalogue.entry(context), outputs), **growing}

    def growing(self, context: int, outputs: Outputs) -> dict[str, Output]:
        with suppress(FileNotFoundError):
            names = os.listdir(self._folder(context, outputs))
            # one may have ended since
            found = ((name, self.growing_one(context, outputs, name)) for name in names)
            return {name: output for name, output in found if output is not None}
        return {}

    def growing_one(self, context: int, outputs: Outputs, name: str) -> Output | None:
        try:
            status = os.stat(self.path(context, outputs, name), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, NotFound):
            return None
        return Output(name, status.st_size, status.st_mtime_ns)

    def path(self, context: int, outputs: Outputs, name: str) -> Path:
        """Return the path of the file of an output that is being written. Raises NotFound for an invalid name."""
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise NotFound(f"{name!r} is no name for an output")
        return self._folder(context, outputs) / name

    def reader(self, context: int, outputs: Outputs, output: Output) -> Reader:
        """Open an output for reading in parts."""
        if output.blob is None:
            with suppress(FileNotFoundError):
                return FileReader(self.path(context, outputs, output.name))
            # it has ended since
            output = self._found(context, outputs, output.name)
        if output.blob is None:
            raise NotFound(f"{outputs.directory}/{output.name} is no longer there")
        return self._blobs.reader(output.blob)

    def _found(self, context: int, outputs: Outputs, name: str) -> Output:
        found = kept_output(self._blobs, self._catalogue.entry(context), outputs, name)
        if found is None:
            raise NotFound(f"there is no {outputs.directory}/{name}")
        return found

    def begin(
        self,
        context: int,
        outputs: Outputs,
        asked: str,
        *,
        parent: str = "",
        leaving: Set[str] = frozenset(),
    ) -> str:
        """Begin an output with the name ``asked``, and return the name under which it is listed.

        ``parent`` is the id of the agent that started its agent; outputs that are ``leaving`` no longer hold a number.
        Its number is left to :meth:`reserve` while the space is away. Raises as :func:`listed_name`.
        """
        with self._numbered(context):
            while True:
                numbers = self.numbers(context, outputs)
                taken = self.taken(context, outputs, numbers) - leaving
                name = listed_name(outputs, asked, taken, parent=parent)
                with self._begins(context, outputs.key + name), suppress(Conflict):
                    bits = 0
                    try:
                        if waiting := self._waiting_above(context, outputs, name):
                            raise Unreachable(f"the number of {outputs.directory}/{waiting[0]} is not reserved yet")
                        self._reserve(context, outputs, name, numbers)
                    except Unreachable:
                        bits = _UNRESERVED
                    os.close(self.open(context, outputs, name, bits=bits))
                    return name

    def _numbered(self, context: int) -> AbstractContextManager[object]:
        """Have others wait with the numbers of a context. Raises Unreachable where whoever has it waits too long."""
        return patience.held(self._numbering.of(context), "")

    @contextmanager
    def _begins(self, context: int, key: str) -> Iterator[None]:
        self._beginning.add((context, key))
        try:
            yield
        finally:
            self._beginning.discard((context, key))

    def numbers(self, context: int, outputs: Outputs) -> Numbers:
        """Return what holds the numbers of the outputs of a conversation now."""
        entry = self._catalogue.entry(context)
        begun = _begun(entry)
        return Numbers(begun, self._written(context, begun), kept_outputs(self._blobs, entry, outputs))

    def taken(self, context: int, outputs: Outputs, numbers: Numbers) -> set[str]:
        """Return the names of the outputs that hold a number, those among them that are written on this machine."""
        return self.growing(context, outputs).keys() | numbers.kept.keys() | _names(numbers.written, outputs)

    def _written(self, context: int, begun: Mapping[str, object]) -> dict[str, object]:
        """Return what is begun but for what this replica has given up: it has another name, or never got its file."""
        return {key: by for key, by in begun.items() if by != self._holder or self._has_file(context, key)}

    def _has_file(self, context: int, key: str) -> bool:
        if (context, key) in self._beginning:
            return True
        sorts = (outputs for outputs in SORTS if key.startswith(outputs.key))
        return any(self.growing_one(context, outputs, key.removeprefix(outputs.key)) is not None for outputs in sorts)

    def _reserve(self, context: int, outputs: Outputs, name: str, numbers: Numbers) -> None:
        """Reserve the number of an output, if nobody has taken or left one since ``numbers``; else raise Conflict."""
        key, begun = outputs.key + name, numbers.begun
        if not self._holder or begun.get(key) == self._holder:
            return

        def still() -> bool:
            # another one may have been begun and ended since, so that what is begun is the same
            return self.numbers(context, outputs).kept.keys() == numbers.kept.keys()

        changes: dict[str, object] = {BEGUN: {**numbers.written, key: self._holder}}
        self._contexts.exchange_metadata(context, changes, {BEGUN: begun or None}, still)

    def _waiting_above(self, context: int, outputs: Outputs, name: str) -> list[str]:
        """Return the agents, as :func:`above` does, that are being written under numbers that are not reserved."""
        found: list[str] = []
        for one in above(outputs, name):
            with suppress(FileNotFoundError):
                if not self.is_reserved(context, outputs, one):
                    found.append(one)
        return found

    def is_reserved(self, context: int, outputs: Outputs, name: str) -> bool:
        """Return whether the number of an output that is being written is reserved. Raises FileNotFoundError."""
        return not os.stat(self.path(context, outputs, name)).st_mode & _UNRESERVED

    def reserve(
        self, context: int, outputs: Outputs, name: str, renamed: Callable[[str, str], None] = lambda _old, _new: None
    ) -> str:
        """Reserve the number of an output that is being written, if that had to wait; return the name that it has then.

        That is another one, with the next number, if another machine has taken its own meanwhile. The agents above it
        come first, and one that gets another name takes the outputs below it along: ``renamed`` is called with each
        name and the one that took its place.
        """
        with self._numbered(context):
            while waiting := self._waiting_above(context, outputs, name):
                names = self._given_number(context, outputs, waiting[0])
                for old, new in names.items():
                    renamed(old, new)
                name = names.get(name, name)
            names = self._given_number(context, outputs, name)
            for old, new in names.items():
                renamed(old, new)
            return names.get(name, name)

    def _given_number(self, context: int, outputs: Outputs, name: str) -> dict[str, str]:
        """Reserve the number of one output, if that had to wait; return the new names, by those before."""
        path = self.path(context, outputs, name)
        while path.exists() and not self.is_reserved(context, outputs, name):
            growing = self.growing(context, outputs).keys()
            numbers = self.numbers(context, outputs)
            # without those of processes of this replica that were killed before they made the file
            begun = {key: holder for key, holder in numbers.begun.items() if holder != self._holder}
            elsewhere = numbers.kept.keys() | _names(begun, outputs)
            taken = elsewhere | (growing - {name})
            free = free_name(outputs, name, taken)
            try:
                self._reserve(context, outputs, free, numbers)
            except Conflict:
                continue
            names: dict[str, str] = {}
            if free != name:
                was, is_now = identity(outputs, name), identity(outputs, free)
                # first: a process that is killed in between does the same once more
                for below in sorted(one for one in growing if name in above(outputs, one)):
                    if not self.is_reserved(context, outputs, below):
                        names[below] = free_name(outputs, is_now + below.removeprefix(was), taken)
                        taken |= {names[below]}
                names[name] = free
                for old, new in names.items():
                    durable.replace(self.path(context, outputs, old), self.path(context, outputs, new))
                    self._renamed[context, outputs, old] = new
            self.mark(context, outputs, free, reserved=True)
            return names
        return {}

    def mark(self, context: int, outputs: Outputs, name: str, *, reserved: bool) -> None:
        """Note whether the number of an output that is being written is reserved; outside of spaces it always is."""
        if self._holder:
            path = self.path(context, outputs, name)
            mode = stat.S_IMODE(os.stat(path).st_mode) & ~_UNRESERVED
            os.chmod(path, mode if reserved else mode | _UNRESERVED)

    def _settle(self, context: int, key: str, changes: dict[str, object]) -> None:
        """Make changes of metadata, and no longer reserve the number of an output."""
        while key in (begun := _begun(self._catalogue.entry(context))):
            left = {other: by for other, by in self._written(context, begun).items() if other != key}
            with suppress(Conflict):
                self._contexts.exchange_metadata(context, {**changes, BEGUN: left or None}, {BEGUN: begun})
                return
        if changes:
            self._contexts.set_metadata(context, changes)

    def open(self, context: int, outputs: Outputs, name: str, *, bits: int = 0) -> int:
        """Open the file of an output for writing; return its descriptor. One that is made has ``bits`` in its mode."""
        path = self.path(context, outputs, name)
        durable.make_directories(path.parent)
        return durable.open_file(path, create=True, bits=bits)

    def name_now(self, context: int, outputs: Outputs, name: str) -> str:
        """Return the name of an output that was begun as ``name``: it may have got another number since."""
        while not self.path(context, outputs, name).exists() and (now := self._renamed.get((context, outputs, name))):
            name = now
        return name

    def add(self, context: int, outputs: Outputs, name: str, data: bytes, at: int | None = None) -> int:
        """Append to an output; return its length in bytes.

        ``at`` is the length before: of a repeated piece, only the missing part is added. Raises Conflict if the output
        is shorter.
        """
        fd = self._growing(context, outputs, self.name_now(context, outputs, name))
        try:
            size = os.fstat(fd).st_size
            at = size if at is None else at
            if at > size:
                raise Conflict(f"{outputs.directory}/{name} has {size} bytes, not {at}: go on from there")
            durable.pwrite_all(fd, data[size - at :], size)
            return max(size, at + len(data))
        finally:
            os.close(fd)

    def end(self, context: int, outputs: Outputs, name: str) -> Output:
        """Keep a written output, durably. An output that has ended is returned as it is.

        While the space is away, its bytes are made durable on this disk, and it is kept :attr:`later`: it has no blob
        until then.
        """
        try:
            return self._end(context, outputs, self.name_now(context, outputs, name))
        except Unreachable:
            name = self.name_now(context, outputs, name)
            output = self._synced(context, outputs, name)
            self.later(context, outputs, name)
            return output

    def _synced(self, context: int, outputs: Outputs, name: str) -> Output:
        """Make what was written of an output durable on this disk, and return it."""
        fd = self._growing(context, outputs, name)
        try:
            durable.fdatasync(fd)
            durable.sync_directory(self._folder(context, outputs))
            status = os.fstat(fd)
            return Output(name, status.st_size, status.st_mtime_ns)
        finally:
            os.close(fd)

    def _end(self, context: int, outputs: Outputs, name: str) -> Output:
        try:
            name = self.reserve(context, outputs, name)
            fd = self._growing(context, outputs, name)
        except NotFound:
            return self._found(context, outputs, name)
        with self._intake.reliance.relying():
            try:
                output = self.take(fd, name)
            finally:
                os.close(fd)
            self.keep(context, outputs, output)
        self.drop(context, outputs, name)
        return output

    def leave(self, context: int, outputs: Outputs, name: str) -> None:
        """No longer reserve the number of an output that is being written, which is about to be dropped."""
        with suppress(NotFound, FileNotFoundError):
            if self.is_reserved(context, outputs, name):
                self._settle(context, outputs.key + name, {})
                self.mark(context, outputs, name, reserved=False)

    def drop(self, context: int, outputs: Outputs, name: str) -> None:
        # in this order: while a space is away, the file stays with its number
        self.leave(context, outputs, name)
        with suppress(FileNotFoundError):
            durable.remove(self.path(context, outputs, name))

    def take(self, fd: int, name: str) -> Output:
        """Store the content of a file durably, for a caller in ``relying()``; holds a few MB of it in memory."""
        load = self._intake.load()
        modified_ns = os.fstat(fd).st_mtime_ns
        digest, size = load.stream(pieces(lambda offset, size: os.pread(fd, size, offset)))
        load.sync()
        return Output(name, size, modified_ns, digest)

    def left(self) -> Iterator[tuple[int, Outputs, str]]:
        """Yield the outputs that were not ended, as context, sort and name, with their written part after a power
        failure.

        An empty one, or one that is only a part of an output in the store, is dropped.
        """
        try:
            folders = sorted(os.listdir(self._root))
        except FileNotFoundError:
            return
        for folder in folders:
            if found := _FOLDER.fullmatch(folder):
                outputs = next(one for one in SORTS if one.directory == found[2])
                for name in sorted(os.listdir(self._root / folder)):
                    if self._was_written(int(found[1]), outputs, name):
                        yield int(found[1]), outputs, name

    def _was_written(self, context: int, outputs: Outputs, name: str) -> bool:
        """Cut unwritten bytes off the file of an output; return whether it still exists."""
        try:
            fd = durable.open_file(self.path(context, outputs, name))
        except FileNotFoundError:
            return False
        try:
            status = os.fstat(fd)
            if not durable.before_start(status):
                return True
            end = durable.written_end(fd)
            if end and not self._is_kept(fd, end, context, outputs, name):
                durable.truncate(fd, end)
                return True
        finally:
            os.close(fd)
        self.drop(context, outputs, name)
        return False

    def _is_kept(self, fd: int, end: int, context: int, outputs: Outputs, name: str) -> bool:
        """Return whether an output has ended before and began with the bytes of a file up to ``end``."""
        try:
            kept = kept_output(self._blobs, self._catalogue.entry(context), outputs, name)
        except NotFound:
            return False
        if kept is None or kept.blob is None or kept.size < end:
            return False
        reader = self._blobs.reader(kept.blob)
        for offset in range(0, end, _READ_AT_ONCE):
            size = min(_READ_AT_ONCE, end - offset)
            if os.pread(fd, size, offset) != reader.read(offset, size):
                return False
        return True

    def settle(self) -> None:
        """Keep the outputs that were not ended, as they are; one that fails is left for the next time."""
        for context, outputs, name in list(self.left()):
            # first: these may get other names
            with suppress(ConvfsError, OSError):
                self.reserve(context, outputs, name)
        self._keep_all(list(self.left()))

    def settle_waiting(self) -> None:
        """Keep the outputs that are :attr:`waiting`; those that still have to are again."""
        ended = list(self.waiting)
        self.waiting.difference_update(ended)
        self._keep_all(ended)

    def _keep_all(self, ended: Iterable[tuple[int, Outputs, str]]) -> None:
        for context, outputs, name in ended:
            try:
                self.end(context, outputs, name)
            except NotFound:
                # it was removed, or its conversation was
                continue
            except (ConvfsError, OSError) as error:
                log.error("%s/%s of context %d is kept at the next start: %s", outputs.directory, name, context, error)

    def _growing(self, context: int, outputs: Outputs, name: str) -> int:
        if is_name(outputs, name):
            with suppress(FileNotFoundError):
                return durable.open_file(self.path(context, outputs, name))
        raise NotFound(f"{outputs.directory}/{name} is not being written")

    def _folder(self, context: int, outputs: Outputs) -> Path:
        return self._root / f"{context}-{outputs.directory}"

    def keep(self, context: int, outputs: Outputs, output: Output) -> None:
        """Name an output in its conversation's metadata, replacing any of that name."""
        key = outputs.key + output.name
        self._settle(context, key, {key: _told(output)})

    def remove(self, context: int, outputs: Outputs, *names: str) -> None:
        """Remove outputs from a conversation. UsageError for files that came with a session: exports need them."""
        kept = kept_outputs(self._blobs, self._catalogue.entry(context), outputs)
        for name in names:
            if name in kept and kept[name].imported:
                raise UsageError(f"{outputs.directory}/{name} belongs to the session that was imported")
        self._contexts.set_metadata(context, {outputs.key + name: None for name in names if name in kept})

    def move(
        self,
        context: int,
        outputs: Outputs,
        name: str,
        to: str,
        *,
        target: int = 0,
        sort: Outputs | None = None,
        since: Numbers | None = None,
    ) -> None:
        """Give an output another name; in another conversation ``target``, among its outputs of ``sort``, if given.

        What has that name is replaced. Raises Conflict where another output there was begun or kept ``since``, the
        numbers that the name was chosen by (None: those of now). It is in one of the two places, whatever happens in
        between, and after an error in the old one.
        """
        output = self._found(context, outputs, name)
        target, sort = target or context, sort or outputs
        known = since or self.numbers(target, sort)
        if output.imported:
            raise UsageError(f"{outputs.directory}/{name} belongs to the session that was imported: copy it")

        def still() -> bool:
            return self.numbers(target, sort).kept == known.kept

        own, new = outputs.key + name, sort.key + to
        changes: dict[str, object] = {new: _told(output)}
        if target == context:
            changes[own] = None
            if own in known.begun:
                changes[BEGUN] = {key: by for key, by in known.written.items() if key != own} or None
        self._contexts.exchange_metadata(target, changes, {BEGUN: known.begun or None}, still)
        if target != context:
            try:
                self._settle(context, own, {own: None})
            except BaseException:
                before = known.kept.get(to)
                kept_before = before is not None and not before.imported
                self._contexts.set_metadata(target, {new: _told(before) if before and kept_before else None})
                raise


def _begun(entry: ContextEntry) -> dict[str, object]:
    """Return the outputs that machines of a space are writing, by their keys in metadata."""
    begun = entry.metadata.get(BEGUN)
    return begun if isinstance(begun, dict) else {}


def _names(begun: Mapping[str, object], outputs: Outputs) -> set[str]:
    """Return the names of the outputs of one sort among those that are being written."""
    return {key.removeprefix(outputs.key) for key in begun if key.startswith(outputs.key)}


def _told(output: Output) -> dict[str, object]:
    assert output.blob is not None
    return {"blob": output.blob.hex(), "size": output.size, "modified_ns": output.modified_ns}


def pieces(read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    """Yield the content that ``read`` gives a part of, by offset and size."""
    offset = 0
    while piece := read(offset, _READ_AT_ONCE):
        offset += len(piece)
        yield piece
