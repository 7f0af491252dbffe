"""Aider: its chat history, one Markdown file a repository. Each run of aider is a conversation of its own.

The beginning of a line says whose passage it is. ``> `` begins a line that aider printed, ``#### `` a line of a
request; both end in two spaces, Markdown's line break. A line ``# aider chat started at …`` begins each run. All else
is the model's.

Under each answer aider prints its usage: ``Tokens: 3.2k sent, 21 received. Cost: $0.0082 message, …``. Numbers from a
thousand on are rounded, so these are too. Which model answers is printed when a run begins.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import structs

from store.errors import UsageError
from store.events.event import Kind
from store.events.usage import Running, Tokens, Usage
from store.formats.core.composing import Particulars
from store.formats.core.format import About, Format, Part, Resuming, Source, Span, Titled, first_line, without_endings
from store.formats.core.homes import environment
from store.formats.core.json_cuts import end_of
from store.formats.core.lens import Value
from store.formats.core.look import Look
from store.formats.core.markdown_lens import MarkdownLens, Passage
from store.formats.core.times import milliseconds

STARTED = "# aider chat started at "
PRINTED, ASKED = "> ", "#### "
LINE_BREAK = "  "
_MARKED = rb"#### |>(?: |\r?$)|# aider chat started at "
_blank_lines = re.compile(rb"(?:[ \t\r]*+\n)*+").match
_passage = re.compile(
    rb"(?m:"
    rb"(?P<asked>(?:#### [^\n]*+\n?)++)|(?P<printed>(?:>(?: [^\n]*+|\r?$)\n?)++)"
    rb"|(?P<started># aider chat started at [^\n]*+)"
    rb"|(?P<answered>(?:(?!" + _MARKED + rb")[^\n]*+(?:\n|\Z(?<!\n)))++))"
).match
_mark = re.compile(rb"(?m:" + _MARKED + rb")").match
_ANSWERED = "answered"


def _goes_on(data: memoryview, start: int) -> bool:
    """Return whether the text after the passage that ends at ``start`` still belongs to it."""
    earlier = bytes(data[:start])
    line = earlier[earlier.rfind(b"\n") + 1 :]
    following = end_of(_blank_lines(data, start))
    if following >= len(data):
        return False
    blank = bytes(data[start:following]).count(b"\n") > 1
    before, after = _mark(line), _mark(data, following)
    if before is None or after is None:
        return before is after
    return before[0][:2] == after[0][:2] and not blank and not before[0].startswith(b"# ")


_AMOUNT = r"([\d,.]+)([kM]?)"
_told = re.compile(
    rf"Tokens: {_AMOUNT} sent(?:, {_AMOUNT} cache write)?(?:, {_AMOUNT} cache hit)?, {_AMOUNT} received\."
    r"(?: Cost: \$([\d,.]+) (?:message|request))?"
).search
_model = re.compile(r"(?:Main m|M)odels?: (\S+)").search
_TIMES = {"": 1, "k": 1000, "M": 1_000_000}


def _amount(digits: str | None, unit: str | None) -> int:
    return round(_number(digits) * _TIMES[unit or ""]) if digits else 0


def _number(digits: str) -> float:
    try:
        return float(digits.replace(",", "").rstrip("."))
    except ValueError:
        return 0.0


class AiderLens(MarkdownLens):
    """A lens for requests, answers and aider's own output."""

    type_name = "aider.passage.v1"
    telling = (STARTED.encode(), b"Tokens: ", b"odel: ")
    counts_on = True
    writes = (Kind.USER, Kind.ASSISTANT, Kind.NOTE)
    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(
        Kind, "a history has what was asked, what was answered, and what aider printed"
    )

    def passage(self, text: str) -> Passage:
        if text.startswith(STARTED):
            return Passage(Kind.NOTE, text, time_ms=milliseconds(text.removeprefix(STARTED).strip()))
        if text.startswith(ASKED):
            return Passage(Kind.USER, text, mark=ASKED, ending=LINE_BREAK)
        if text.startswith(PRINTED) or text.rstrip("\r") == PRINTED.strip():
            return Passage(Kind.NOTE, text, mark=PRINTED, ending=LINE_BREAK)
        return Passage(Kind.ASSISTANT, text)

    def with_field(self, text: str, key: str, value: Value) -> str | None:
        if key == "timestamp" and text.startswith(STARTED):
            raise UsageError("'timestamp' stands in the text of this passage: change it there")
        return None

    def usage(self, payload: bytes, running: Running) -> tuple[Usage | None, Running]:
        """Return the usage of the last answer before a passage, where aider printed it, and the running state."""
        passage = payload.decode("utf-8", "replace")
        if passage.startswith(STARTED):
            return None, structs.replace(running, time_ms=milliseconds(passage.removeprefix(STARTED).strip()))
        if not passage.startswith("> "):
            return None, running
        if found := _model(passage):
            running = structs.replace(running, model=found[1])
        told = _told(passage)
        if told is None:
            return None, running
        sent, write, read, received = (_amount(told[at], told[at + 1]) for at in (1, 3, 5, 7))
        tokens = Tokens(max(0, sent - write - read), received, read, write)
        cost = _number(told[9]) if told[9] else None
        return Usage("", running.model, tokens, cost, running.time_ms), running

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        mark = {Kind.USER: ASKED, Kind.NOTE: PRINTED}.get(kind, "")
        passage = Passage(kind, "", mark=mark, ending=LINE_BREAK if mark else "")
        written = "\n".join(f"{passage.mark}{line}{passage.ending}" for line in text.split("\n"))
        if self.passage(written).kind is not kind:
            raise UsageError("the text begins as another part of the file does: write it otherwise")
        return written.encode()


_DESCRIBED_BY = 200
_HISTORY = ".aider.chat.history.md"
_begins = re.compile(rb"(?:\xef\xbb\xbf)?\s*+# aider chat started at \d{4}-\d\d-\d\d").match
_BEGINNING, _SHOWN = STARTED.encode(), len(STARTED)
_holds = re.compile(rb"^# aider chat started at \d{4}-\d\d-\d\d|^#### .", re.MULTILINE).search
_LINE_OF_COMMAND = ("/", "!")


class Aider(Format):
    """Aider, the pair programmer of Paul Gauthier."""

    name = "aider"
    lenses = (AiderLens(),)
    main_type = AiderLens.type_name
    joints = (b"\n", b"\n\n", b"\n")
    resuming = (Resuming("aider", ("aider", "--restore-chat-history", "--chat-history-file", "{path}"), beside=True),)
    once_whole = True

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the history of the repository around ``cwd``, that of ``home``, and the one that aider is told of."""
        candidates = [folder / _HISTORY for folder in (cwd, *cwd.parents, home)]
        if moved := environment(home).get("AIDER_CHAT_HISTORY_FILE"):
            candidates.append(cwd / moved)
        yield from dict.fromkeys(path for path in candidates if path.is_file())

    def is_ours(self, look: Look) -> bool:
        """Claim a file that begins as a run of aider does, or one of its name that holds nothing else."""
        head = look.head.strip()
        if look.path.name == _HISTORY and not look.is_folder and _BEGINNING.startswith(head[:_SHOWN]):
            return True
        return bool(_begins(head) or (look.path.name == _HISTORY and _holds(head)))

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the passages; where one that was read before goes on, since a line was added, a span begins there."""
        position = start
        if start and _goes_on(data, start):
            yield Span(start, len(data))
            return
        while (position := end_of(_blank_lines(data, position))) < len(data):
            found = _passage(data, position)
            if found is None or found.end() == position:
                yield Span(position, len(data))
                return
            end = without_endings(data, position, found.end(), b" \t\r\n" if found.lastgroup == _ANSWERED else b"\r\n")
            if end > position:
                yield Span(position, end)
            position = found.end()

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        """Return each run of aider as a conversation, known by when it began; what stands before the first is one, too.

        A line that may become the first of a run is left out until it is whole.
        """
        runs: list[list[int]] = []
        for at, span in enumerate(spans):
            begins = bytes(data[span.start : min(span.end, span.start + _SHOWN)])
            if _BEGINNING.startswith(begins) and b"\n" not in bytes(data[span.end :]):
                break
            if not runs or begins == _BEGINNING:
                runs.append([])
            runs[-1].append(at)
        parts: list[Part] = []
        seen: Counter[str] = Counter()
        for run in runs:
            records = [bytes(data[spans[at].start : spans[at].end]) for at in run[:_DESCRIBED_BY]]
            began = records[0].decode("utf-8", "replace").strip()
            key = began.removeprefix(STARTED) if began.startswith(STARTED) else _HISTORY
            seen[key] += 1
            key = key if seen[key] == 1 else f"{key} {seen[key]}"
            parts.append(Part(key, run, structs.replace(self.about(source, records), session_id=key)))
        return parts

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a run by its first request in words; it belongs to the repository that the history lies in."""
        lens = AiderLens()
        passages = [lens.passage(record.decode("utf-8", "replace")) for record in records]
        asked = [passage.text for passage in passages if passage.kind is Kind.USER]
        words = [text for text in asked if not text.startswith(_LINE_OF_COMMAND)]
        folder = Path(os.path.abspath(source.path)).parent.name
        own = source.path.name == _HISTORY
        return About(
            title=first_line(next(iter([*words, *asked]), "")) or "aider",
            project=folder if own else "",
            started_ms=next((passage.time_ms for passage in passages if passage.time_ms), 0),
            session_id=folder if own else source.path.name.removesuffix(_HISTORY),
            titled=Titled.BY_REQUEST if words else Titled.PROVISIONALLY,
        )
