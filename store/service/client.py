"""A client of the service, for programs that block: a method for each call, which are those of the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Concatenate, Protocol

from msgspec import structs

from store.artifacts.names import Output
from store.disk.turn_format import Encoding, Turn
from store.events.conversation import Change, Outputs
from store.service import calls
from store.service.call import Ask, P, T, dress
from store.service.caller import Caller, payload_of
from store.service.channel import Channel
from store.service.channel import ServiceGone as ServiceGone
from store.service.frames import Frame


class _Asks(Protocol):
    def ask(self, ask: Ask[T]) -> T: ...


def blocking(call: Callable[P, Ask[T]]) -> Callable[Concatenate[_Asks, P], T]:
    """Return the method that makes a call and waits for its result."""

    def method(self: _Asks, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.ask(call(*args, **kwargs))

    dress(method, call)
    return method


class Client(Caller):
    """A connection with the calls of programs as methods."""

    def watch(self, contexts: Sequence[int] = (), *, texts: bool = False) -> Iterator[Change]:
        """Yield changes of contexts (none named: of all) as they happen, over a connection of its own.

        Begins with a change of context 0, when it listens; ``texts``: also how open turns grow. Raises ServiceGone
        where the service ends.
        """
        channel = Channel(self.place)
        ask = calls.watch(tuple(contexts), texts)
        try:
            channel.send(Frame(ask.number, 1, ask.payload))
            while (frame := channel.receive(1)) is not None:
                yield from calls.watch.item.decode(payload_of(frame))
            raise ServiceGone("the process that holds the store ended")
        finally:
            channel.close()

    create_context = blocking(calls.create_context)
    fork = blocking(calls.fork)
    head = blocking(calls.head)
    tip = blocking(calls.tip)
    set_metadata = blocking(calls.set_metadata)
    versions = blocking(calls.versions)
    append = blocking(calls.append)
    last = blocking(calls.last)
    before = blocking(calls.before)
    range_by_depth = blocking(calls.range_by_depth)
    turn = blocking(calls.turn)
    path_to_root = blocking(calls.path_to_root)
    patch = blocking(calls.patch)
    register_type = blocking(calls.register_type)
    canonicalize = blocking(calls.canonicalize)
    types = blocking(calls.types)
    open_turns = blocking(calls.open_turns)
    blob = blocking(calls.blob)
    blob_size = blocking(calls.blob_size)
    put_blob = blocking(calls.put_blob)
    attach_fs = blocking(calls.attach_fs)
    fs_root = blocking(calls.fs_root)
    projects = blocking(calls.projects)
    conversations = blocking(calls.conversations)
    conversation = blocking(calls.conversation)
    find = blocking(calls.find)
    stats = blocking(calls.stats)

    def payload(self, turn_id: int) -> bytes:
        """Return the payload of a turn."""
        return self.blob(self.turn(turn_id).payload_hash)

    def open_turn(
        self, context_id: int, type_name: str, *, encoding: int = Encoding.RAW_BYTES, type_version: int = 0
    ) -> RemoteTurn:
        """Begin a turn of a context whose payload is added piece by piece."""
        return RemoteTurn(self, context_id, self.ask(calls.open_turn(context_id, type_name, encoding, type_version)), 0)

    def resume_turn(self, context_id: int, number: int) -> RemoteTurn:
        """Return an open turn by its number, or one that was sealed within a day; else NotFound."""
        return RemoteTurn(self, context_id, number, self.ask(calls.resume_turn(context_id, number)))


class RemoteTurn:
    """A turn that is being written, by this client alone: a piece that must be sent again is added once."""

    def __init__(self, client: Client, context_id: int, number: int, size: int) -> None:
        self.context_id = context_id
        self.number = number
        """Its name for every client."""
        self._client = client
        self._size = size
        self._lock = threading.Lock()

    def add(self, text: bytes) -> int:
        """Go on with ``text``; return how many bytes there are once it is durable."""
        with self._lock:
            self._size = self._client.ask(calls.add_text(self.number, text, self._size))
            return self._size

    def seal(self, *, expected_head: int | None = None, fs_root: bytes | None = None) -> Turn:
        """Append all of it to its context as one turn, and return that."""
        return self._client.ask(calls.seal_turn(self.context_id, self.number, expected_head, fs_root))

    def abort(self) -> None:
        """Drop it."""
        self._client.ask(calls.drop_turn(self.context_id, self.number))


class RemoteArtifacts:
    """Does what :class:`store.artifacts.artifacts.Artifacts` does, over the connection of a client.

    With it, a sink for output (:class:`store.artifacts.sink.OutputSink`) spills into the conversations of a service.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def listed(self, context: int, outputs: Outputs) -> dict[str, Output]:
        """Return the outputs of a conversation by name."""
        return {output.name: output for output in self._client.ask(calls.outputs(context, outputs.scheme))}

    def begin(self, context: int, outputs: Outputs, asked: str, *, parent: str = "") -> str:
        """Begin an output, and return the name that it is listed under."""
        return self._client.ask(calls.begin_output(context, outputs.scheme, asked, parent))

    def add(self, context: int, outputs: Outputs, name: str, data: bytes, at: int | None = None) -> int:
        """Go on with an output; return how many bytes there are."""
        ask = calls.add_output(context, outputs.scheme, name, data, at)
        return self._client.ask(structs.replace(ask, repeats=at is not None))

    def end(self, context: int, outputs: Outputs, name: str) -> Output:
        """Keep an output that was written: durable when it returns. It has no blob while the space is away."""
        return self._client.ask(calls.end_output(context, outputs.scheme, name))

    def drop(self, context: int, outputs: Outputs, name: str) -> None:
        """Drop the unfinished artifact of a name."""
        self._client.ask(calls.drop_output(context, outputs.scheme, name))

    def read(self, url: str, conversation: str = "", *, offset: int = 0, limit: int = 0) -> bytes:
        """Return the content of a URL; ``conversation`` is the one it is of, ``offset`` and ``limit`` are lines."""
        return self._client.ask(calls.read_url(url, conversation, offset, limit))


class RemoteDeliveries:
    """Does what :class:`store.delivery.deliveries.Deliveries` does, over the connection of a client."""

    def __init__(self, client: Client) -> None:
        self.ask = client.ask

    check = blocking(calls.check_delivery)
