"""The outputs kept beside conversations: written piece by piece, read in parts, numbered, moved.

While one is written it is a file of its own below ``scratch/.growing/``, which is what numbers are taken by: so they go
on whatever process was killed when, and what it had written is still there. When it ends, its content is chunked into
the store and named in the conversation's metadata, and the file goes.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Set
from contextlib import suppress
from pathlib import Path

from store.artifacts.kept import Output, kept_output, kept_outputs, told
from store.artifacts.names import is_name, listed_name
from store.content.reader import Reader
from store.disk import durable
from store.errors import Conflict, ConvfsError, NotFound, UsageError
from store.events.outputs import SORTS, Outputs
from store.store import Store

log = logging.getLogger(__name__)

_READ_AT_ONCE = 1 << 20
_FOLDER = re.compile(rf"([0-9]+)-({'|'.join(outputs.directory for outputs in SORTS)})")


class FileReader:
    """An output that is being written, read as far as it has come."""

    def __init__(self, path: Path) -> None:
        self._fd = durable.open_file(path, read_only=True)

    def __del__(self) -> None:
        # made only if the file could be opened
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of it."""
        return os.pread(self._fd, size, offset)


class Artifacts:
    """The outputs of the conversations of one store. Safe to use from any thread.

    Calls raise NotFound for a context, or an output, that is not there, and what the store raises; OSError where the
    file of an output cannot be written.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._root = store.root / "scratch" / ".growing"

    # -- what there is ---------------------------------------------------------------------------------------------

    def listed(self, context: int, outputs: Outputs) -> dict[str, Output]:
        """Return the outputs of a conversation by name; those that are being written as far as they have come."""
        # first: what ends in between is in both, and not in neither
        growing = self.growing(context, outputs)
        return {**kept_outputs(self.store, self.store.entry(context), outputs), **growing}

    def growing(self, context: int, outputs: Outputs) -> dict[str, Output]:
        """Return the outputs of a conversation that are being written."""
        found = {}
        with suppress(FileNotFoundError), os.scandir(self._folder(context, outputs)) as entries:
            for entry in entries:
                # it may have ended since
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    found[entry.name] = Output(entry.name, status.st_size, status.st_mtime_ns)
        return found

    def growing_one(self, context: int, outputs: Outputs, name: str) -> Output | None:
        """Return an output of a conversation if it is being written."""
        try:
            status = os.stat(self.path(context, outputs, name), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Output(name, status.st_size, status.st_mtime_ns)

    def path(self, context: int, outputs: Outputs, name: str) -> Path:
        """Return where the file is, or would be, of an output that is being written."""
        return self._folder(context, outputs) / name

    def reader(self, context: int, outputs: Outputs, output: Output) -> Reader:
        """Begin to read an output in parts."""
        if output.blob is None:
            with suppress(FileNotFoundError):
                return FileReader(self.path(context, outputs, output.name))
            # it has ended since
            output = self._found(context, outputs, output.name)
        if output.blob is None:
            raise NotFound(f"{outputs.directory}/{output.name} is no longer there")
        return self.store.blob_reader(output.blob)

    def _found(self, context: int, outputs: Outputs, name: str) -> Output:
        found = kept_output(self.store, self.store.entry(context), outputs, name)
        if found is None:
            raise NotFound(f"there is no {outputs.directory}/{name}")
        return found

    # -- writing one -----------------------------------------------------------------------------------------------

    def begin(
        self, context: int, outputs: Outputs, asked: str, *, parent: str = "", leaving: Set[str] = frozenset()
    ) -> str:
        """Begin an output that is called ``asked``, and return the name that it is listed under.

        ``parent`` is the id of the agent whose agent's output it is; those that are ``leaving`` take no number any
        more. Raises as :func:`listed_name`.
        """
        with self.store.numbering:
            taken = self.listed(context, outputs).keys() - leaving
            name = listed_name(outputs, asked, taken, parent=parent)
            os.close(self.open(context, outputs, name))
        return name

    def open(self, context: int, outputs: Outputs, name: str) -> int:
        """Open the file of an output that is being written, or is about to be; return its descriptor."""
        path = self.path(context, outputs, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return durable.open_file(path, create=True)

    def add(self, context: int, outputs: Outputs, name: str, data: bytes, at: int | None = None) -> int:
        """Go on with an output; return how many bytes there are.

        ``at`` is how many there were before: of a piece that is added once more, only what is missing is. Conflict if
        there are fewer.
        """
        fd = self._growing(context, outputs, name)
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
        """Keep an output that was written: durable when it returns. One that has ended is returned as it is."""
        try:
            fd = self._growing(context, outputs, name)
        except NotFound:
            return self._found(context, outputs, name)
        with self.store.relying():
            try:
                output = self.take(fd, name)
            finally:
                os.close(fd)
            self.keep(context, outputs, output)
        self.drop(context, outputs, name)
        return output

    def drop(self, context: int, outputs: Outputs, name: str) -> None:
        """Drop what is being written under a name."""
        with suppress(FileNotFoundError):
            durable.remove(self.path(context, outputs, name))

    def take(self, fd: int, name: str) -> Output:
        """Bring the content of a file into the store, durably; holds a few MB of it.

        Nothing names it yet: the caller is in ``store.relying()`` until something does.
        """
        load = self.store.load()
        modified_ns = os.fstat(fd).st_mtime_ns
        digest, size = load.stream(_pieces(fd))
        load.sync()
        return Output(name, size, modified_ns, digest)

    def left(self) -> Iterator[tuple[int, Outputs, str]]:
        """Yield the outputs that nobody ended: context, sort and name."""
        try:
            folders = sorted(os.listdir(self._root))
        except FileNotFoundError:
            return
        for folder in folders:
            if found := _FOLDER.fullmatch(folder):
                outputs = next(one for one in SORTS if one.directory == found[2])
                for name in sorted(os.listdir(self._root / folder)):
                    yield int(found[1]), outputs, name

    def settle(self) -> None:
        """Keep the outputs that nobody ended, as they are; one that cannot be is left for the next time."""
        for context, outputs, name in list(self.left()):
            try:
                self.end(context, outputs, name)
            except (ConvfsError, OSError) as error:
                log.error("%s/%s of context %d is kept at the next start: %s", outputs.directory, name, context, error)

    def _growing(self, context: int, outputs: Outputs, name: str) -> int:
        """Open the file of an output that is being written."""
        if is_name(outputs, name) and "/" not in name:
            with suppress(FileNotFoundError):
                return durable.open_file(self.path(context, outputs, name))
        raise NotFound(f"{outputs.directory}/{name} is not being written")

    def _folder(self, context: int, outputs: Outputs) -> Path:
        return self._root / f"{context}-{outputs.directory}"

    # -- names -----------------------------------------------------------------------------------------------------

    def keep(self, context: int, outputs: Outputs, output: Output) -> None:
        """Name an output in its conversation's metadata, in the place of what had its name."""
        self.store.set_metadata(context, {outputs.key + output.name: _told(output)})

    def remove(self, context: int, outputs: Outputs, *names: str) -> None:
        """Remove outputs from a conversation. UsageError for what came beside a session: it is exported again."""
        kept = kept_outputs(self.store, self.store.entry(context), outputs)
        for name in names:
            if name in kept and kept[name].imported:
                raise UsageError(f"{outputs.directory}/{name} belongs to the session that was imported")
        self.store.set_metadata(context, {outputs.key + name: None for name in names if name in kept})

    def move(
        self, context: int, outputs: Outputs, name: str, to: str, *, target: int = 0, sort: Outputs | None = None
    ) -> None:
        """Give an output another name; in another conversation ``target``, among its outputs of ``sort``, if given.

        It is at one of the two places, whatever happens in between, and after an error where it was.
        """
        output = self._found(context, outputs, name)
        target, sort = target or context, sort or outputs
        told: dict[str, object] = {sort.key + to: _told(output)}
        if output.imported:
            raise UsageError(f"{outputs.directory}/{name} belongs to the session that was imported: copy it")
        if target == context:
            self.store.set_metadata(context, {outputs.key + name: None, **told})
            return
        before = self.store.entry(target).metadata.get(sort.key + to)
        self.store.set_metadata(target, told)
        try:
            self.store.set_metadata(context, {outputs.key + name: None})
        except BaseException:
            self.store.set_metadata(target, {sort.key + to: before})
            raise


def _told(output: Output) -> dict[str, object]:
    assert output.blob is not None
    return told(output.blob, output.size, output.modified_ns)


def _pieces(fd: int) -> Iterator[bytes]:
    offset = 0
    while piece := os.pread(fd, _READ_AT_ONCE, offset):
        offset += len(piece)
        yield piece
