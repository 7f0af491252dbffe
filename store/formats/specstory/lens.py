"""A passage of SpecStory's Markdown as an event.

A passage begins with a line ``_**User (2026-01-29 16:26:43Z)**_`` or ``_**Agent (MODEL 2026-01-29 16:26:46Z)**_``.
Older ones say ``_**Assistant**_``, or name the model as in ``(model MODEL, mode Agent)``. What a tool did stands in
``<tool-use data-tool-type="shell" data-tool-name="Bash">`` or, once, ``<details><summary>Tool use: **Bash**``, what was
thought in ``<think>``.
"""

import re

from store.events.event import Kind
from store.formats.composing import check_said
from store.formats.markdown_lens import MarkdownLens, Passage
from store.formats.shown import Header
from store.formats.times import in_iso, milliseconds

SPEAKS = r"_\*\*(User|Agent|Assistant)(?: - [^\n(*]*?)?(?: \(([^\n)]*+)\))?+\*\*_[ \t\r]*+"
_opening = re.compile(SPEAKS + r"(?:\n[ \t\r]*+)*+").match
_stamp = re.compile(r"(?:(.*) )?(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?Z?)$").match
_named = re.compile(r"model ([^,\n]+)").match
_tool = re.compile(
    r'<tool-use\b[^>]*\bdata-tool-name="(?P<name>[^"\n]*)"'
    r"|(?:<details>\s*+<summary>\s*+)?+Tool use: \*\*(?P<older>[^*\n]+)\*\*"
).match
_THOUGHT = "<think>"
_SPEAKERS = {Kind.ASSISTANT: "Agent", Kind.USER: "User"}


class SpecStoryLens(MarkdownLens):
    """Sees requests, answers and uses of tools; what stands before them is bookkeeping."""

    type_name = "specstory.passage.v1"

    def passage(self, text: str) -> Passage:
        """Return what a passage holds after the line that says who speaks."""
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

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a request or an answer."""
        check_said(text.strip(), kind, _SPEAKERS)
        stamp = in_iso(now_ms)[:19].replace("T", " ")
        return f"_**{_SPEAKERS[kind]} ({stamp}Z)**_\n\n{text}".encode()
