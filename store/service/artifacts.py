"""The outputs of tools and agents in a store that another process holds."""

from __future__ import annotations

from msgspec import json

from store.artifacts.kept import Output
from store.events.outputs import Outputs
from store.service import artifact_operations as ops
from store.service.asks import Ask, operation
from store.service.facade import Facade


class RemoteArtifacts:
    """Does what :class:`store.artifacts.artifacts.Artifacts` does, over the connection of a client.

    With it, a sink for output (:class:`store.artifacts.sink.OutputSink`) spills into the conversations of a service.
    """

    def __init__(self, client: Facade) -> None:
        self._client = client

    def listed(self, context: int, outputs: Outputs) -> dict[str, Output]:
        """Return the outputs of a conversation by name."""
        decode = json.Decoder(list[Output]).decode
        ask = Ask(
            ops.OUTPUTS.number,
            0,
            json.encode(ops.OutputsParams(context, outputs.scheme)),
            lambda answers: [output for page in answers[:-1] for output in decode(page)],
        )
        return {output.name: output for output in self._client.ask(ask)}

    def begin(self, context: int, outputs: Outputs, asked: str, *, parent: str = "") -> str:
        """Begin an output, and return the name that it is listed under."""
        params = ops.BeginParams(context, outputs.scheme, asked, parent)
        return self._client.ask(operation(ops.BEGIN_OUTPUT, params, str, repeats=False))

    def add(self, context: int, outputs: Outputs, name: str, data: bytes, at: int | None = None) -> int:
        """Go on with an output; return how many bytes there are."""
        params = ops.AddOutputParams(context, outputs.scheme, name, data, at)
        return self._client.ask(operation(ops.ADD_OUTPUT, params, int, repeats=at is not None))

    def end(self, context: int, outputs: Outputs, name: str) -> Output:
        """Keep an output that was written: durable when it returns."""
        params = ops.OutputParams(context, outputs.scheme, name)
        return self._client.ask(operation(ops.END_OUTPUT, params, lambda output: output))

    def drop(self, context: int, outputs: Outputs, name: str) -> None:
        """Drop what is being written under a name."""
        params = ops.OutputParams(context, outputs.scheme, name)
        self._client.ask(operation(ops.DROP_OUTPUT, params, lambda _done: None, repeats=False))

    def read(self, url: str, conversation: str = "", *, offset: int = 0, limit: int = 0) -> bytes:
        """Return what a URL leads to; ``conversation`` is the one that it is of, ``offset`` and ``limit`` are lines."""
        decode = json.Decoder(bytes).decode
        params = ops.ReadUrlParams(url, conversation, offset, limit)
        number, payload = ops.READ_URL.number, json.encode(params)
        return self._client.ask(Ask(number, 0, payload, lambda answers: b"".join(map(decode, answers[:-1]))))
