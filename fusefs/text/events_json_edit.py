"""Reading ``events.json`` as a person left it: an array, taken apart into elements and no further.

An element that is, byte for byte, what was drawn need not be understood; only the others are parsed.

The contents of ``events.json``'s elements: what stands for them there, and what a person may write instead.

``{"$blob": HEX, "size": N}`` names content that the conversation or the store has. ``{"text": "…"}`` and ``{"blob":
"<base64>"}`` hold content themselves, and so does a bare string.

Which records the elements of an edited ``events.json`` are.

``"$event": N`` says so. Elements without it, as those of ``jp``, are known by what they are: by equal bytes, by equal
content, by what identifies them, and at last by where they stand between their neighbours.
"""

import binascii
import json
import re
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from enum import IntEnum

from msgspec import Struct

from fusefs.text.events_json import is_held
from fusefs.text.parse import ParseError, shorten
from store.content.cuts import is_text
from store.errors import UsageError
from store.events.event import Block, ValuePath, utf8
from store.formats.core import documents
from store.formats.core.documents import Number
from store.formats.core.json_spans import elements, locate, value_end
from store.ids import hash_bytes

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_LIST, _END_OF_LIST = b"[]"


class Element(Struct, frozen=True):
    """An element of the array: its bytes, where they begin in the file, and on which line, counted from 1."""

    text: bytes
    start: int
    line: int

    def line_of(self, said: str, path: ValuePath = ()) -> int:
        """Return the line on which something stands in the value at a path of its record, as far as it is found."""
        start = 0
        for lead in ((), (VALUE_KEY,)):
            with suppress(UsageError):
                start = locate(self.text, (*lead, *path))[0]
                break
        at = self.text.find(said.encode(errors="replace"), start)
        return self.line + self.text.count(b"\n", 0, max(at, start))

    def parsed(self) -> object:
        """Return its value, as :func:`store.formats.core.documents.parse` does; raises :class:`ParseError`."""
        try:
            return documents.read(self.text.decode())
        except json.JSONDecodeError as error:
            reason = f"this is not JSON, in column {error.colno} ({error.msg}): correct it"
            raise ParseError(self.line + error.lineno - 1, reason) from None
        except RecursionError:
            raise ParseError(self.line, "this is nested too deeply") from None
        except UsageError as error:
            raise ParseError(self.line, str(error)) from None


def split(data: bytes) -> list[Element]:
    """Return the elements of the array that ``data`` is; raises :class:`ParseError` where it is none."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        reason = f"the byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8"
        raise ParseError(_line(data, error.start), reason) from None
    start = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    while start < len(data) and data[start] in _BLANKS:
        start += 1
    if start == len(data) or data[start] != _LIST:
        raise ParseError(_line(data, start), "the file is one list of records: let it begin with [ and end with ]")
    found: list[Element] = []
    try:
        line, counted = 1, 0
        for begin, end in elements(data, start):
            line += data.count(b"\n", counted, begin)
            counted = begin
            found.append(Element(data[begin:end], begin, line))
        beyond = value_end(data, start)
    except UsageError:
        raise _damage(data) from None
    if data[beyond - 1] != _END_OF_LIST:
        raise _damage(data)
    if rest := data[beyond:].strip(_BLANKS):
        raise ParseError(_line(data, data.index(rest, beyond)), "this stands behind the end of the list: remove it")
    return found


def _damage(data: bytes) -> ParseError:
    try:
        json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        return ParseError(error.lineno, f"this is not JSON, in column {error.colno} ({error.msg}): correct it")
    except RecursionError:
        pass
    return ParseError(1, "this is not JSON, or nested too deeply: correct it")


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


REFERENCE = "$blob"

_FORMS = (REFERENCE, "text", "blob")
_SAID = "{"
_KEYS = frozenset((*_FORMS, "size"))
_hash = re.compile(r"(?:blob:)?(?:(sha256|blake3):)?([0-9a-fA-F]{64})").fullmatch


class Found(Struct, frozen=True):
    """Content that stands for a string. ``encoded`` says that the string is likely to be base64 of it."""

    data: bytes
    encoded: bool


Find = Callable[[str, bytes], bytes | None]
"""Returns content by algorithm (``blake3``, ``sha256``, "" for either) and digest, None where it is nowhere."""


class Shape(IntEnum):
    """The sight of a content that was put into a record: something else or nothing, a text, or bytes."""

    OTHER = 0
    TEXT = 1
    BYTES = 2


class ElementContents:
    """The content of one element, with strings in the place of what stands for them.

    ``who`` says which element it is, for messages.
    """

    def __init__(self, element: Element, who: str, find: Find) -> None:
        self._element = element
        self._who = who
        self._find = find
        self._held: dict[str, Found] = {}
        self._places: dict[ValuePath, str] = {}
        """The strings of the record that references stand for."""
        self._encoded: dict[ValuePath, bool] = {}
        """By place: whether that string is base64, and of what is no text (True) or of text (False)."""
        self.unsure: list[ValuePath] = []
        """The places of objects that hold content, or are what the record itself says."""
        self._holders: dict[ValuePath, dict[str, object]] = {}
        """The references that were drawn for objects which hold content and nothing else."""
        self._placed: dict[ValuePath, Found] = {}
        """The contents that were put into the record, by place."""

    # -- as it was drawn ---------------------------------------------------------------------------------------------

    def drawn(self, value: object, native: object, path: ValuePath = ()) -> object:
        """Return the value of an element as it was drawn; ``native`` is the parsed record."""
        if isinstance(value, dict):
            if isinstance(native, str) and REFERENCE in value:
                self._note(native, str(value[REFERENCE]), path)
                return native
            if REFERENCE in value and isinstance(native, dict) and REFERENCE not in native and is_held(native):
                ((form, held),) = native.items()
                self._note(held, str(value[REFERENCE]), (*path, form))
                self._holders[path] = value
                return native
            if isinstance(native, dict):
                return {key: self.drawn(item, native.get(key), (*path, key)) for key, item in value.items()}
        elif isinstance(value, list) and isinstance(native, list):
            return [
                self.drawn(item, inner, (*path, at))
                for at, (item, inner) in enumerate(zip(value, native, strict=False))
            ]
        return value

    def _note(self, native: str, digest: str, path: ValuePath) -> None:
        data = native.encode()
        if hash_bytes(data).hex() != digest:
            # the shown value was read through base64
            data = binascii.a2b_base64(native)
            self._encoded[path] = _as_text(data) is None
        self._places[path] = native
        self._held.setdefault(digest, Found(data, path in self._encoded))

    # -- as it was edited --------------------------------------------------------------------------------------------

    def edited(self, value: object, old: object, path: ValuePath = ()) -> object:
        """Return the value of an element as it was edited; ``old`` is the earlier one, as :meth:`drawn` returned it."""
        if isinstance(value, dict):
            if path in self._holders and _stands_for_content(value):
                return self._held_as(value, old, path)
            if _stands_for_content(value) and value != old:
                if path in self._places or REFERENCE in value:
                    return self._content(value, path)
                if not (isinstance(old, dict) and old.keys() == value.keys()):
                    # whatever it turns out to be, it must make sense
                    self._data(value, path)
                    self.unsure.append(path)
            elif path in self._places and REFERENCE in value:
                keys = ", ".join(shorten(key) for key in value.keys() - _KEYS)
                raise self.error(REFERENCE, f'beside "{REFERENCE}" stands "size" and nothing else: remove {keys}')
            was = old if isinstance(old, dict) else {}
            return {key: self.edited(item, was.get(key), (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            earlier = old if isinstance(old, list) else []
            return [
                self.edited(item, earlier[at] if at < len(earlier) else None, (*path, at))
                for at, item in enumerate(value)
            ]
        if isinstance(value, str) and path in self._encoded:
            return self._in_base64(value, path)
        return value

    def inline(self, value: object, path: ValuePath) -> object:
        """Return ``value`` with the content of the object at ``path``, which is one of :attr:`unsure`, in its place."""
        return _replaced(value, path, lambda held: self._content(held, path) if isinstance(held, dict) else held)

    def with_text(self, value: object, path: ValuePath) -> object:
        """Return ``value`` with some text at ``path``."""
        return _replaced(value, path, lambda _held: "text")

    def shown_as(self, path: ValuePath, shown: Mapping[ValuePath, Block]) -> Shape:
        """Return what the content that was put at a place is in a record with the blocks ``shown``."""
        block, data = shown.get(path), self._placed[path].data
        if block is not None and block.data == data:
            return Shape.BYTES
        return Shape.TEXT if block is not None and block.text is not None and utf8(block.text) == data else Shape.OTHER

    def doubtful(self, shown: Mapping[ValuePath, Block]) -> list[ValuePath]:
        """Return the places of contents that might have to be put there in the other form (:meth:`in_other_form`)."""
        # what stood there before says which form it is to have
        sure = {path: Shape.TEXT if path in self._places else Shape.BYTES for path in self._placed}
        return [path for path, least in sure.items() if self.shown_as(path, shown) < least]

    def in_other_form(self, value: object, path: ValuePath) -> object:
        """Return ``value`` with the content that was put at a place in base64 if it is text there, else as text."""
        data = self._placed[path].data
        return _replaced(value, path, lambda held: _other_form(held, data))

    def check(self, shown: Mapping[ValuePath, Block]) -> None:
        """Refuse content that is no text where a record shows a text: it would be read as base64."""
        for path, found in self._placed.items():
            if path in shown and _as_text(found.data) is None and self.shown_as(path, shown) is Shape.OTHER:
                raise self.error(_SAID, "this content is no text, and the record holds text here: write a text", path)

    def bytes_of(self, value: object) -> bytes:
        """Return the bytes of a record that is not JSON, from what stands for them."""
        if isinstance(value, str):
            return self._encoded_text(value, ())
        if isinstance(value, dict) and _stands_for_content(value):
            return self._data(value, (RAW_KEY,)).data
        raise self.error("$raw", 'the bytes of a record are {"$blob": …}, {"text": "…"} or {"blob": "<base64>"}')

    def _held_as(self, value: dict[str, object], old: object, path: ValuePath) -> object:
        """Return the object that is to hold content where ``old`` held it, and a reference was drawn."""
        if value == self._holders[path]:
            return old
        found = self._data(value, path)
        if REFERENCE not in value:
            return value
        text = _as_text(found.data)
        return {"blob": b64encode(found.data).decode()} if text is None else {"text": text}

    # -- within ------------------------------------------------------------------------------------------------------

    def _content(self, value: dict[str, object], path: ValuePath) -> str:
        """Return the string that the record is to hold for one of the three forms."""
        found = self._placed[path] = self._data(value, path)
        if REFERENCE in value and path in self._places:
            kept = self._places[path]
            data = binascii.a2b_base64(kept) if path in self._encoded else kept.encode()
            if data == found.data:
                return kept
        text = None if path in self._encoded else _as_text(found.data)
        if text is not None and (path in self._places or not found.encoded):
            return text
        if path in self._places and path not in self._encoded:
            raise self.error(_SAID, "this content is no text, and the record holds text here: write a text", path)
        return b64encode(found.data).decode()

    def _data(self, value: dict[str, object], path: ValuePath) -> Found:
        forms = [form for form in _FORMS if form in value]
        if len(forms) > 1:
            both = " and ".join(f'"{form}"' for form in forms)
            raise self.error(f'"{forms[0]}"', f"{both} both say what the content is: keep one of them", path)
        form = forms[0]
        said = value[form]
        if not isinstance(said, str):
            raise self.error(f'"{form}"', f'the value of "{form}" is a string: write it in double quotes', path)
        if form == "text":
            return Found(self._encoded_text(said, path), encoded=False)
        if form == "blob":
            try:
                return Found(binascii.a2b_base64(said, strict_mode=True), encoded=True)
            except binascii.Error:
                raise self.error('"blob"', 'this is no base64: correct it, or write {"text": "…"}', path) from None
        found = self._named(said, path)
        size = value.get("size")
        if size is not None and not (isinstance(size, Number) and size.text == str(len(found.data))):
            told = size.text if isinstance(size, Number) else json.dumps(size, default=str)
            reason = f"the content of this hash has {len(found.data)} bytes and not {told}: correct hash or size"
            raise self.error(said, reason, path)
        return found

    def _named(self, said: str, path: ValuePath) -> Found:
        named = _hash(said)
        if named is None:
            reason = f"{shorten(said)} is no hash: write 64 hexadecimal digits, or the text itself"
            raise self.error(said, reason, path)
        digest = named[2].lower()
        if (found := self._held.get(digest)) is not None:
            return found
        data = self._find(named[1] or "", bytes.fromhex(digest))
        if data is None:
            reason = f'the store does not have the content {digest[:12]}…: write {{"text": "…"}} in its place'
            raise self.error(said, reason, path)
        return Found(data, encoded=not is_text(data))

    def _in_base64(self, text: str, path: ValuePath) -> str:
        """Return the record's content in base64, for a bare string."""
        try:
            data = binascii.a2b_base64(text, strict_mode=True)
        except (binascii.Error, ValueError):
            data = None
        if data is not None and (self._encoded[path] or _as_text(data) is not None):
            return text
        if self._encoded[path]:
            raise self.error(text[:40], "the record holds base64 here, of what is no text, and this is none", path)
        return b64encode(self._encoded_text(text, path)).decode()

    def _encoded_text(self, text: str, path: ValuePath) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            reason = "half of a surrogate pair is no text: write the whole character"
            raise self.error("\\ud", reason, path) from None

    def error(self, said: str, reason: str, path: ValuePath = ()) -> ParseError:
        return ParseError(self._element.line_of(said, path), f"{self._who}: {reason}")


def _stands_for_content(value: dict[str, object]) -> bool:
    """Return whether an object looks like content; one around a reference is the record's own."""
    forms = [value[form] for form in _FORMS if form in value]
    return value.keys() <= _KEYS and forms != [] and not any(isinstance(said, dict) for said in forms)


def _replaced(value: object, path: ValuePath, change: Callable[[object], object]) -> object:
    """Return a value with what stands at a path changed."""
    if not path:
        return change(value)
    if isinstance(value, dict):
        return {key: _replaced(item, path[1:], change) if key == path[0] else item for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, path[1:], change) if at == path[0] else item for at, item in enumerate(value)]
    return value


def _other_form(held: object, data: bytes) -> object:
    encoded, text = b64encode(data).decode(), _as_text(data)
    return encoded if held == text else held if text is None else text


def _as_text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


NUMBER_KEY, RAW_KEY, VALUE_KEY = "$event", "$raw", "$value"

_IDENTIFYING = (("event_id",), ("type", "timestamp", "id"), ("type", "id"), ("type", "timestamp"), ("uuid",))
"""Keys of elements that tell which one it is, surest first."""

_MOST_COMPARED = 400
"""Pairs of elements whose texts are compared; where there are more, those that stand in the same place are one."""

_ALIKE = 0.5


class DrawnElement(Struct, frozen=True):
    """An element as it was drawn: the number of its record, its bytes, and whether these say the number."""

    number: int
    text: bytes
    numbered: bool


class Match(Struct, frozen=True):
    """An element of the edited file: the number of the record that it is, 0 for a new one.

    ``value`` is what it says, parsed; None where its bytes are the ones that were drawn.
    """

    number: int
    element: Element
    value: object


def match(shown: Sequence[DrawnElement], told: Sequence[Element], records: int) -> list[Match]:
    """Return the record of each element of an edited file; raises :class:`ParseError`.

    ``records`` is how many there are: a number may name one that has no element.
    """
    most = min(len(shown), len(told))
    head = next((at for at in range(most) if shown[at].text != told[at].text), most)
    most -= head
    tail = next((at for at in range(most) if shown[-1 - at].text != told[-1 - at].text), most)
    begin, end = len(shown) - tail, len(told) - tail
    first = [Match(one.number, element, None) for one, element in zip(shown[:head], told[:head], strict=True)]
    last = [Match(one.number, element, None) for one, element in zip(shown[begin:], told[end:], strict=True)]
    taken = {one.number for one in (*first, *last)}
    return [*first, *_Middle(shown[head:begin], told[head:end], records, taken).matches(), *last]


class _Middle:
    """The differences between a file as it was drawn and as it was edited."""

    def __init__(self, shown: Sequence[DrawnElement], told: Sequence[Element], records: int, taken: set[int]) -> None:
        self._shown = shown
        self._told = told
        self._records = records
        self._numbers = [0] * len(told)
        self._values: list[object] = [None] * len(told)
        self._taken = taken

    def matches(self) -> list[Match]:
        self._by_bytes()
        loose = [at for at in range(len(self._told)) if not self._numbers[at]]
        for at in loose:
            value = self._values[at] = self._told[at].parsed()
            if isinstance(value, dict) and NUMBER_KEY in value and not self._is_own(value):
                self._take(at, self._number(value, self._told[at]))
        loose = [at for at in loose if not self._numbers[at]]
        left = [one for one in self._shown if not one.numbered and one.number not in self._taken]
        if loose and left:
            self._by_content(loose, left)
        return [Match(*each) for each in zip(self._numbers, self._told, self._values, strict=True)]

    def _is_own(self, value: dict[str, object]) -> bool:
        """Return whether a record that has no number has such a key itself."""
        number = value[NUMBER_KEY]
        return not isinstance(number, documents.Number) and any(not one.numbered for one in self._shown)

    def _by_bytes(self) -> None:
        places: defaultdict[bytes, deque[int]] = defaultdict(deque)
        for at, one in enumerate(self._shown):
            places[one.text].append(at)
        for at, where in _in_order([places.get(element.text) for element in self._told]):
            self._take(at, self._shown[where].number)

    def _number(self, value: dict[str, object], element: Element) -> int:
        said = value[NUMBER_KEY]
        line = element.line_of(f'"{NUMBER_KEY}"')
        if not isinstance(said, documents.Number) or not said.text.isdigit():
            reason = f'"{NUMBER_KEY}" is the number of a record: write that, or leave it out of a new one'
            raise ParseError(line, reason)
        number = int(said.text[:18])
        if not 0 < number <= self._records:
            raise ParseError(line, f'there is no record {said.text}: leave "{NUMBER_KEY}" out of a new one')
        if number in self._taken:
            raise ParseError(line, f'record {number} stands here twice: leave "{NUMBER_KEY}" out of the new one')
        return number

    def _take(self, at: int, number: int) -> None:
        self._numbers[at] = number
        self._taken.add(number)

    # -- elements that do not say which record they are --------------------------------------------------------------

    def _by_content(self, loose: Sequence[int], left: Sequence[DrawnElement]) -> None:
        values = {one.number: documents.read(one.text.decode()) for one in left}
        places: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for at, one in enumerate(left):
            places[_compact(values[one.number])].append(at)
        for at, where in _in_order([places.get(_compact(self._values[index])) for index in loose]):
            self._take(loose[at], left[where].number)
        for keys in _IDENTIFYING:
            self._by_keys(keys, loose, left, values)
        for old, new in self._gaps(loose, left):
            for one, index in self._pairs(old, new):
                self._take(index, one.number)

    def _by_keys(
        self, keys: tuple[str, ...], loose: Sequence[int], left: Sequence[DrawnElement], values: dict[int, object]
    ) -> None:
        """Match elements that are the only ones with the same values under some keys."""
        old: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        new: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for one in left:
            if one.number not in self._taken and (said := _said(values[one.number], keys)):
                old[said].append(one.number)
        for index in loose:
            if not self._numbers[index] and (said := _said(self._values[index], keys)):
                new[said].append(index)
        for said, indexes in new.items():
            numbers = old.get(said, [])
            if len(numbers) == len(indexes) == 1:
                self._take(indexes[0], numbers[0])

    def _gaps(
        self, loose: Sequence[int], left: Sequence[DrawnElement]
    ) -> Iterator[tuple[list[DrawnElement], list[int]]]:
        """Yield the rest between known neighbours: elements as drawn, and as edited."""
        waiting = [one for one in left if one.number not in self._taken]
        numbers = [one.number for one in waiting]
        gap: list[int] = []
        before = 0
        for index in range(len(self._told) + 1):
            beyond = index == len(self._told)
            number = 0 if beyond else self._numbers[index]
            if not beyond and not number:
                gap.append(index)
                continue
            if gap and (beyond or number > before):
                end = len(waiting) if beyond else bisect_left(numbers, number)
                if old := waiting[bisect_right(numbers, before) : end]:
                    yield old, gap
            gap = []
            before = max(before, number)

    def _pairs(self, old: Sequence[DrawnElement], new: Sequence[int]) -> Iterable[tuple[DrawnElement, int]]:
        if len(old) == len(new) or len(old) * len(new) > _MOST_COMPARED:
            return list(zip(old, new, strict=False))
        ratios = sorted(
            (
                (-SequenceMatcher(None, one.text, self._told[index].text, autojunk=False).quick_ratio(), at, where)
                for at, one in enumerate(old)
                for where, index in enumerate(new)
            )
        )
        pairs: dict[int, int] = {}
        for ratio, at, where in ratios:
            crossing = any((at < other) != (where < there) for other, there in pairs.items())
            if -ratio >= _ALIKE and at not in pairs and where not in pairs.values() and not crossing:
                pairs[at] = where
        return [(old[at], new[where]) for at, where in pairs.items()]


def _in_order(places: Sequence[deque[int] | None]) -> Iterator[tuple[int, int]]:
    """Yield the place of each among its equal elements: those in order first, then those that were moved."""
    last = -1
    moved: list[tuple[int, deque[int]]] = []
    for at, where in enumerate(places):
        if where is None:
            continue
        following = next((place for place in where if place > last), None)
        if following is None:
            moved.append((at, where))
            continue
        where.remove(following)
        last = following
        yield at, following
    for at, where in moved:
        if where:
            yield at, where.popleft()


def _compact(value: object) -> str:
    return json.dumps(value, default=lambda number: {"": number.text}, ensure_ascii=False)


def _said(value: object, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return an element's values of the keys that identify it, () if it lacks one."""
    if not isinstance(value, dict):
        return ()
    said = tuple(text for key in keys if isinstance(text := value.get(key), str))
    return said if len(said) == len(keys) else ()
