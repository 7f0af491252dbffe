"""Events as steps: what other tools keep apart, such as a thought and a call that one record holds both."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, structs

from store.events.event import Block, Event, Kind, Resource
from store.exporting.arguments import joined
from store.formats.jp.encoding import plain_text
from store.formats.json_view import as_object, as_text

OF_THE_MODEL = frozenset((Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL))

_argument = re.compile(r"(?:call(\d+)\.)?arguments(?=$|[.\[])").match
_result = re.compile(r"result(\d+)").fullmatch
_returned = re.compile(r"(?:call(\d+)\.)?(?:error|output|result)(?=$|[.\[])").match
"""The names of what came of a call, where one record holds both."""
_THINKING = frozenset(("subject", "thinking"))
_INPUTS = frozenset(("input", "prompt"))
"""The names of what a call is given that is no JSON."""


class Step(Struct, frozen=True):
    """One thing that was said or done; ``number`` is the event's, ``index`` tells those of one event apart.

    ``id`` names a call, in the call and in its result ("" where the tool gave none), ``arguments`` are a call's, as
    parsed JSON, ``failed`` says that of a result. ``signature`` is what the model's maker signed a thought with.
    ``resources`` are all those of the event.
    """

    number: int
    index: int
    kind: Kind
    blocks: tuple[Block, ...] = ()
    time_ms: int = 0
    tool: str = ""
    id: str = ""
    arguments: object = None
    failed: bool = False
    signature: str = ""
    model: str = ""
    resources: tuple[Resource, ...] = ()

    @property
    def text(self) -> str:
        """All texts, a blank line between two of them."""
        return "\n\n".join(block.text for block in self.blocks if block.text)


def steps_of(number: int, event: Event) -> Iterator[Step]:
    """Yield the steps of event ``number``, in order; none of a bookkeeping record."""
    match event.kind:
        case Kind.RECORD:
            pass
        case Kind.TOOL_CALL | Kind.ASSISTANT | Kind.REASONING:
            for index, step in enumerate(_of_the_model(event)):
                yield _placed(step, number, index, event)
        case Kind.TOOL_RESULT:
            for index, step in enumerate(_results(event)):
                yield _placed(step, number, index, event)
        case kind:
            step = Step(0, 0, kind, event.blocks, tool=event.tool, id=_named(event, "id"))
            yield _placed(step, number, 0, event)


def _placed(step: Step, number: int, index: int, event: Event) -> Step:
    about = {"time_ms": event.time_ms, "model": _named(event, "model"), "resources": event.resources}
    return structs.replace(step, number=number, index=index, **about)


def _of_the_model(event: Event) -> Iterator[Step]:
    """Yield what a model said, thought and called, in the order of the blocks, then what came of the calls."""
    plain = Kind.REASONING if event.kind is Kind.REASONING else Kind.ASSISTANT
    groups: list[tuple[Kind, int, list[Block]]] = []
    calls: dict[int, list[Block]] = {}
    returned: dict[int, list[Block]] = {}
    for block in event.blocks:
        if event.kind is Kind.TOOL_CALL and (named := _returned(block.name)):
            returned.setdefault(int(named[1] or 1), []).append(block)
            continue
        number = _call_of(event, block)
        kind = Kind.REASONING if block.name in _THINKING else plain
        if number in calls:
            calls[number].append(block)
        elif number:
            calls[number] = [block]
            groups.append((Kind.TOOL_CALL, number, calls[number]))
        elif groups and groups[-1][0] is kind and (kind is Kind.ASSISTANT or groups[-1][2][-1].name == "subject"):
            groups[-1][2].append(block)
        else:
            groups.append((kind, 0, [block]))
    groups += [(Kind.TOOL_CALL, number, []) for number in _calls(event) if number not in calls]
    for kind, number, blocks in groups:
        if kind is not Kind.TOOL_CALL:
            yield Step(0, 0, kind, tuple(blocks), signature=_signature(event, blocks[0]))
            continue
        mark = f"_{number}" if number > 1 else ""
        tool = _named(event, f"tool{mark}") if mark else event.tool
        yield Step(0, 0, kind, tool=tool, id=_named(event, f"id{mark}"), arguments=_given(blocks, number))
    for number, blocks in returned.items():
        mark = f"_{number}" if number > 1 else ""
        tool = _named(event, f"tool{mark}") if mark else event.tool
        failed = event.header.get(f"is_error{mark}") is True
        yield Step(0, 0, Kind.TOOL_RESULT, tuple(blocks), tool=tool, id=_named(event, f"id{mark}"), failed=failed)


def _calls(event: Event) -> list[int]:
    if event.kind is not Kind.TOOL_CALL:
        return []
    return [1, *(int(key[5:]) for key in event.header if key.startswith("tool_") and key[5:].isdecimal())]


def _call_of(event: Event, block: Block) -> int:
    """Return which call of an event a block belongs to, 0 for none."""
    if event.kind is not Kind.TOOL_CALL:
        return 0
    if named := _argument(block.name):
        return int(named[1] or 1)
    return 1 if block.name in _INPUTS else 0


def _given(blocks: list[Block], number: int) -> object:
    name = f"call{number}.arguments" if number > 1 else "arguments"
    if blocks and not _argument(blocks[0].name):
        return {block.name: block.text for block in blocks if block.text is not None}
    return joined(blocks, name)


def _results(event: Event) -> Iterator[Step]:
    """Yield the results of an event, each with its blocks."""
    numbers = [1, *(int(key[3:]) for key in event.header if key.startswith("id_") and key[3:].isdecimal())]
    blocks: dict[int, list[Block]] = {number: [] for number in numbers}
    for block in event.blocks:
        named = _result(block.name)
        blocks[int(named[1]) if named and int(named[1]) in blocks else 1].append(block)
    for number in numbers:
        mark = f"_{number}" if number > 1 else ""
        yield Step(
            0,
            0,
            Kind.TOOL_RESULT,
            tuple(blocks[number]),
            tool=event.tool if number == 1 else "",
            id=_named(event, f"id{mark}"),
            failed=event.header.get(f"is_error{mark}") is True,
        )


def _signature(event: Event, block: Block) -> str:
    """Return the signature of the model's maker that stands beside a thought in its record."""
    holder = event.native
    for step in block.path[:-1]:
        if isinstance(holder, dict) and isinstance(step, str):
            holder = holder.get(step)
        elif isinstance(holder, list) and isinstance(step, int) and step < len(holder):
            holder = holder[step]
        else:
            return ""
    if not isinstance(holder, dict):
        return ""
    kept = as_text(as_object(holder.get("metadata")).get("anthropic_thinking_signature"))
    return as_text(holder.get("signature")) or plain_text(kept) or kept


def _named(event: Event, key: str) -> str:
    value = event.header.get(key)
    return value if isinstance(value, str) else ""
