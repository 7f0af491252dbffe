"""The sink of a tool's output: its end is kept to be shown, and a longer output becomes an artifact as a whole."""

import logging
import re
import time
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from msgspec import Struct

from store.artifacts.names import identity
from store.errors import ConvfsError
from store.events.conversation import ARTIFACTS, Outputs
from store.events.event import utf8

_LONGEST = 64 << 10
"""The most characters of an escape sequence; a longer one is none."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_C1 = re.compile(r"[\x90\x98\x9b\x9d-\x9f]")
_AS_ESCAPES = str.maketrans({mark: f"\x1b{chr(ord(mark) - 0x40)}" for mark in "\x90\x98\x9b\x9d\x9e\x9f"})
"""The ASCII spellings of the characters that begin a sequence."""

# every one begins with a literal, which is what makes looking for them fast
_SEQUENCES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, moves of the cursor
    r"|\][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links
    r"|[PX^_][^\x1b\x9c]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC: images, and what terminals say
    r"|[ -/]*[0-~])"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\x9c\n]*\x1b?|[PX^_][^\x1b\x9c]*\x1b?|[ -/]*)\Z")


class Sanitizer:
    """A sanitizer: output in pieces, cut anywhere, becomes text.

    Escape sequences of terminals (ECMA-48: CSI, OSC, DCS, SOS, PM, APC, and those of two characters, also where they
    begin with a C1 control) are left out, and so are all other control characters but newline and tab. A carriage
    return, with a newline or without, is a newline: overwritten lines of a progress bar become lines. Invalid UTF-8
    becomes U+FFFD.
    """

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        """The possible beginning of a sequence."""
        self._returned = False
        """Whether the last of what was fed, but for sequences, is a carriage return: a newline may follow."""

    def feed(self, data: bytes) -> str:
        """Return the next part of the output that later input can no longer change."""
        text = self._held + self._decode(data)
        self._held = ""
        if _CONTROLS.search(text) is None and not self._returned:
            return text
        if _C1.search(text):
            text = text.translate(_AS_ESCAPES)
        unfinished = _UNFINISHED.search(text)
        if unfinished is not None and len(unfinished[0]) <= _LONGEST:
            self._held = unfinished[0]
            text = text[: unfinished.start()]
        return self._shown(text)

    def finish(self) -> str:
        text = self._held + self._decode(b"", True)
        self._held = ""
        return self._shown(text, is_last=True)

    def _shown(self, text: str, *, is_last: bool = False) -> str:
        if "\x1b" in text:
            text = _SEQUENCES.sub("", text)
        if self._returned:
            text = "\r" + text
        self._returned = not is_last and text.endswith("\r")
        if self._returned:
            text = text[:-1]
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return _CONTROLS.sub("", text)


log = logging.getLogger(__name__)

TAIL_BYTES = 50 << 10
_PIECE_BYTES = 64 << 10
_PIECE_SECONDS = 0.1
_MOST_AT_ONCE = 1 << 20


class Keeping(Protocol):
    """The keeper of outputs: :class:`store.artifacts.artifacts.Artifacts`, or a service's
    :class:`store.service.client.RemoteArtifacts`.
    """

    def begin(self, context: int, outputs: Outputs, asked: str, *, parent: str = "") -> str: ...
    def add(self, context: int, outputs: Outputs, name: str, data: bytes, at: int | None = None) -> int: ...
    def end(self, context: int, outputs: Outputs, name: str) -> object: ...
    def drop(self, context: int, outputs: Outputs, name: str) -> None: ...


class Summary(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The result of an output. As JSON its fields are ``output``, ``totalBytes`` … and, if an artifact has all of it,
    ``artifactId``. Bytes are those of the sanitized text in UTF-8.
    """

    output: str
    """The end of the output, all of it if it is short."""
    truncated: bool
    total_bytes: int
    total_lines: int
    output_bytes: int
    output_lines: int
    artifact_id: str = ""

    @property
    def cut_bytes(self) -> int:
        return self.total_bytes - self.output_bytes

    def notice(self) -> str:
        """Return a line with the size and place of the part that was cut; "" if nothing was."""
        if not self.truncated:
            return ""
        where = f"all of it is artifact://{self.artifact_id}" if self.artifact_id else "it was not kept"
        return f"[the first {self.cut_bytes} of {self.total_bytes} bytes are left out: {where}]"


class OutputSink:
    """The output of one run of a tool, taken piece by piece, of which only a little is held.

    Up to ``tail_bytes`` are kept. Once there is more, an artifact of the conversation ``context`` is begun, with the
    next id, and gets everything: the kept part, and all that follows. If it cannot be created or written to, the sink
    continues with the tail alone. For one thread.
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
        """The next bytes for the artifact."""
        self._written = 0
        self._told = 0.0
        self._artifact = ""
        self._bytes = 0
        self._newlines = 0
        self._summary: Summary | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def write(self, data: bytes | str) -> None:
        """Add the next piece of the output, sanitized by :class:`Sanitizer`."""
        data = utf8(data) if isinstance(data, str) else data
        for start in range(0, len(data), _MOST_AT_ONCE):
            self._take(self._sanitizer.feed(data[start : start + _MOST_AT_ONCE]))

    def close(self) -> Summary:
        """End the output, and return its result; the artifact is then durable."""
        if self._summary is None:
            self._take(self._sanitizer.finish())
            if self._artifact:
                self._spill()
            if self._artifact:
                with self._keeping_on() as keeping:
                    keeping.end(self._context, ARTIFACTS, self._artifact)
            self._summary = self.summary()
        return self._summary

    def summary(self) -> Summary:
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
            with self._keeping_on() as keeping:
                self._artifact = keeping.begin(self._context, ARTIFACTS, self._tool)
                # all there has been so far
                self._waiting += self._tail
        if len(self._waiting) >= _PIECE_BYTES or (self._waiting and time.monotonic() > self._told + _PIECE_SECONDS):
            self._spill()
        if len(self._tail) > 2 * max(self._tail_bytes, _PIECE_BYTES):
            del self._tail[: -max(self._tail_bytes, 1)]

    def _spill(self) -> None:
        with self._keeping_on() as keeping:
            while self._waiting:
                piece = bytes(self._waiting[:_PIECE_BYTES])
                self._written = keeping.add(self._context, ARTIFACTS, self._artifact, piece, self._written)
                del self._waiting[: len(piece)]
            self._told = time.monotonic()

    @contextmanager
    def _keeping_on(self) -> Iterator[Keeping]:
        """Yield the keeper; after an error of it, continue without an artifact."""
        keeping = self._keeping
        assert keeping is not None
        try:
            yield keeping
        except (ConvfsError, OSError) as error:
            log.warning("the output of %s is not kept as a whole: %s", self._tool, error)
            artifact, self._artifact, self._keeping = self._artifact, "", None
            self._waiting.clear()
            try:
                if artifact:
                    keeping.drop(self._context, ARTIFACTS, artifact)
            except (ConvfsError, OSError) as another:
                log.warning("%s: %s", artifact, another)
