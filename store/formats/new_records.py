"""New records that a person wrote out as JSON, laid out as their neighbours are."""

import json
import re

from store.formats.documents import Number
from store.formats.new_literals import spell
from store.formats.splices import is_spaced

_indented = re.compile(rb"\n([ \t]*)[}\]]\s*\Z").search
_STEP = b"  "


def new_record(value: object, like: bytes | None) -> bytes:
    """Return a record that says ``value``, as :func:`store.formats.documents.parse` gives it.

    ``like`` is a record of the same file. Raises UsageError for what is no valid Unicode.
    """
    layout = _indented(like) if like else None
    end = b"\r" if like and like.endswith(b"\r") else b""
    if layout is not None:
        return _Writer(like or b"", b"\n" + layout[1]).value(value, b"\n" + layout[1])
    return _Writer(like or b"", None).value(value, b"") + end


class _Writer:
    def __init__(self, like: bytes, line: bytes | None) -> None:
        self._like = like
        self._lines = line is not None
        spaced = self._lines or is_spaced(like)
        self._colon = b": " if spaced else b":"
        self._comma = b", " if spaced and not self._lines else b","

    def value(self, value: object, line: bytes) -> bytes:
        match value:
            case Number():
                return value.text.encode()
            case str():
                return spell(value, self._like)
            case dict():
                inner = [
                    spell(key, self._like) + self._colon + self.value(item, line + _STEP) for key, item in value.items()
                ]
                return self._joined(b"{", inner, b"}", line)
            case list():
                return self._joined(b"[", [self.value(item, line + _STEP) for item in value], b"]", line)
        return json.dumps(value).encode()

    def _joined(self, opening: bytes, inner: list[bytes], closing: bytes, line: bytes) -> bytes:
        if not inner:
            return opening + closing
        if not self._lines:
            return opening + self._comma.join(inner) + closing
        return opening + line + _STEP + (b"," + line + _STEP).join(inner) + line + closing
