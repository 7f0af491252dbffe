"""Cut JSON documents into the values that become records, found by where they stand, without parsing them.

Containers are entered as far as a format asks; the values it takes are records, and all else stands between records. A
literal holds no raw newline, so a quote that is lost is noticed at the end of its line; a bracket that is lost, by a
value that reaches over the beginning of the next. Either way reading goes on where an object begins with the same
indentation, or, in a file without line breaks, with the same keys.
"""

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from store.events.event import ValuePath
from store.formats.core.format import Span, let_go, without_endings
from store.formats.core.json_spans import element_spans, member_spans, text_of
from store.formats.core.json_view import BYTE_ORDER_MARK, is_json, is_strict_json

LITERAL = rb'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"'
_in_literal = re.compile(rb'[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+').match
_between = re.compile(rb"[\s,:\0]*+").match
_to_bracket = re.compile(rb'[^"\[\]{}]*+(?:' + LITERAL + rb'[^"\[\]{}]*+)*+(?:([\[{])|[\]}])').match
_strings = re.compile(rb'[^"\[\]{}]*+(?:' + LITERAL + rb'[^"\[\]{}]*+)*+').match
_scalar = re.compile(rb'[^\s,:\[\]{}"\0]*+').match
_blanks = re.compile(rb"[ \t\r\n]*+").match
_raw = msgspec.json.Decoder(msgspec.Raw).decode
_PLAIN = LITERAL + rb'|[^\s,\[\]{}"]++'
_beginning = re.compile(
    rb"\{\s*+(" + LITERAL + rb")\s*+:\s*+(?:(?:" + _PLAIN + rb")\s*+,\s*+(" + LITERAL + rb")\s*+:)?"
).match
_key_before = re.compile(rb'"[^"\\\n]*+"\s*+:\s*+\Z').search
_LONGEST_KEY = 256
_DEEPEST_INDENT = 64
_NEAR = 1024 * 1024
_WINDOW = 4 * 1024 * 1024
"""A mapped file is searched in pieces of so many bytes: those before it take no memory."""
_LARGEST_READ = 64 * 1024 * 1024
"""A larger value is not given to a parser as a whole."""
_MOST_WASTE = 16 * 1024 * 1024
"""The bytes read in vain, over all, before the rest is given up as one piece."""
_PARSED_BYTES = 512 * 1024
"""A larger document may have more values than there is memory for."""
LARGEST_PASSED = 16 * 1024
"""A value that is passed over and larger than this is a record all the same: between records there is little."""
_OPENERS, _CLOSERS, _SEPARATORS = b"[{", b"]}", b" \t\r\n,"
_OBJECT, _QUOTE, _NEWLINE = b'{"\n'
_MATCHING = {0x5D: False, 0x7D: True}


class Choice(Enum):
    """A value is gone into (passed if it holds none), a record, or passed over. LISTS: a record unless it is a list."""

    ENTER = 0
    TAKE = 1
    PASS = 2
    LISTS = 3


_Match = Callable[[memoryview, int, int], re.Match[bytes] | None]
_RECORDS = (Choice.TAKE, Choice.LISTS)

Choose = Callable[[ValuePath], Choice]
"""Asked for every value in an entered container, in a list only for the first: its answer holds for all.

The path of a document itself is empty.
"""


class RecordCut(NamedTuple):
    """A record: where it begins and ends, the path of its value in its document, and which document that is."""

    start: int
    end: int
    path: ValuePath
    document: int


class _Level:
    """An entered container: the ``step`` to the current value (None: a key is due); ``choice`` is for elements.

    ``sibling`` finds objects that begin as the first one in it.
    """

    __slots__ = ("_next", "_searched", "choice", "is_object", "path", "sibling", "step")

    def __init__(self, is_object: bool, path: ValuePath) -> None:
        self.is_object, self.path = is_object, path
        self.choice: Choice | None = None
        self.step: str | int | None = None if is_object else 0
        self.sibling: re.Pattern[bytes] | None = None
        self._next = self._searched = 0

    def next_sibling(self, data: memoryview, position: int, bound: int) -> int:
        """Return where the next one after ``position`` begins (its key, if it has one); 0 for none before ``bound``."""
        for found in places(self.sibling, data, position + 1, bound) if self.sibling else ():
            if not self.is_object:
                return found
            if named := _key_before(data, max(position, found - _LONGEST_KEY), found):
                return named.start()
        return 0

    def near_sibling(self, data: memoryview, position: int) -> int:
        """Return the same, if it is near; nothing is searched twice."""
        if self._searched <= position:
            self._next = self.next_sibling(data, position, position + _NEAR)
            self._searched = self._next or position + _NEAR
        return self._next


def choice_of(*items: str) -> Choose:
    """Return the choice of the values at some places, in which ``[]`` is any position of a list.

    A value in which others lie is a record unless it is a list.
    """
    wanted = {steps_of(item) for item in items}
    entered = {one[:depth] for one in wanted for depth in range(len(one))}

    def choose(path: ValuePath) -> Choice:
        said = tuple(["[]" if isinstance(step, int) else step for step in path])
        if said in wanted:
            return Choice.LISTS if said in entered else Choice.TAKE
        return Choice.ENTER if said in entered else Choice.PASS

    return choose


def steps_of(item: str) -> tuple[str, ...]:
    """Return a place in which ``[]`` is any position of a list, as steps."""
    return tuple(step for step in item.replace("[]", ".[]").split(".") if step)


def cut_spans(data: memoryview, start: int, choose: Choose) -> Iterator[Span]:
    """Yield the spans of :func:`cuts`, for :meth:`store.formats.core.format.Format.spans`.

    An offset within a document cannot be interpreted: then one span begins there, so that the importer reads the file
    from its beginning.
    """
    if start:
        if start < len(data):
            yield Span(start, len(data))
        return
    for cut in cuts(data, choose):
        yield Span(cut.start, cut.end)


def cuts(data: memoryview, choose: Choose, start: int | None = None) -> Iterator[RecordCut]:
    """Yield the records of the JSON documents in ``data``, in order; of bytes that make no sense, all.

    An offset ``start`` lies between the elements of a list, which is the first document.
    """
    if start is None and len(data) <= _PARSED_BYTES and (parsed := parsed_cuts(bytes(data), choose)) is not None:
        yield from parsed
        return
    levels: list[_Level] = [] if start is None else [_Level(False, ())]
    document = waste = 0
    position = start or (len(BYTE_ORDER_MARK) if data[:3] == BYTE_ORDER_MARK else 0)
    size = len(data)
    while (position := _run_end(_between, data, position)) < size:
        first = data[position]
        if first in _CLOSERS:
            if levels and levels[-1].is_object == _MATCHING[first]:
                levels.pop()
                document += _passed(levels)
            position += 1
            continue
        level = levels[-1] if levels else None
        if level and level.step is None:
            after = _literal_end(data, position) if first == _QUOTE else 0
            if after:
                level.step = text_of(bytes(data[position:after])) if after - position <= _WINDOW else ""
                position = after
                continue
        path: ValuePath = (*level.path, "" if level.step is None else level.step) if level else ()
        choice = level.choice if level else None
        if choice is None:
            choice = choose(path)
            if level and not level.is_object:
                level.choice = choice
        if first in _OPENERS and (choice is Choice.ENTER or (choice is Choice.LISTS and first != _OBJECT)):
            levels.append(_Level(first == _OBJECT, path))
            position += 1
            continue
        if level and level.sibling is None:
            level.sibling = _beginning_like(data, position) or like(data, position)
        end, seen, whole = _value(data, position, level, waste)
        waste += seen
        if choice in _RECORDS or not whole or end - position > LARGEST_PASSED:
            yield RecordCut(position, end, path, document)
        position = end
        document += _passed(levels)


def parsed_cuts(text: bytes, choose: Choose) -> list[RecordCut] | None:
    """Return the records of a document that a strict parser reads, which is several times faster; None: it does not."""
    found: list[RecordCut] = []
    start = end_of(_blanks(text, 0))
    try:
        end = start + len(memoryview(_raw(text)))
        return found if _cut_value(text[start:end], start, (), choose(()), choose, found) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _cut_value(
    text: bytes, base: int, path: ValuePath, choice: Choice, choose: Choose, into: list[RecordCut]
) -> bool:
    """Add the records in a value, which stands at ``base``; return False where one object has a key twice."""
    first = text[0]
    if first not in _OPENERS or not (choice is Choice.ENTER or (choice is Choice.LISTS and first != _OBJECT)):
        if choice in _RECORDS or len(text) > LARGEST_PASSED:
            into.append(RecordCut(base, base + len(text), path, 0))
        return True
    named = member_spans(text) if first == _OBJECT else dict(enumerate(element_spans(text)))
    if named is None:
        return False
    chosen: Choice | None = None
    for step, (start, end) in named.items():
        where = (*path, step)
        if chosen is None or first == _OBJECT:
            chosen = choose(where)
        # most values are, and no copy of these is needed
        if chosen is Choice.TAKE:
            into.append(RecordCut(base + start, base + end, where, 0))
        elif not _cut_value(text[start:end], base + start, where, chosen, choose, into):
            return False
    return True


def _passed(levels: list[_Level]) -> int:
    """Count a value that has ended; return how many documents have."""
    if not levels:
        return 1
    level = levels[-1]
    level.step = None if level.is_object else level.step + 1 if isinstance(level.step, int) else 0
    return 0


def _value(data: memoryview, position: int, level: _Level | None, waste: int) -> tuple[int, int, bool]:
    """Return the end of the value at ``position``, the number of bytes read in vain, and whether it is whole."""
    first = data[position]
    if first not in _OPENERS:
        end = _literal_end(data, position) if first == _QUOTE else _run_end(_scalar, data, position)
        if end > position:
            return end, 0, True
        seen = 0
    else:
        if level and (following := level.near_sibling(data, position)):
            # mostly it ends before the next one, and a parser tells faster than brackets
            end = without_separators(data, position, following)
            if is_strict_json(data[position:end]):
                return end, 0, True
        end, seen = _element_end(data, position, len(data))
        if end and (level is None or not level.next_sibling(data, position, end)):
            return end, 0, True
        if end and (end - position > _LARGEST_READ or is_json(data[position:end])):
            return end, 0, True
    later = level.next_sibling(data, position, len(data)) if level and waste < _MOST_WASTE else 0
    return without_separators(data, position, later or len(data)), max(seen - position, 0), False


def _element_end(data: memoryview, position: int, bound: int) -> tuple[int, int]:
    """Return the end of a container, 0 where it has none before ``bound``, and the offset read up to."""
    depth, released = 0, position
    while position < bound:
        window = min(position + _WINDOW, bound)
        if bracket := _to_bracket(data, position, window):
            position = bracket.end()
            depth += 1 if bracket.lastindex else -1
            if depth <= 0:
                return position, position
        elif (end := end_of(_strings(data, position, window))) < window:
            # a string that is longer than the window, or never ends
            if not (after := _literal_end(data, end)):
                break
            position = after
        else:
            position = end
        if position - released >= _WINDOW:
            let_go(data, released, position)
            released = position
    return 0, position


def _literal_end(data: memoryview, position: int) -> int:
    """Return the end of the string that begins at ``position``, 0 where the line or the file ends before."""
    at, size = position + 1, len(data)
    while at < size:
        window = min(at + _WINDOW, size)
        end = end_of(_in_literal(data, at, window))
        if end < window and data[end] == _QUOTE:
            return end + 1
        if end < window and (data[end] == _NEWLINE or end + 1 < window):
            break
        if end == at:
            break
        # an escape at the end of the window goes on in the next one
        let_go(data, at, end)
        at = end
    return 0


def _run_end(run: _Match, data: memoryview, position: int) -> int:
    """Return the end of a run of bytes."""
    while (end := end_of(run(data, position, position + _WINDOW))) == position + _WINDOW:
        let_go(data, position, end)
        position = end
    return end


def places(pattern: re.Pattern[bytes], data: memoryview, start: int, bound: int) -> Iterator[int]:
    """Yield where matches of a pattern begin; one that is longer than a window may be passed over."""
    while start < bound:
        begun, window = start, min(start + _WINDOW, bound)
        for found in pattern.finditer(data, start, min(window + _WINDOW, bound)):
            if found.start() >= window:
                break
            yield found.start()
            start = max(start, found.end())
        let_go(data, begun, window)
        start = max(start, window)


def _beginning_like(data: memoryview, position: int) -> re.Pattern[bytes] | None:
    """Return a pattern for objects that begin a line as the one at ``position`` does; None if it begins none."""
    at = position
    while at > 0 and position - at < _DEEPEST_INDENT and data[at - 1] in b" \t":
        at -= 1
    if at in (0, position) or data[at - 1] != _NEWLINE or data[position] != _OBJECT:
        return None
    return re.compile(rb"\n" + re.escape(bytes(data[at:position])) + rb"\{")


def like(data: memoryview, position: int) -> re.Pattern[bytes] | None:
    """Return a pattern for objects that begin as the one at ``position``, by first keys; None if it is none."""
    begins = _beginning(data, position)
    if begins is None:
        return None
    pattern = rb"\{\s*+" + re.escape(begins[1]) + rb"\s*+:"
    if begins[2] is not None:
        pattern += rb"\s*+(?:" + _PLAIN + rb")\s*+,\s*+" + re.escape(begins[2]) + rb"\s*+:"
    return re.compile(pattern)


def without_separators(data: memoryview, start: int, end: int) -> int:
    """Return the end of the value that begins at ``start``, without the separators before the one at ``end``."""
    return without_endings(data, start + 1, end, _SEPARATORS)


def end_of(match: re.Match[bytes] | None) -> int:
    """Return the end of a match that cannot fail."""
    assert match is not None
    return match.end()
