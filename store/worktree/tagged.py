"""Calls that stand in what a model says, as elements: those of Cline, Roo and Kilo, before models had others.

``<read_file><path>a.py</path></read_file>`` in an answer is one; the next request begins with what it brought, after
``[read_file for 'a.py'] Result:``, in the same text or in the next.
"""

import re
from collections.abc import Iterator

from msgspec import structs

from store.events.event import Block, Kind
from store.exporting.steps import Step

FORMATS = frozenset(("cline-tasks",))
"""The formats of sessions that may have such calls."""
_TOOLS = (
    "apply_diff", "execute_command", "insert_content", "read_file", "replace_in_file", "search_and_replace",
    "write_to_file",
)
_begins = re.compile(rf"<({'|'.join(_TOOLS)})>").search
_member = re.compile(r"\s*<(\w+)>").match
_TEXTS = frozenset(("args", "content", "diff", "replace", "search"))
"""The members whose blanks are theirs, but for a newline at each end."""
_brought = re.compile(r"\[(\w+)\b[^\n]*?\] Result:\n?").match
_failed = re.compile(r"(?:The tool execution failed|The user denied|\[ERROR\]|<error>)").match


def calls_in(step: Step) -> Iterator[Step]:
    """Yield the calls in a step of the model."""
    for block in step.blocks:
        text, at = block.text or "", 0
        while begins := _begins(text, at):
            tool, start = begins[1], begins.end()
            end = text.find(f"</{tool}>", start)
            if end < 0:
                return
            at = end
            yield structs.replace(step, kind=Kind.TOOL_CALL, blocks=(), tool=tool, arguments=_given(text[start:end]))


def _given(text: str) -> dict[str, object]:
    given: dict[str, object] = {}
    at = 0
    while member := _member(text, at):
        name, close = member[1], f"</{member[1]}>"
        # a text may have such elements itself
        end = text.rfind(close) if name in _TEXTS else text.find(close, member.end())
        if end < member.end():
            break
        value = text[member.end() : end]
        given[name] = value.removeprefix("\n").removesuffix("\n") if name in _TEXTS else value.strip()
        at = end + len(close)
    return given


def results_in(step: Step) -> Iterator[Step]:
    """Yield the results in a step of the user, with the names of their tools."""
    for at, block in enumerate(step.blocks):
        if (found := _brought(block.text or "")) is None:
            continue
        said = (block.text or "")[found.end() :] or next((one.text or "" for one in step.blocks[at + 1 : at + 2]), "")
        kind, failed = Kind.TOOL_RESULT, _failed(said) is not None
        yield structs.replace(step, kind=kind, blocks=(Block("text", said),), tool=found[1], failed=failed)
