"""Files in ``artifacts/`` and ``agents/`` that programs make, write, move and remove.

A new file gets its number at once and is listed under it; the typed name leads to it until the mount ends. It grows on
the disk, and when it is closed for the last time a thread brings it into the store, however large it is. A file that
has been opened again or changed meanwhile waits until it is closed.

What cannot be kept now, as while the space is away, is noted, and tried again until it is kept: as soon as the space is
back, else in growing intervals. The number of one that is begun while the space is away is reserved then, too. If
another machine has taken it, the output gets the next one, and so do those of the agents that its agent has started.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, TypeVarTuple, Unpack

import trio
from msgspec import Struct
from pyfuse3 import FUSEError

from fusefs import inodes as numbers
from fusefs.editing.delays import Clock
from fusefs.editing.drafts import Drafts
from fusefs.editing.inode import Inodes, OrphanFile, ScratchRole
from fusefs.editing.records import EventCommits
from fusefs.editing.removal import Removing
from fusefs.editing.scratch import ScratchFile
from fusefs.editing.stand_in import StandIn
from fusefs.inodes import Space
from fusefs.tree.changes import Stale
from fusefs.tree.node import Bytes, Directory, Node, OpenContent
from fusefs.tree.outputs import PLACES, OutputFile, OutputsDirectory, found
from fusefs.tree.tree import Key
from store.artifacts.names import Output, kept_output, kept_outputs, listed_name, may_name
from store.disk import durable, files
from store.errors import Conflict, ConvfsError, NotFound, StoreFailed, Unreachable
from store.events.conversation import Outputs as Sort

log = logging.getLogger(__name__)

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

LARGEST_COPY = 64 << 20
"""Bytes of an output that is written to without being written anew: all of it is copied first."""

_COPIED_AT_ONCE = 1 << 20
_END_SECONDS = 60.0
_LOOK_SECONDS = 0.25
"""How often it is looked whether what waits can be kept."""
_FIRST_SECONDS = 1.0
_AGAIN_SECONDS = 16.0
"""The intervals of trying again where it fails though the space is there: the first, and the longest."""


class OutputRole(ScratchRole):
    """A file in ``artifacts/`` or ``agents/``, copied on the first write. A removed one has no name in its key."""

    __slots__ = ("_opened", "_outputs", "_shown", "key")

    def __init__(self, outputs: Outputs, key: Key, fd: int = -1, opened: Output | None = None) -> None:
        """``opened`` is the output as it was then: if another machine takes it away, that is read."""
        super().__init__(fd)
        self.key = key
        self._outputs = outputs
        self._opened = opened
        self._shown: OpenContent | None = None

    def read(self, offset: int, size: int) -> bytes:
        if self.fd >= 0:
            return super().read(offset, size)
        if self._shown is None:
            if self._opened is None:
                raise FUSEError(errno.ESTALE)
            self._shown = self._outputs.reader(self.key, self._opened)
        return self._shown.read(offset, size)

    def write(self, offset: int, data: bytes) -> int:
        self._begin(anew=False)
        return super().write(offset, data)

    def truncate(self, size: int) -> None:
        self._begin(anew=size == 0)
        super().truncate(size)

    def sync(self, *, data_only: bool) -> None:
        if self.fd >= 0:
            super().sync(data_only=data_only)
            durable.note_synced(self.fd)
            if self.key.name:
                durable.sync_directory(self._outputs.path(self.key).parent)

    def release(self) -> None:
        """Close the file and keep it, unless it was removed."""
        if self.fd >= 0:
            super().release()
            if self.key.name:
                self._outputs.keep(self.key)

    def _begin(self, *, anew: bool) -> None:
        if self.fd < 0:
            if not self.key.name:
                raise FUSEError(errno.ESTALE)
            self.fd = self._outputs.begin(self.key, anew=anew)


class _Waiting(Struct):
    """An output that could not be kept: its note, the monotonic time to try again at, and the interval before that."""

    note: str
    reason: str
    again: float = 0.0
    interval: float = _FIRST_SECONDS


class Outputs(Removing[Key, None]):
    """The outputs of one mount. Those that are being removed are hidden until then, or until they come back."""

    what = "outputs"

    def __init__(
        self, inodes: Inodes, records: EventCommits, drafts: Drafts, stand_in: StandIn, clock: Clock
    ) -> None:
        super().__init__(inodes.tree, clock, drafts)
        self._kernel = inodes.kernel
        self._inodes = inodes
        self._records = records
        self._known = inodes.tree.outputs
        self._artifacts = inodes.tree.outputs.artifacts
        self._closed: queue.SimpleQueue[Key | None] = queue.SimpleQueue()
        self._waiting: dict[Key, _Waiting] = {}
        """Outputs that could not be kept, or reserved; of the thread alone."""
        self._stand_in = stand_in
        self._thread = threading.Thread(target=self._run, name="outputs", daemon=True)

    def asked(self, directory: Directory, name: bytes) -> Key | None:
        """Return the output that a name is, or asks for; None if it is a program's own file, or elsewhere."""
        if not isinstance(directory, OutputsDirectory):
            return None
        try:
            text = name.decode()
        except UnicodeDecodeError:
            return None
        return directory.key(text) if may_name(text) else None

    def shown(self, key: Key) -> OutputFile | None:
        """Return the node of an output if there is one, and it is not being removed."""
        is_there = key not in self._known.hidden and found(self._tree, self._tree.view(key.view_id), key) is not None
        return self.file(key) if is_there else None

    def file(self, key: Key) -> OutputFile:
        """Return the node of an output."""
        return OutputFile(self._tree, self._known.ino(key), key)

    def growing(self, key: Key) -> bool:
        """Return whether an output is a file on the disk."""
        return self._artifacts.growing_one(self.context(key), key.outputs, key.name) is not None

    def path(self, key: Key) -> Path:
        """Return the path of that file, whether it exists or not."""
        return self._artifacts.path(self.context(key), key.outputs, key.name)

    def context(self, key: Key) -> int:
        """Return the conversation that an output is kept beside."""
        return self._records.context(key.view_id)

    def create(self, directory: Directory, name: bytes, flags: int) -> tuple[Node, OutputRole] | None:
        """Make an output and open it, or open one that is there; None where a name is meant for something else."""
        key = self.asked(directory, name)
        if key is None:
            return None
        node = self.shown(key)
        if node is not None:
            if flags & os.O_EXCL:
                raise FUSEError(errno.EEXIST)
            return node, self.open(node, flags)
        if key in self._known.hidden:
            # it was removed to be written anew
            self._known.hidden.discard(key)
            node = self.file(key)
            return node, self.open(node, os.O_TRUNC)
        files.check()
        context = self.context(key)
        leaving = self._known.leaving(key)
        begun = self._artifacts.begin(context, key.outputs, key.name, leaving=leaving)
        listed = key._replace(name=begun)
        self.called(key, listed)
        if self._waits(listed):
            self._closed.put(listed)
        node = self.file(listed)
        return node, OutputRole(self, listed, self._artifacts.open(context, key.outputs, listed.name))

    def called(self, asked: Key, listed: Key) -> None:
        """Make a name that somebody typed lead to an output."""
        if asked != listed:
            self._known.aliases[asked] = listed.name

    def open(self, node: OutputFile, flags: int) -> OutputRole:
        """Open an output for writing."""
        handle = OutputRole(self, node.key, opened=node.output)
        if flags & os.O_TRUNC:
            handle.truncate(0)
        elif self.growing(node.key):
            handle.fd = self.begin(node.key, anew=False)
        return handle

    def reader(self, key: Key, opened: Output) -> OpenContent:
        """Return the content of an output; as it was when it was opened, if there is none of that name any more."""
        # what has taken its place is in the kernel's cache, too, and that is one for all who have it open
        now = found(self._tree, self._tree.view(key.view_id), key)
        return self._artifacts.reader(self.context(key), key.outputs, now or opened)

    def begin(self, key: Key, *, anew: bool) -> int:
        """Return the descriptor of the file that an output is written as, with what there is of it unless ``anew``."""
        kept = None
        if not anew and not self.growing(key):
            node = self.file(key)
            if node.output.size > LARGEST_COPY:
                raise FUSEError(errno.EFBIG)
            kept = node.begin()
        files.check()
        fd = self._artifacts.open(self.context(key), key.outputs, key.name)
        offset = 0
        while kept is not None and (piece := kept.read(offset, _COPIED_AT_ONCE)):
            durable.pwrite_all(fd, piece, offset)
            offset += len(piece)
        return fd

    def truncate(self, node: OutputFile, size: int) -> None:
        """Make an output ``size`` bytes long by its name."""
        if size != node.output.size:
            handle = OutputRole(self, node.key)
            try:
                handle.truncate(size)
            finally:
                handle.release()

    def set_time(self, node: OutputFile, time_ns: int) -> None:
        """Set the time of an output that is being written; one that is kept has that of its last write."""
        with suppress(FileNotFoundError):
            os.utime(self.path(node.key), ns=(time_ns, time_ns))

    def start(self) -> None:
        """Begin, with what an earlier mount left."""
        for context, outputs, name in self._artifacts.left():
            self._closed.put(Key(self._tree.view_id(context), outputs, name))
        self._artifacts.later = self._later
        self._thread.start()

    def _later(self, context: int, outputs: Sort, name: str) -> None:
        """Keep an output that a program has ended over the socket; called by any thread but the loop's."""
        with suppress(trio.RunFinishedError):
            # else the next start does
            self._closed.put(Key(self._in_loop(self._tree.view_id, context), outputs, name))

    def keep(self, key: Key) -> None:
        """Keep an output that was closed. An empty one waits: programs make files before they write to them."""
        if not self._is_open(key) and os.stat(self.path(key)).st_size:
            self._closed.put(key)

    def close(self) -> None:
        """Remove everything that is being removed, and keep all that is left, empty or not; the loop has ended."""
        super().close()
        self._closed.put(None)
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)
        self._artifacts.settle()

    def _run(self) -> None:
        with suppress(trio.RunFinishedError):
            while True:
                try:
                    key = self._closed.get(timeout=_LOOK_SECONDS if self._waiting else None)
                    if key is None:
                        return
                    self._try(key)
                except queue.Empty:
                    self._try_again()

    def _try_again(self) -> None:
        if self._away():
            for one in self._waiting.values():
                one.again, one.interval = 0.0, _FIRST_SECONDS
            return
        now = time.monotonic()
        for key in [key for key, one in self._waiting.items() if now >= one.again]:
            self._try(key)

    def _away(self) -> str:
        replica = self._tree.store.replica
        return replica.status() if replica is not None else ""

    def _try(self, key: Key) -> None:
        """Keep an output, or reserve its number if it is open; note why that has to wait."""
        waiting = self._waiting.pop(key, None)
        try:
            if away := self._away():
                raise Unreachable(away)
            self._take(key)
        except (FileNotFoundError, NotFound):
            # removed since, or its conversation was
            pass
        except trio.RunFinishedError:
            raise
        except Exception as error:
            if not isinstance(error, (StoreFailed, OSError)):
                log.exception("%s/%s is not kept yet", key.outputs.directory, key.name)
            with suppress(NotFound):
                # else its conversation was removed
                self._waiting[key] = self._in_loop(self._wait, key, str(error), waiting)
            return
        if waiting is not None:
            self._in_loop(self._drafts.withdraw, waiting.note)

    def _wait(self, key: Key, reason: str, waiting: _Waiting | None) -> _Waiting:
        if waiting is None or waiting.reason != reason:
            where = f"{key.outputs.directory}/{key.name}"
            note = self._drafts.note(key.view_id, where, f"{reason}; it is on this disk, and kept as soon as it can be")
            waiting = _Waiting(note, reason)
        else:
            waiting.interval = min(2 * waiting.interval, _AGAIN_SECONDS)
        waiting.again = time.monotonic() + waiting.interval
        return waiting

    def _in_loop(self, call: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
        return self._stand_in.from_thread(call, *arguments, commits=True)

    def _take(self, key: Key) -> None:
        if self._in_loop(self._is_named_anew, key) or self._in_loop(self._is_open, key):
            # it comes once more, or is kept once it is closed
            return
        path = self._in_loop(self.path, key)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            before = os.fstat(fd)
            with self._tree.store.intake.reliance.relying():
                output = self._artifacts.take(fd, key.name)
                self._in_loop(self._keep, key, before, output)
        finally:
            os.close(fd)

    def _is_named_anew(self, key: Key) -> bool:
        """Have the number of an output reserved; return whether it has another then, with which programs go on."""

        def renamed(old: str, new: str) -> None:
            self._renamed(key._replace(name=old), key._replace(name=new))

        return self._artifacts.reserve(self.context(key), key.outputs, key.name, renamed) != key.name

    def _renamed(self, key: Key, new: Key) -> None:
        """Have programs go on with an output whose file has got another name."""
        self._hand_on(key, new)
        for alias, listed in list(self._known.aliases.items()):
            if alias._replace(name=listed) == key:
                self._known.aliases[alias] = new.name
                self._kernel.invalidate(Stale(self._place(alias), alias.name.encode()))
        self._kernel.invalidate(Stale(self._place(key), key.name.encode()))
        self._tree.renew(key.view_id)
        self._goes_on(self._known.ino(key), new)
        self._closed.put(new)

    def _hand_on(self, old: Key, new: Key) -> None:
        for role in self._inodes.roles(OutputRole):
            if role.key == old:
                role.key = new

    def _goes_on(self, ino: int, new: Key) -> None:
        """Have an inode number lead to an output that has another name: the kernel knows it by that until it looks."""
        self._known.forget(ino)
        if ino in self._kernel.lookups:
            self._tree.bind(ino, OutputFile(self._tree, ino, new))

    def _keep(self, key: Key, before: os.stat_result, output: Output) -> None:
        """Name an output whose content is in the store, unless it has changed meanwhile; called in the loop."""
        path = self.path(key)
        now = os.stat(path)
        was, is_ = ((one.st_ino, one.st_size, one.st_mtime_ns) for one in (before, now))
        if was != is_ or self._is_open(key):
            return
        context = self.context(key)
        self._artifacts.keep(context, key.outputs, output)
        self._tree.renew(key.view_id)
        self._artifacts.drop(context, key.outputs, key.name)

    def _is_open(self, key: Key) -> bool:
        return any(role.key == key and role.fd >= 0 for role in self._inodes.roles(OutputRole))

    def remove(self, node: OutputFile) -> None:
        """Remove an output: at once if it was never kept, else a moment later. Open files keep its content."""
        key = node.key
        kept = self._kept(key)
        if self.growing(key):
            # first: nothing is changed where the space is away
            self._artifacts.leave(self.context(key), key.outputs, key.name)
        self._orphan(node, self._nameless(node))
        if self.growing(key):
            self._artifacts.drop(self.context(key), key.outputs, key.name)
        if kept is not None:
            self._hide(key)
        self._forget_names(key)

    def _hide(self, key: Key) -> None:
        self._known.hidden.add(key)
        self._removed.hide(key.view_id, key, None)

    def _kept(self, key: Key) -> Output | None:
        if self._waits(key):
            # what has its name is another machine's
            return None
        store = self._tree.store
        return kept_output(store.blobs, store.catalogue.entry(self.context(key)), key.outputs, key.name)

    def _waits(self, key: Key) -> bool:
        """Return whether an output is being written under a number that is not reserved yet."""
        with suppress(FileNotFoundError):
            return not self._artifacts.is_reserved(self.context(key), key.outputs, key.name)
        return False

    def _nameless(self, node: OutputFile) -> OrphanFile | None:
        """Return what an output is for programs that have it open, once it has lost its name.

        None if nobody has, and for a file on the disk.
        """
        if self.growing(node.key) or node.ino not in self._kernel.lookups:
            return None
        content: OpenContent = Bytes(b"")
        try:
            content = node.begin()
        except ConvfsError as error:
            log.warning("%s: %s", node.label(), error)
        return OrphanFile(node.ino, content, node.output.size)

    def _orphan(self, node: OutputFile, nameless: OrphanFile | None) -> None:
        """Keep the contents of an output that loses its name, for programs that have it open."""
        for role in self._inodes.roles(OutputRole):
            if role.key == node.key:
                role.key = node.key._replace(name="")
        if node.ino not in self._kernel.lookups:
            self._known.forget(node.ino)
            return
        key = node.key
        if self.growing(key):
            self._inodes.scratch.give(node.ino, os.fsencode(self.path(key)), self._place(key)).hold()
        elif nameless is not None:
            self._tree.bind(node.ino, nameless)
        self._known.forget(node.ino)

    def _forget_names(self, key: Key) -> None:
        for alias in [alias for alias, name in self._known.aliases.items() if alias._replace(name=name) == key]:
            del self._known.aliases[alias]
            self._kernel.invalidate(Stale(self._place(key), alias.name.encode()))
        self._kernel.invalidate(Stale(self._place(key), key.name.encode()))

    def _place(self, key: Key) -> int:
        place = next(place for place, outputs in PLACES.items() if outputs == key.outputs)
        return numbers.base(Space.PLACE, key.view_id) + place

    def _remove(self, view_id: int) -> None:
        """Finish the removals of one conversation. Outputs that came with an import are there again."""
        hidden = [key for key in self._removed.take(view_id) if key in self._known.hidden]
        try:
            for outputs in PLACES.values():
                names = [key.name for key in hidden if key.outputs == outputs]
                if not names:
                    continue
                context = self._records.context(view_id)
                kept = kept_outputs(self._tree.store.blobs, self._tree.store.catalogue.entry(context), outputs)
                self._artifacts.remove(
                    context, outputs, *(name for name in names if name in kept and not kept[name].imported)
                )
            self._tree.renew(view_id)
        except Unreachable:
            self._put_back(view_id, dict.fromkeys(hidden))
            raise
        finally:
            if view_id not in self._removed:
                self._known.hidden.difference_update(hidden)

    def drop(self, view_id: int) -> None:
        """Cancel the removals in a conversation: all of it is removed, or nothing."""
        self._known.hidden.difference_update(self._removed.take(view_id))
        self._waits_no_more(view_id)

    def move(self, source: OutputFile, directory: OutputsDirectory, asked: Key) -> None:
        """Give an output another name, maybe in another conversation; what had that is replaced."""
        old = source.key
        growing, kept = self.growing(old), self._kept(old)
        replaced = self.shown(asked)
        reserved = replaced is not None and not self._waits(replaced.key)
        nameless = self._nameless(replaced) if replaced is not None and replaced.key != old else None
        # first: it is one step, and the files on the disk come after it
        new = self._moved(old, asked, is_kept=kept is not None, replaces=replaced is not None)
        if old == new:
            return
        if replaced is not None:
            self._orphan(replaced, nameless)
        if growing:
            path = self.path(new)
            durable.make_directories(path.parent)
            durable.replace(self.path(old), path)
            self._artifacts.mark(self.context(new), new.outputs, new.name, reserved=reserved or kept is not None)
        else:
            # the writes to it were replaced, too
            self._artifacts.drop(self.context(new), new.outputs, new.name)
        self._hand_on(old, new)
        self._known.hidden.discard(new)
        self._forget_names(old)
        self.called(asked, new)
        for view_id in {old.view_id, new.view_id}:
            self._tree.renew(view_id)
        self._goes_on(source.ino, new)
        self._kernel.invalidate(Stale(directory.ino, asked.name.encode()))
        if growing:
            self.keep(new)

    def _moved(self, old: Key, asked: Key, *, is_kept: bool, replaces: bool) -> Key:
        """Choose the name of an output that is moved to ``asked``, and have it kept under that if it was kept before.

        Raises Conflict where ``asked`` has become the name of another machine's since it was looked up.
        """
        while True:
            since = self._artifacts.numbers(self.context(asked), asked.outputs)
            if not replaces and asked != old and self.shown(asked) is not None:
                raise Conflict(f"{asked.outputs.directory}/{asked.name} is another machine's by now")
            new = self._new_name(asked, old)
            if old == new or not is_kept:
                return new
            try:
                self._artifacts.move(
                    self.context(old), old.outputs, old.name, new.name,
                    target=self.context(new), sort=new.outputs, since=since,
                )  # fmt: skip
            except Conflict:
                # others have begun or kept some since: there may be another next number
                continue
            return new

    def take(self, source: ScratchFile, path: bytes, directory: OutputsDirectory, asked: Key) -> None:
        """Turn a scratch file that is moved here into an output, replacing the one of that name."""
        key = self._new_name(asked, None)
        replaced = self.shown(key)
        reserved = replaced is not None and not self._waits(key)
        if replaced is not None:
            self._orphan(replaced, self._nameless(replaced))
        to = self.path(key)
        durable.make_directories(to.parent)
        # programs that have it open go on with it
        source.hold()
        durable.replace(Path(os.fsdecode(path)), to)
        self._artifacts.mark(self.context(key), key.outputs, key.name, reserved=reserved)
        self._known.hidden.discard(key)
        self.called(asked, key)
        self._inodes.be_candidate(source.ino, None)
        node = self.file(key)

        def goes_on(ino: int, earlier: ScratchRole) -> OutputRole | None:
            return OutputRole(self, key, earlier.fd) if ino == source.ino else None

        self._inodes.take_over(node.ino, ScratchRole, goes_on)
        self._kernel.invalidate(Stale(directory.ino, asked.name.encode()))
        self.keep(key)

    def give(self, source: OutputFile, path: bytes, above: int) -> None:
        """Make a scratch file at ``path`` of an output; EXDEV for a large one that is kept: programs copy it."""
        key = source.key
        to = Path(os.fsdecode(path))
        kept = self._kept(key)
        if self.growing(key):
            self._artifacts.mark(self.context(key), key.outputs, key.name, reserved=True)
            durable.replace(self.path(key), to)
        elif (output := source.output).size > LARGEST_COPY:
            raise FUSEError(errno.EXDEV)
        else:
            self._drafts.put_copy(to, source.begin().read(0, LARGEST_COPY), output.modified_ns)

        def goes_on(_ino: int, earlier: OutputRole) -> ScratchRole | None:
            if earlier.key != key:
                return None
            return ScratchRole(earlier.fd if earlier.fd >= 0 else os.open(path, os.O_RDWR | os.O_CLOEXEC))

        self._inodes.take_over(source.ino, OutputRole, goes_on)
        if kept is not None:
            self._hide(key)
        self._forget_names(key)
        self._known.forget(source.ino)
        self._inodes.scratch.give(source.ino, path, above)

    def _new_name(self, asked: Key, source: Key | None) -> Key:
        """Return the name that an output gets which is moved to ``asked``: with a number, its own if it has one."""
        if self.shown(asked) is not None or asked in self._known.hidden:
            return asked
        context = self.context(asked)
        numbers = self._artifacts.numbers(context, asked.outputs)
        taken = self._artifacts.taken(context, asked.outputs, numbers) - self._known.leaving(asked)
        if source is not None and source._replace(name=asked.name) == asked:
            taken.discard(source.name)
        return asked._replace(name=listed_name(asked.outputs, asked.name, taken))
