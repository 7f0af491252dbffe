"""Open turns: text that is written piece by piece, seen as it grows, and sealed into one turn.

Each piece is durable, and visible to readers, once it has been added. A turn that was not sealed when the process died
is still open: a client with its number can continue, seal or drop it. A turn with no addition for a day is sealed as it
is, so its text is kept and nothing stays open forever. In a space one machine at a time does that, and only to turns
that it has added to last itself, or a machine that is away.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from store.commit.intake import Intake
from store.commit.open_texts import OpenState, OpenText, veiled
from store.commit.request import NewTurn, Request
from store.commit.writer import Writer
from store.conversations.contexts import Contexts
from store.conversations.turns import Contents, Turns
from store.conversations.viewer import LARGEST_VIEWED
from store.disk.head_format import Closed, TextAdded, TurnOpened
from store.disk.turn_format import Encoding, Turn
from store.errors import Conflict, DamageError, NotFound, TooLarge, UsageError
from store.events.event import Event, Kind
from store.formats.core.json_beginning import characters, completed
from store.formats.core.lens import Before
from store.formats.core.unknown import TextLens, UnknownLens
from store.formats.registry import lens_for
from store.ids import Hash, hash_bytes, now_ms
from store.index.notes import KEPT_MS

_MOST_OPEN = 4096
_MOST_BYTES = 512 << 20
_LARGEST_PIECE = 1 << 20
_MOST_SEEN = 1 << 20
"""The number of bytes of an open turn that are shown before it is sealed: it is rendered again and again."""


class OpenTurn:
    """A turn of the context ``context_id`` that is being written. Safe to use from any thread, and by several at once.

    Calls raise NotFound once it has been dropped, or sealed.
    """

    def __init__(self, turns: OpenTurns, context_id: int, number: int) -> None:
        self._turns = turns
        self.context_id = context_id
        self.number = number
        """Its number, which stays the same after the store is closed and opened again."""

    @property
    def text(self) -> bytes:
        """All that has been added."""
        return self._turns.text(self.number).text

    def add(self, text: bytes, *, at: int | None = None) -> int:
        """Append ``text``; return the total number of bytes once it is durable.

        ``at`` is how many there were before: what of it has been added there already is not added again, and
        Conflict where that is not the same. TooLarge where the turn would be.
        """
        return self._turns.add(self.number, text, at)

    def seal(self, *, expected_head: int | None = None, fs_root: bytes | None = None) -> Turn:
        """Append all of it to its context as one turn, and return that; again, if it was sealed within a day."""
        return self._turns.seal(self.context_id, self.number, expected_head, fs_root)

    def abort(self) -> None:
        """Drop it."""
        self._turns.drop(self.number)


class Adding(NamedTuple):
    """A piece of an open turn, to be submitted with other requests: the turn has ``size`` bytes once that is durable.

    ``release`` must be called when it was submitted, or is not going to be; until then others wait who change the turn.
    """

    request: Request
    size: int
    release: Callable[[], None]


class OpenTurns:
    """The open turns of one store. Safe to call from any thread."""

    def __init__(self, writer: Writer, intake: Intake, turns: Turns, contents: Contents, contexts: Contexts) -> None:
        self._writer = writer
        self._intake = intake
        self._turns = turns
        self._contents = contents
        self._contexts = contexts

    def open(
        self, context_id: int, type_name: str, *, encoding: int = Encoding.RAW_BYTES, type_version: int = 0
    ) -> OpenTurn:
        """Begin a turn of a context whose payload is added piece by piece. NotFound if there is no such context."""
        self._writer.head(context_id)
        described = self._contexts.new_turn(Hash(bytes(32)), type_name, encoding, type_version)
        if len(self._writer.texts) >= _MOST_OPEN:
            raise UsageError(f"{_MOST_OPEN} turns are open: seal or drop some first")
        if described.flags:
            raise UsageError(f"the encoding of an open turn is below 65536, and {encoding} is not")
        opened = TurnOpened(described.type_tag, described.codec, now_ms())
        request = Request(context_id, move_head=False, notes=[opened], types=self._writer.types_for([type_name]))
        return OpenTurn(self, context_id, self._writer.submit(request).seq)

    def resume(self, context_id: int, number: int) -> OpenTurn:
        """Return an open turn by its number, or one that was sealed within a day; else NotFound."""
        state = self._writer.texts.state(number)
        if state is None or state.context != context_id:
            self._sealed(context_id, number)
        return OpenTurn(self, context_id, number)

    def beginning(self, text: OpenText, before: Before) -> Event:
        """Return the event that an open turn tells of, as far as it can be read; a RECORD while nothing can.

        Of JSON, values that have ended are seen, and the text at its end as far as it goes: unless something else of
        the event than its content would follow from half a value. MessagePack cannot be read before it is whole.
        """
        encoding = text.codec & 0xFFFF
        lens = lens_for(self._contents.type_name(text.tag), encoding)
        payload = characters(text.text[:_MOST_SEEN])
        event = Event(Kind.RECORD)
        if encoding == Encoding.MSGPACK:
            return event
        if isinstance(lens, TextLens) or (isinstance(lens, UnknownLens) and encoding != Encoding.JSON):
            event = lens.view(payload, before)
        elif begun := completed(payload):
            event = lens.view(begun.begun, before)
            if begun.empty != begun.begun and _head(event) != _head(lens.view(begun.empty, before)):
                event = lens.view(begun.whole, before)
        return event if event.blocks else Event(Kind.RECORD)

    def text(self, number: int) -> OpenText:
        """Return what there is of an open turn."""
        found = self._writer.texts.get(number)
        if found is None:
            raise NotFound(f"there is no open turn {number}")
        return found

    def add(self, number: int, text: bytes, at: int | None = None) -> int:
        """See :meth:`OpenTurn.add`."""
        state = self._state(number)
        with state.lock:
            requests, size = self._pieces(state, number, text, at)
            for request in requests:
                if self._writer.texts.state(number) is not state:
                    raise NotFound(f"there is no open turn {number}")
                self._writer.submit(request)
            return size

    def adding(self, number: int, text: bytes, at: int | None = None) -> Adding | None:
        """Return what :meth:`add` submits, for submitting much at once (:meth:`Writer.submit_all`); never waits.

        None where that is not one request, or where another is about to change the turn. Raises as :meth:`add`.
        """
        state = self._state(number)
        if not state.lock.acquire(blocking=False):
            return None
        added: Adding | None = None
        try:
            requests, size = self._pieces(state, number, text, at)
            if len(requests) == 1 and self._writer.texts.state(number) is state:
                added = Adding(requests[0], size, state.lock.release)
            return added
        finally:
            if added is None:
                state.lock.release()

    def _state(self, number: int) -> OpenState:
        state = self._writer.texts.state(number)
        if state is None:
            raise NotFound(f"there is no open turn {number}")
        return state

    def _pieces(self, state: OpenState, number: int, text: bytes, at: int | None) -> tuple[list[Request], int]:
        """Return the requests that add a text, and how many bytes there are after them; the caller holds its lock."""
        size = len(state.text)
        if at is not None and at != size:
            # of a long one, a part may have come before the store was closed
            done = state.text[at : at + len(text)]
            if at > size or not text.startswith(done):
                raise Conflict(f"open turn {number} has {size} bytes, and other ones at {at}")
            text = text[len(done) :]
        if size + len(text) > LARGEST_VIEWED or self._writer.texts.size + len(text) > _MOST_BYTES:
            raise TooLarge(f"open turn {number} would have {size + len(text)} bytes: seal it and begin another")
        # a piece is one request, and must fit the journal
        most = min(_LARGEST_PIECE, self._writer.journalled_bytes)
        now = now_ms()
        notes = [
            TextAdded(number, size + start, now, veiled(number, size + start, text[start : start + most]))
            for start in range(0, len(text), most)
        ]
        return [self._noted(state, number, note, note.offset) for note in notes], size + len(text)

    def _noted(self, state: OpenState, number: int, note: TextAdded | Closed, size: int) -> Request:
        """Return a request about an open turn, which must be open and have ``size`` bytes when that is committed."""

        def still() -> bool:
            if self._writer.texts.state(number) is not state:
                raise NotFound(f"there is no open turn {number}")
            return len(state.text) == size

        return Request(state.context, move_head=False, notes=[note], still=still)

    def seal(
        self, context_id: int, number: int, expected_head: int | None = None, fs_root: bytes | None = None
    ) -> Turn:
        """See :meth:`OpenTurn.seal`."""
        return self._seal(context_id, number, expected_head, fs_root)

    def _seal(
        self,
        context_id: int,
        number: int,
        expected_head: int | None = None,
        fs_root: bytes | None = None,
        size: int | None = None,
    ) -> Turn:
        """Seal an open turn; Conflict unless it has ``size`` bytes, if that is given."""
        state = self._writer.texts.state(number)
        if state is None or state.context != context_id:
            return self._sealed(context_id, number)
        with state.lock:
            if self._writer.texts.state(number) is not state:
                return self._sealed(context_id, number)
            if state.damaged:
                raise DamageError(f"what was added to open turn {number} after {len(state.text)} bytes may be lost")
            payload = self._contexts.hooks.apply(
                bytes(state.text), self._writer.types[state.opened.tag], state.opened.codec & 0xFFFF
            )
            turn = NewTurn(hash_bytes(payload), state.opened.tag, state.opened.codec, 0, now_ms())
            sealed = len(state.text) if size is None else size
            request = Request(context_id, turns=[turn], closes=number, key=_key(number))
            # one that another machine has sealed meanwhile is answered by its key
            request.still = lambda: len(state.text) == sealed
            if expected_head is not None:
                request.expect(expected_head)
            with self._intake.reliance.relying() as region:
                if fs_root is not None:
                    request.fs_root = self._contexts.held_root(fs_root, region)
                request.blobs = self._contexts.journalled([payload])
                return self._writer.submit(request).written[0]

    def drop(self, number: int) -> None:
        """See :meth:`OpenTurn.abort`."""
        self._drop(number)

    def _drop(self, number: int, size: int | None = None) -> None:
        """Drop an open turn; Conflict unless it has ``size`` bytes, if that is given."""
        state = self._state(number)
        with state.lock:
            if self._writer.texts.state(number) is not state:
                raise NotFound(f"there is no open turn {number}")
            self._writer.submit(
                self._noted(state, number, Closed(number, 0), len(state.text) if size is None else size)
            )

    def end_abandoned(self, now: int) -> list[tuple[OpenText, Turn | None]]:
        """Seal open turns without additions for a day, drop empty ones; return them with the turns that they became.

        ``now`` is in Unix milliseconds. A damaged open turn stays open: sealed it would seem whole.
        """
        writer, since = self._writer, now - KEPT_MS
        ended: list[tuple[OpenText, Turn | None]] = []
        if not any(_is_abandoned(text, since) for text in writer.texts.of(0)):
            return ended
        with writer.order.alone("abandoned") as alone:
            if alone:
                writer.catch_up()
                for text in writer.texts.of(0):
                    state = writer.texts.state(text.number)
                    if state is None or not _is_abandoned(text, since) or not writer.order.is_left(state.touched):
                        continue
                    if (one := self._end(text)) is not None:
                        ended.append(one)
        return ended

    def _end(self, text: OpenText) -> tuple[OpenText, Turn | None] | None:
        """End an abandoned turn; None if somebody else was faster, or has added to it."""
        with suppress(NotFound, Conflict):
            if text.text:
                return text, self._seal(text.context_id, text.number, size=len(text.text))
            self._drop(text.number, size=0)
            return text, None
        return None

    def _sealed(self, context_id: int, number: int) -> Turn:
        turn = self._writer.keys.get(0, _key(number))
        if not turn:
            raise NotFound(f"there is no open turn {number} in context {context_id}")
        return self._turns.get(turn)


def _is_abandoned(text: OpenText, since: int) -> bool:
    return not text.damaged and text.touched_ms <= since


def _head(event: Event) -> tuple[object, ...]:
    """Return all of an event but what it says."""
    return event.kind, event.tool, event.header, event.time_ms, event.parent


def _key(number: int) -> bytes:
    """Return the idempotency key under which an open turn is sealed."""
    return b"%d" % number
