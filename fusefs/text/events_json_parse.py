"""Reading ``events.json`` as a person left it: an array, taken apart into elements and no further.

An element that is, byte for byte, what was drawn need not be understood; only the others are parsed.
"""

import json

from msgspec import Struct

from fusefs.text.parse import ParseError
from store.errors import UsageError
from store.formats import documents
from store.formats.json_spans import elements, value_end

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_LIST, _END_OF_LIST = b"[]"


class Element(Struct, frozen=True):
    """An element of the array: its bytes, where they begin in the file, and on which line, counted from 1."""

    text: bytes
    start: int
    line: int

    def line_of(self, said: str) -> int:
        """Return the line on which something stands in it; its first line if that is not found."""
        at = self.text.find(said.encode(errors="replace"))
        return self.line + self.text.count(b"\n", 0, max(at, 0))

    def parsed(self) -> object:
        """Return what it says, as :func:`store.formats.documents.parse` does; raises :class:`ParseError`."""
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
    """Return what is wrong with an array that cannot be taken apart."""
    try:
        json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        return ParseError(error.lineno, f"this is not JSON, in column {error.colno} ({error.msg}): correct it")
    except RecursionError:
        pass
    return ParseError(1, "this is not JSON, or nested too deeply: correct it")


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1
