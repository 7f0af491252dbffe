"""Where a tool's output goes: its end is kept to be shown, and the whole, where that is longer, becomes an artifact."""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

from store.artifacts.names import identity
from store.artifacts.sanitizing import Sanitizer
from store.errors import ConvfsError
from store.events.event import utf8
from store.events.outputs import ARTIFACTS, Outputs

log = logging.getLogger(__name__)

TAIL_BYTES = 50 << 10
_PIECE_BYTES = 64 << 10
_PIECE_SECONDS = 0.1
_MOST_AT_ONCE = 1 << 20


class Keeping(Protocol):
    """What keeps outputs: :class:`store.artifacts.artifacts.Artifacts`, or a service's
    :class:`store.service.artifacts.RemoteArtifacts`."""

    def begin(self, context: int, outputs: Outputs, asked: str, *, parent: str = "") -> str: ...
    def add(self, context: int, outputs: Outputs, name: str, data: bytes, at: int | None = None) -> int: ...
    def end(self, context: int, outputs: Outputs, name: str) -> object: ...
    def drop(self, context: int, outputs: Outputs, name: str) -> None: ...


class Summary(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What came of an output. As JSON its fields are ``output``, ``totalBytes`` … and, only where there is an artifact
    that has all of it, ``artifactId``. Bytes are those of the text in UTF-8, after it was sanitized.
    """

    output: str
    """The end of it, all of it if it is short."""
    truncated: bool
    total_bytes: int
    total_lines: int
    output_bytes: int
    output_lines: int
    artifact_id: str = ""

    @property
    def cut_bytes(self) -> int:
        """How many bytes are not in ``output``."""
        return self.total_bytes - self.output_bytes

    def notice(self) -> str:
        """Return a line that says how much was cut, and where it is; "" if nothing was."""
        if not self.truncated:
            return ""
        where = f"all of it is artifact://{self.artifact_id}" if self.artifact_id else "it was not kept"
        return f"[the first {self.cut_bytes} of {self.total_bytes} bytes are left out: {where}]"


class OutputSink:
    """Takes the output of one run of a tool, piece by piece, and never holds more than a little of it.

    Up to ``tail_bytes`` are kept. When there is more, an artifact of the conversation ``context`` is begun, with the
    next id, and gets everything: what was kept until then, and what comes after. Where it cannot be made, or written
    to, the sink goes on with the tail alone. For one thread.
    """

    def __init__(
        self, keeping: Keeping | None, context: int = 0, tool: str = "output", *, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self._keeping = keeping
        self._context = context
        self._tool = tool
        self._tail_bytes = tail_bytes
        self._sanitizer = Sanitizer()
        self._tail = bytearray()
        self._waiting = bytearray()
        """What goes to the artifact next."""
        self._written = 0
        self._told = 0.0
        self._artifact = ""
        self._bytes = 0
        self._newlines = 0
        self._summary: Summary | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, data: bytes | str) -> None:
        """Take the next piece of the output, sanitized as :class:`Sanitizer` says."""
        data = utf8(data) if isinstance(data, str) else data
        for start in range(0, len(data), _MOST_AT_ONCE):
            self._take(self._sanitizer.feed(data[start : start + _MOST_AT_ONCE]))

    def close(self) -> Summary:
        """End the output, and return what came of it; the artifact is durable then."""
        if self._summary is None:
            self._take(self._sanitizer.finish())
            self._end()
            self._summary = self.summary()
        return self._summary

    def summary(self) -> Summary:
        """Return what came of the output so far."""
        tail = bytes(self._tail[-self._tail_bytes :]) if self._tail_bytes else b""
        if len(tail) < self._bytes:
            # not from the middle of a character
            start = next((at for at in range(min(4, len(tail))) if tail[at] & 0xC0 != 0x80), len(tail))
            tail = tail[start:]
        return Summary(
            output=tail.decode(errors="replace"),
            truncated=len(tail) < self._bytes,
            total_bytes=self._bytes,
            total_lines=self._newlines + (self._bytes > 0 and self._tail[-1:] != b"\n"),
            output_bytes=len(tail),
            output_lines=tail.count(b"\n") + (bool(tail) and tail[-1:] != b"\n"),
            artifact_id=identity(ARTIFACTS, self._artifact) if self._artifact else "",
        )

    def _take(self, text: str) -> None:
        if not text:
            return
        data = utf8(text)
        self._bytes += len(data)
        self._newlines += data.count(b"\n")
        self._tail += data
        if self._artifact:
            self._waiting += data
        elif self._keeping is not None and self._bytes > self._tail_bytes:
            self._begin()
        if len(self._waiting) >= _PIECE_BYTES or (self._waiting and time.monotonic() > self._told + _PIECE_SECONDS):
            self._spill()
        if len(self._tail) > 2 * max(self._tail_bytes, _PIECE_BYTES):
            del self._tail[: -max(self._tail_bytes, 1)]

    def _begin(self) -> None:
        assert self._keeping is not None
        try:
            self._artifact = self._keeping.begin(self._context, ARTIFACTS, self._tool)
        except (ConvfsError, OSError) as error:
            self._give_up(error)
        else:
            # all there has been so far
            self._waiting += self._tail

    def _spill(self) -> None:
        assert self._keeping is not None
        while self._waiting:
            piece = bytes(self._waiting[:_PIECE_BYTES])
            try:
                self._written = self._keeping.add(self._context, ARTIFACTS, self._artifact, piece, self._written)
            except (ConvfsError, OSError) as error:
                self._give_up(error)
                return
            del self._waiting[: len(piece)]
        self._told = time.monotonic()

    def _end(self) -> None:
        if self._artifact:
            self._spill()
        if self._artifact and self._keeping is not None:
            try:
                self._keeping.end(self._context, ARTIFACTS, self._artifact)
            except (ConvfsError, OSError) as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Go on without an artifact."""
        log.warning("the output of %s is not kept as a whole: %s", self._tool, error)
        keeping, self._keeping = self._keeping, None
        artifact, self._artifact = self._artifact, ""
        self._waiting.clear()
        if artifact and keeping is not None:
            try:
                keeping.drop(self._context, ARTIFACTS, artifact)
            except (ConvfsError, OSError) as another:
                log.warning("%s: %s", artifact, another)
