"""SpecStory: Markdown that it writes about other tools' sessions, one file each.

A passage begins with a line ``_**User (2026-01-29 16:26:43Z)**_`` or ``_**Agent (MODEL 2026-01-29 16:26:46Z)**_``.
Older ones say ``_**Assistant**_``, or name the model as in ``(model MODEL, mode Agent)``. The work of a tool stands in
``<tool-use data-tool-type="shell" data-tool-name="Bash">`` or, once, ``<details><summary>Tool use: **Bash**``, a
thought in ``<think>``.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from store.errors import UsageError
from store.events.event import Kind
from store.formats.core.composing import Particulars
from store.formats.core.format import About, Format, Source, Span, first_line, without_endings
from store.formats.core.lens import Header, Value
from store.formats.core.look import Look
from store.formats.core.markdown_lens import MarkdownLens, Passage
from store.formats.core.times import in_iso, milliseconds

SPEAKS = r"_\*\*(User|Agent|Assistant)(?: - [^\n(*]*?)?(?: \(([^\n)]*+)\))?+\*\*_[ \t\r]*+"
_opening = re.compile(SPEAKS + r"(?:\n[ \t\r]*+)*+").match
_stamp = re.compile(r"(?:(.*) )?(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?Z?)$").match
_named = re.compile(r"model ([^,\n]+)").match
_tool = re.compile(
    r'<tool-use\b[^>]*\bdata-tool-name="(?P<name>[^"\n]*)"'
    r"|(?:<details>\s*+<summary>\s*+)?+Tool use: \*\*(?P<older>[^*\n]+)\*\*"
).match
_MINUTES = len("16:26")
_THOUGHT = "<think>"
_SPEAKERS = {**dict.fromkeys((Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL), "Agent"), Kind.USER: "User"}


class SpecStoryLens(MarkdownLens):
    """A lens for requests, answers and uses of tools; lines before them are bookkeeping."""

    type_name = "specstory.passage.v1"
    writes = tuple(_SPEAKERS)
    lacks: ClassVar[Mapping[Kind, str]] = {Kind.TOOL_RESULT: "it is a part of its call: write it there"}

    def passage(self, text: str) -> Passage:
        opened = _opening(text)
        if opened is None:
            return Passage(Kind.RECORD if text.lstrip().startswith(("<!--", "# ", "---")) else Kind.NOTE, text)
        head, body = text[: opened.end()], text[opened.end() :]
        header: Header = {}
        time_ms = 0
        if stamp := _stamp(opened[2] or ""):
            time_ms = milliseconds(f"{stamp[2]}T{stamp[3]}")
            if stamp[1]:
                header["model"] = stamp[1]
        elif named := _named(opened[2] or ""):
            header["model"] = named[1]
        if opened[1] == "User":
            return Passage(Kind.USER, body, head, time_ms=time_ms)
        if used := _tool(body):
            return Passage(
                Kind.TOOL_CALL, body, head, tool=used["name"] or used["older"], header=header, time_ms=time_ms
            )
        kind = Kind.REASONING if body.startswith(_THOUGHT) else Kind.ASSISTANT
        return Passage(kind, body, head, header=header, time_ms=time_ms)

    def with_field(self, text: str, key: str, value: Value) -> str | None:
        opened = _opening(text)
        if opened is None or not isinstance(value, str):
            return None
        inside, start = opened[2] or "", opened.start(2)
        stamp, named = _stamp(inside), _named(inside)
        used = _tool(text, opened.end())
        span = (-1, -1)
        if key == "timestamp" and stamp:
            span = start + stamp.start(2), start + stamp.end(3)
            whole = len(stamp[3].rstrip("Z")) > _MINUTES
            time = in_iso(milliseconds(value))
            if milliseconds(f"{time[:19]}Z") != milliseconds(value):
                raise UsageError("'timestamp' is to the second in this passage: leave out the fraction")
            value = f"{time[:10]} {time[11 : 19 if whole else 16]}{'Z' * stamp[3].endswith('Z')}"
        elif key == "model" and (stamp or named):
            found = (stamp.span(1) if stamp[1] else span) if stamp else named.span(1) if named else span
            span = (start + found[0], start + found[1]) if found != span else span
        elif key == "tool" and used:
            span = used.span("name") if used["name"] else used.span("older")
        return text[: span[0]] + value + text[span[1] :] if span[0] >= 0 else None

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        stamp = in_iso(now_ms)[:19].replace("T", " ")
        if kind is Kind.REASONING:
            text = f"<think><details><summary>Thought Process</summary>\n{text}</details></think>"
        elif kind is Kind.TOOL_CALL:
            # imported here, as it has a table of 2231 names
            import html

            done = f"```json\n{json.dumps(more.document, indent=2)}\n```" if more.document else text
            head = f'<tool-use data-tool-type="generic" data-tool-name="{html.escape(more.tool)}"><details>'
            summary = f"<summary>Tool use: **{more.tool}**</summary>"
            text = f"{head}\n{summary}\n\n{done}\n\n</details></tool-use>"
        return f"_**{_SPEAKERS[kind]} ({stamp}Z)**_\n\n{text}".encode()


_begins = re.compile(rb"(?:\xef\xbb\xbf)?\s*+<!-- Generated by SpecStory").match
_passage = re.compile(rb"^" + SPEAKS.encode() + rb"$", re.MULTILINE)
_session = re.compile(rb"<!-- [\w ]*?Session ([\w-]+) ").search
_ENDINGS = b" \t\r\n"
_RULE = b"---"


class SpecStory(Format):
    """SpecStory, which keeps sessions of coding agents as Markdown beside the code."""

    name = "specstory"
    lenses = (SpecStoryLens(),)
    main_type = SpecStoryLens.type_name
    joints = (b"", b"\n\n", b"\n")
    kept = (".../.specstory/history",)

    def is_ours(self, look: Look) -> bool:
        return _begins(look.head) is not None

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the passages; a rule that parts one from the next stands between them."""
        begin, first = start, _passage.search(data, start)
        following = first.start() if first else len(data)
        if start and (more := next(_span(data, start, following), None)) is not None:
            # the passage before goes on: the importer then reads from the beginning
            yield Span(start, max(more.end, start + 1))
            return
        for found in _passage.finditer(data, start):
            yield from _span(data, begin, found.start())
            begin = found.start()
        yield from _span(data, begin, len(data))

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        lens = SpecStoryLens()
        passages = [lens.passage(record.decode("utf-8", "replace")) for record in records]
        named = _session(records[0]) if records else None
        folder = source.path.parent
        asked = [passage.text for passage in passages if passage.kind is Kind.USER]
        words = [text for text in asked if not text.startswith("<")]
        return About(
            title=first_line(next(iter([*words, *asked]), "")),
            project=folder.parents[1].name if folder.parts[-2:] == (".specstory", "history") else "",
            started_ms=next((passage.time_ms for passage in passages if passage.time_ms), 0),
            session_id=named[1].decode() if named else source.path.stem,
        )


def _span(data: memoryview, start: int, end: int) -> Iterator[Span]:
    """Yield the text between two offsets, without blanks around it and a rule at its end."""
    end = without_endings(data, start, end, _ENDINGS)
    if end - start > len(_RULE) and data[end - len(_RULE) : end] == _RULE and data[end - len(_RULE) - 1] in b"\n":
        end = without_endings(data, start, end - len(_RULE), _ENDINGS)
    while start < end and data[start] in b"\r\n":
        start += 1
    if start < end:
        yield Span(start, end)
