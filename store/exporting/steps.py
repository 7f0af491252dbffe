"""Events as steps: the single pieces that other tools keep apart, such as a thought and a call in one record."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from msgspec import Struct, structs

from store.events.event import Block, Event, Kind, Resource
from store.formats.core.blocks import DEEPEST
from store.formats.core.json_view import as_object, as_text, decode, is_object
from store.formats.core.media import plain_text
from store.results import of_call

_PLACEHOLDER = "$block"
_steps = re.compile(r"\.([^.\[\]]*)|\[(\d+)\]").findall


def joined(blocks: Sequence[Block], name: str) -> object:
    """Return the JSON value that ``blocks`` show, which are named ``name`` or after places within that.

    An empty object where there are none. A text that is all there is, is a string.
    """
    document = next((block for block in blocks if block.type == "json" and block.name == name), None)
    texts = {block.name: block.text for block in blocks if block is not document and block.text is not None}
    if document is None and list(texts) == [name]:
        return texts[name]
    decoded = decode((document.text or "").encode("utf-8", "replace")) if document else None
    value = _filled(decoded.value, texts, DEEPEST) if decoded else {}
    for place, text in texts.items():
        # the top members of an object were left out of the JSON
        steps = _steps(place.removeprefix(name))
        if is_object(value) and len(steps) == 1 and not steps[0][1]:
            value[unquote(steps[0][0])] = text
    return value


def _filled(value: object, texts: dict[str, str], depth: int) -> object:
    """Return ``value`` with the texts that placeholders stand for."""
    if not depth:
        return value
    if is_object(value):
        if len(value) == 1 and isinstance(name := value.get(_PLACEHOLDER), str) and name in texts:
            return texts[name]
        return {key: _filled(item, texts, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, texts, depth - 1) for item in value]
    return value


OF_THE_MODEL = frozenset((Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL))

_argument = re.compile(r"(?:call(\d+)\.)?arguments(?=$|[.\[])").match
_result_name = re.compile(r"result(\d+)").fullmatch
_THINKING = frozenset(("subject", "thinking"))
_INPUTS = frozenset(("input", "prompt"))
"""The names of a call's input that is not JSON."""


class Step(Struct, frozen=True):
    """One thing that was said or done; ``number`` is the event's, ``index`` tells those of one event apart.

    ``id`` names a call, in the call and in its result ("" where the tool gave none), ``arguments`` are a call's, as
    parsed JSON, of the blocks ``given``; ``failed`` says that of a result. ``signature`` is what the model's maker
    signed a thought with. ``resources`` are all those of the event.
    """

    number: int
    index: int
    kind: Kind
    blocks: tuple[Block, ...] = ()
    time_ms: int = 0
    tool: str = ""
    id: str = ""
    arguments: object = None
    given: tuple[Block, ...] = ()
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
    about = {"number": number, "time_ms": event.time_ms, "resources": event.resources, "model": _named(event, "model")}
    for index, step in enumerate(_parts(event)):
        yield structs.replace(step, index=index, **about)


def _parts(event: Event) -> Iterable[Step]:
    match event.kind:
        case Kind.RECORD:
            return ()
        case Kind.TOOL_CALL | Kind.ASSISTANT | Kind.REASONING:
            return _of_the_model(event)
        case Kind.TOOL_RESULT:
            return _results(event)
        case kind:
            return (Step(0, 0, kind, event.blocks, tool=event.tool, id=_named(event, "id")),)


def _of_the_model(event: Event) -> Iterator[Step]:
    """Yield the texts, thoughts and calls of a model, in the order of the blocks, then the results of the calls."""
    plain = Kind.REASONING if event.kind is Kind.REASONING else Kind.ASSISTANT
    groups: list[tuple[Kind, int, list[Block]]] = []
    calls: dict[int, list[Block]] = {}
    returned: dict[int, list[Block]] = {}
    for block in event.blocks:
        if event.kind is Kind.TOOL_CALL and (named := of_call(block.name)):
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
    if event.kind is Kind.TOOL_CALL:
        numbers = (1, *(int(key[5:]) for key in event.header if key.startswith("tool_") and key[5:].isdecimal()))
        groups += [(Kind.TOOL_CALL, number, []) for number in numbers if number not in calls]
    for kind, number, blocks in groups:
        if kind is not Kind.TOOL_CALL:
            yield Step(0, 0, kind, tuple(blocks), signature=_signature(event, blocks[0]))
            continue
        tool = _named(event, f"tool_{number}") if number > 1 else event.tool
        call, arguments = _named(event, _marked("id", number)), _given(blocks, number)
        yield Step(0, 0, kind, tool=tool, id=call, arguments=arguments, given=tuple(blocks))
    for number in (number for kind, number, _blocks in groups if kind is Kind.TOOL_CALL):
        if _marked("is_error", number) in event.header:
            # one that brought nothing is over, too
            returned.setdefault(number, [])
    for number, blocks in returned.items():
        tool = _named(event, f"tool_{number}") if number > 1 else event.tool
        yield _result(event, number, blocks, tool)


def _call_of(event: Event, block: Block) -> int:
    """Return the number of the call of an event that a block belongs to, 0 for none."""
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
        named = _result_name(block.name)
        blocks[int(named[1]) if named and int(named[1]) in blocks else 1].append(block)
    for number in numbers:
        yield _result(event, number, blocks[number], event.tool if number == 1 else "")


def _result(event: Event, number: int, blocks: Sequence[Block], tool: str) -> Step:
    failed = event.header.get(_marked("is_error", number)) is True
    call = _named(event, _marked("id", number))
    return Step(0, 0, Kind.TOOL_RESULT, tuple(blocks), tool=tool, id=call, failed=failed)


def _marked(key: str, number: int) -> str:
    return f"{key}_{number}" if number > 1 else key


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


_LONGEST_ID = 56
"""The most characters of a call's id: all tools take 64, and a suffix that tells duplicates apart must fit."""
_unfit = re.compile(r"[^A-Za-z0-9_-]").sub


class CallIds:
    """Gives every call an id that all models take and no other call has, and its result the same."""

    def __init__(self) -> None:
        self.tools: dict[str, str] = {}
        """The tool of each call, by the id that it was given."""
        self._waiting: dict[str, str] = {}
        """Calls without a result, by the ids that the program gave them."""
        self._unnamed: list[tuple[int, str, str]] = []
        """Those without an id that the model made last: the event, the tool, and the id that each was given."""
        self._answered = 0

    def call(self, number: int, call_id: str, tool: str) -> str:
        """Return the id of a call, of event ``number``, that the program called ``call_id`` ("" if it has no id)."""
        own = _unfit("_", call_id)[:_LONGEST_ID] or f"call_{number}"
        while own in self.tools:
            own += "_"
        self.tools[own] = tool
        if call_id:
            self._waiting[call_id] = own
        else:
            # what the model asked for before has come to nothing
            self._unnamed = [*(one for one in self._unnamed if one[0] == number), (number, tool, own)]
        return own

    @property
    def waiting(self) -> bool:
        """Return whether a call has no result yet."""
        return self._answered < len(self.tools)

    def paired(self, step: Step) -> Step | None:
        """Return a result as that of its call, None where none waits for it."""
        own = self.result(step.id, step.tool)
        return structs.replace(step, id=own, tool=self.tools[own]) if own else None

    def result(self, call_id: str, tool: str) -> str:
        """Return the id of the call that a result is of, "" where none waits for it.

        Without an id, it is of the first one of its tool that has none either; of the first of all if it names no tool.
        """
        own = self._waiting.pop(call_id, "")
        if not call_id and (found := next((one for one in self._unnamed if tool in ("", one[1])), None)):
            self._unnamed.remove(found)
            own = found[2]
        self._answered += own != ""
        return own


class Spoken(NamedTuple):
    """An event of the user or of the model, as far as counting exchanges needs to know it."""

    number: int
    kind: Kind
    has_text: bool


def spoken_by(number: int, event: Event) -> Spoken | None:
    """Return that of an event, None if nobody spoke."""
    if event.kind is not Kind.USER and event.kind not in OF_THE_MODEL:
        return None
    return Spoken(number, event.kind, any(block.type == "text" for block in event.blocks))


class Requests:
    """The requests of a user, as they come; files may come apart from the question about them."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        """Of each request, the number of its first event."""
        self._asking = False
        self._asked = False

    def add(self, spoken: Spoken) -> None:
        """Add the next event of the user or of the model."""
        if spoken.kind is not Kind.USER:
            self._asking = False
        elif not self._asking or (spoken.has_text and self._asked):
            self.numbers.append(spoken.number)
            self._asking, self._asked = True, spoken.has_text
        else:
            self._asked = self._asked or spoken.has_text

    def before(self, number: int) -> list[int]:
        """Return those before an event."""
        return self.numbers[: bisect_left(self.numbers, number)]

    def exchange(self, number: int) -> int:
        """Return in which exchange an event is; the first is 1."""
        return max(1, bisect_right(self.numbers, number))
