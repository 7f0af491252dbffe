"""A replica: a store that takes part in a space, and follows it.

What a commit names is *held*, in the space's packs or in the entries of its log, before the entry that names it is
appended: a pack of this machine alone does not count. So what loads write is published before it is filed (``Intake``),
and the file ``published`` has how far that has come. What lies behind that place when a store is opened, perhaps from a
process that was killed in between, is published before anything is committed.

Packs of other machines are fetched whole, and their records written to the packs of this one, before the entries that
may name them are applied. The numbers of packs differ from machine to machine; the logs are the same, byte by byte.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from store import paths, typed
from store.commit.intake import Intake
from store.commit.writer import Writer
from store.content.sealed import names_of
from store.disk import blob_format, durable
from store.disk.blob_format import HEAD_SIZE, OVERHEAD, Record, decode_record, encode_record
from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import decode_all
from store.disk.journal_format import decode_entry, entry_seq
from store.errors import DamageError, FormatTooNew, NotFound, StoreFailed, StoreFull, Unreachable
from store.ids import Hash
from store.shared.connect import enter
from store.shared.entry import BEGINNING, Entry, chained, new_token
from store.shared.history import Reached, chain_at
from store.shared.packs import Packs
from store.shared.space import Membership, Space

if TYPE_CHECKING:
    from store.shared.access import Access

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""How often the space is looked at, where it does not tell of what comes."""
_PAUSE_SECONDS = 0.005
_PUBLISHED_BYTES = 16 << 20
_HISTORY_COMMITS = 1024
"""How many frames may come before the history of a replica is noted again."""
_ANOTHER = "make another replica with convfs remote join; what this one has can still be read"


class Published(Struct, frozen=True):
    """Up to where the packs of a replica are in its space, the last of the space's that it has taken, its history."""

    pack: int = 1
    length: int = HEADER_SIZE
    taken: int = 0
    reached: Reached = Reached()


class Replica:
    """Puts a store's commits in the order of its space, and applies those of others, in a thread of its own."""

    shared = True

    def __init__(self, root: Path, member: Membership, writer: Writer, intake: Intake) -> None:
        self.member = member
        self._root = root
        self.access: Access | None = None
        """The keys of the space, once it was reached; None if it is not encrypted."""
        self._path = root / paths.PUBLISHED
        self._writer = writer
        self._intake = intake
        self._space: Space | None = None
        self._packs: Packs | None = None
        self._connecting = threading.RLock()
        self._chain = (0, BEGINNING)
        """The ``seq`` of the last entry that was appended or read, and its chain."""
        self._ahead: Sequence[Entry] = ()
        """The entries that came with a refusal."""
        self._own: set[int] = set()
        """The packs that were published by this process."""
        self._away = ""
        """The reason why the space could not be asked the last time."""
        self._noting = threading.Lock()
        self._published = self._read()
        self._complete = False
        """True once the space has all that an earlier process wrote: until then the place to begin at stays."""
        self._looks_at = 0.0
        """When it is looked next for who wants to join."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="convfs-following", daemon=True)
        intake.publish = self._publish
        intake.published = self._note
        writer.order = self

    def start(self) -> None:
        """Catch up if the space can be reached, and go on in the background."""
        try:
            self._catch_up()
        except (Unreachable, StoreFull) as error:
            self._note_away(error)
        except StoreFailed as error:
            _LOG.warning("%s", error)
        self._thread.start()

    def close(self) -> None:
        """Follow no more. Nothing may be committed afterwards."""
        self._ended.set()
        with self._connecting:
            if self._space is not None:
                self._space.log.wake()
        if self._thread.is_alive():
            self._thread.join()

    def disconnect(self) -> None:
        """Let go of the space, once everything has been written."""
        with self._connecting:
            if self._space is not None:
                self._space.close()
                self._space = None
                self._keep_history(self._writer.seq)

    def status(self) -> str:
        """Return "" if the space was there when it was asked last, else the reason why not."""
        return self._away

    # -- the order -------------------------------------------------------------------------------------------------

    def append(self, expected: int, entry: bytes) -> bool:
        space, packs = self._connected()
        if self.member.only_follows:
            raise Unreachable(f"this replica of the space {self.member.space} only follows it")
        if expected >= self._published.reached.seq + _HISTORY_COMMITS:
            self._keep_history(expected)
        chain = chained(self._chain_at(expected), entry)
        placed = Entry(
            expected, entry_seq(entry), new_token(), self.member.number, 0, packs.reached, chain, entry
        )
        try:
            self._ahead = space.log.append(placed)
        except DamageError as error:
            raise self._only_read(str(error)) from error
        if self._ahead:
            return False
        self._chain = (placed.seq, chain)
        return True

    def entries(self, after: int) -> Sequence[bytes]:
        space, packs = self._connected()
        ahead, self._ahead = self._ahead, ()
        try:
            found = ahead if ahead and ahead[0].prev == after else space.log.entries(after)
            if not found:
                return ()
            chain = self._chain_at(after)
            for entry in found:
                chain = chained(chain, entry.body)
                # the entries of format 1 have none
                if chain != (entry.chain or chain):
                    raise DamageError(f"commit {entry.seq} of the space {self.member.space} follows another history")
            if max(entry.packs for entry in found) > self._published.taken:
                # what these name was published before them
                self._take(packs)
        except DamageError as error:
            raise self._only_read(str(error)) from error
        self._chain = (found[-1].seq, chain)
        return [entry.body for entry in found]

    def turn(self) -> AbstractContextManager[None]:
        return self._connected()[0].log.turn()

    def _chain_at(self, seq: int) -> bytes:
        if self._chain[0] != seq:
            # what came last was not applied
            self._chain = (seq, self._logged_chain(seq))
            if not self._chain[1]:
                raise self._only_read(f"the history of this replica, up to commit {seq}, cannot be read: {_ANOTHER}")
        return self._chain[1]

    def _logged_chain(self, seq: int) -> bytes:
        writer = self._writer
        return chain_at(seq, self._published.reached, writer.turns, writer.head_log)

    def _keep_history(self, seq: int) -> None:
        """Note the place that the logs have reached: the commit ``seq`` is the last one in them."""
        writer = self._writer
        if self._chain[0] == seq:
            reached = Reached(seq, writer.turns.count, writer.head_log.length, self._chain[1].hex())
            with self._noting:
                self._write(msgspec.structs.replace(self._published, reached=reached))

    # -- the space -------------------------------------------------------------------------------------------------

    def _connected(self) -> tuple[Space, Packs]:
        """Return the space and its packs; the first time, see that it is the right one, and bring it what it lacks."""
        with self._connecting:
            if self._space is None or self._packs is None:
                try:
                    space, self.access = enter(self._root, self.member)
                except NotFound as error:
                    raise Unreachable(str(error)) from error
                except (DamageError, FormatTooNew) as error:
                    raise self._only_read(str(error)) from error
                try:
                    if problem := self._problem(space):
                        raise self._only_read(f"{problem}: {_ANOTHER}")
                    packs = Packs(space, self.member.number)
                    packs.known(self._published.taken)
                    self._publish_rest(packs)
                except DamageError as error:
                    space.close()
                    raise self._only_read(str(error)) from error
                except BaseException:
                    space.close()
                    raise
                self._space, self._packs = space, packs
            return self._space, self._packs

    def _only_read(self, why: str) -> Unreachable:
        """Have nothing written until the store is opened again; return the error to raise."""
        self._writer.read_only = why
        return Unreachable(why)

    def _problem(self, space: Space) -> str:
        """Return "" if the space has the history of this replica, up to its last commit, else what is wrong."""
        log, seq = self._writer.head_log, self._writer.seq
        if not seq:
            return ""
        _turns, group = log.group_at(seq - 1)
        before = group[0].seq - 1 if group else seq - 1
        there = space.log.entries(before)
        frames = decode_all((entry := decode_entry(there[0].body)).heads, entry.heads_offset) if there else []
        if not frames or frames[-1].seq != seq or frames[:-1] != group:
            return f"the space {self.member.space} does not have commit {seq}, which this replica has"
        known = self._logged_chain(seq)
        if there[0].chain and known not in (b"", there[0].chain):
            return f"the space {self.member.space} has another history before commit {seq} than this replica"
        self._chain = (seq, known or there[0].chain)
        return ""

    def _publish_rest(self, published: Packs) -> None:
        """Publish what this replica wrote to its packs and may not have published."""
        packs = self._writer.packs
        end = packs.end
        start = (self._published.pack, self._published.length)
        records: list[bytes] = []
        size = 0
        numbers = [number for number in packs.appended() if number >= start[0]]
        for _pack, _offset, found in packs.scan(start if packs.path(start[0]).exists() else None, numbers):
            if not isinstance(found, Record):
                continue
            records.append(encode_record(found.codec, found.raw_len, found.hash, found.stored))
            size += len(records[-1])
            if size >= _PUBLISHED_BYTES:
                self._own.add(published.publish(records))
                records, size = [], 0
        if records:
            self._own.add(published.publish(records))
        self._complete = True
        self._note(end)

    def _publish(self, records: Sequence[bytes]) -> None:
        _space, packs = self._connected()
        if self.member.only_follows:
            raise Unreachable(f"this replica of the space {self.member.space} only follows it")
        if records:
            try:
                self._own.add(packs.publish(records))
            except DamageError as error:
                raise self._only_read(str(error)) from error

    def _take(self, packs: Packs) -> None:
        """Take the packs that others have published."""
        taken = self._published.taken
        try:
            for number, data in packs.after(taken):
                if number in self._own:
                    self._own.discard(number)
                else:
                    self._intake.adopt(_records(data, number))
                taken = number
        finally:
            # also those before one that cannot be taken: they are in the packs by now
            if taken > self._published.taken:
                self._intake.sync()
                with self._noting:
                    self._write(msgspec.structs.replace(self._published, taken=taken))

    # -- following -------------------------------------------------------------------------------------------------

    def _catch_up(self) -> bool:
        found = self._writer.catch_up()
        if found and not self._intake.has_dictionary:
            self._writer.settle()
            self._intake.note_dictionary()
        self._away = ""
        return found

    def _let_in(self) -> None:
        """Let in who has come with an invitation, once in a while."""
        if self.access is not None and time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + _LOOK_SECONDS
            try:
                for machine in self.access.approve():
                    _LOG.info("%s has joined the space %s", machine, self.member.space)
            except DamageError as error:
                _LOG.warning("the space %s: %s", self.member.space, error)

    def _run(self) -> None:
        while not self._ended.is_set():
            space = self._space
            if space is None or self._away:
                self._ended.wait(_LOOK_SECONDS)
            else:
                space.log.wait(_LOOK_SECONDS)
            if self._ended.is_set():
                return
            try:
                self._catch_up()
                self._let_in()
            except (Unreachable, StoreFull) as error:
                self._note_away(error)
            except StoreFailed:
                # whoever writes is told
                return
            except Exception:
                _LOG.exception("the space %s cannot be followed any more", self.member.space)
                return
            # so that those who commit here are not held up for each of their own entries
            self._ended.wait(_PAUSE_SECONDS)

    def _note_away(self, error: StoreFailed) -> None:
        if not self._away:
            _LOG.warning("%s", error)
        self._away = str(error)

    # -- its file --------------------------------------------------------------------------------------------------

    def _read(self) -> Published:
        try:
            return typed.decode(self._path.read_bytes(), Published)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            # everything is published once more, and taken once more
            return Published()

    def _note(self, end: tuple[int, int]) -> None:
        with self._noting:
            if self._complete and end > (self._published.pack, self._published.length):
                self._write(msgspec.structs.replace(self._published, pack=end[0], length=end[1]))

    def _write(self, published: Published) -> None:
        durable.write_whole(self._path, msgspec.json.encode(published))
        self._published = published


def _records(data: bytes, number: int) -> list[tuple[bytes, list[Hash]]]:
    """Return the records of a published pack, each with the names of its blobs. DamageError."""
    view, at = memoryview(data), HEADER_SIZE
    found: list[tuple[bytes, list[Hash]]] = []
    try:
        while at < len(view):
            size = OVERHEAD + blob_format.stored_length(view[at : at + HEAD_SIZE])
            found.append((bytes(view[at : at + size]), names_of(decode_record(view[at : at + size]))))
            at += size
    except DamageError as error:
        raise DamageError(f"pack {number} of the space is damaged, offset {at}: {error}") from None
    return found
