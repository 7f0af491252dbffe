"""The contents of ``events.json``'s elements: what stands for them there, and what a person may write instead.

``{"$blob": HEX, "size": N}`` names content that the conversation or the store has. ``{"text": "…"}`` and ``{"blob":
"<base64>"}`` hold content themselves, and so does a bare string.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64encode
from collections.abc import Callable

from msgspec import Struct

from fusefs.text.events_json_parse import Element
from fusefs.text.parse import ParseError, shorten
from store.events.event import Path
from store.formats.documents import Number
from store.ids import hash_bytes

REFERENCE = "$blob"

_FORMS = (REFERENCE, "text", "blob")
_KEYS = frozenset((*_FORMS, "size"))
_hash = re.compile(r"(?:blob:)?(?:(sha256|blake3):)?([0-9a-fA-F]{64})").fullmatch


class Found(Struct, frozen=True):
    """Content that a reference names. ``encoded`` says that records hold it in base64."""

    data: bytes
    encoded: bool


Find = Callable[[str, bytes], "Found | None"]
"""Returns content by algorithm (``blake3``, ``sha256``) and digest, None where it is nowhere."""


class Contents:
    """What stands in one element, with strings in the place of what stands for them.

    ``who`` says which element it is, for messages.
    """

    def __init__(self, element: Element, who: str, find: Find) -> None:
        self._element = element
        self._who = who
        self._find = find
        self._held: dict[str, Found] = {}
        self._places: dict[Path, str] = {}
        """The strings of the record that references stand for."""
        self._encoded: dict[Path, bool] = {}
        """By place: whether that string is base64, and of what is no text (True) or of text (False)."""
        self.unsure: list[Path] = []
        """The places of objects that hold content, or are what the record itself says."""

    # -- as it was drawn ---------------------------------------------------------------------------------------------

    def drawn(self, value: object, native: object, path: Path = ()) -> object:
        """Return what an element says as it was drawn; ``native`` is the parsed record."""
        if isinstance(value, dict):
            if isinstance(native, str) and REFERENCE in value:
                self._note(native, str(value[REFERENCE]), path)
                return native
            if isinstance(native, dict):
                return {key: self.drawn(item, native.get(key), (*path, key)) for key, item in value.items()}
        elif isinstance(value, list) and isinstance(native, list):
            return [
                self.drawn(item, inner, (*path, at))
                for at, (item, inner) in enumerate(zip(value, native, strict=False))
            ]
        return value

    def _note(self, native: str, digest: str, path: Path) -> None:
        data = native.encode()
        if hash_bytes(data).hex() != digest:
            # what is shown was read through base64
            data = binascii.a2b_base64(native)
            self._encoded[path] = _as_text(data) is None
        self._places[path] = native
        self._held.setdefault(digest, Found(data, path in self._encoded))

    # -- as it was edited --------------------------------------------------------------------------------------------

    def edited(self, value: object, old: object, path: Path = ()) -> object:
        """Return what an element says as it was edited; ``old`` is what stood there, as :meth:`drawn` returned it."""
        if isinstance(value, dict):
            if value.keys() <= _KEYS and any(form in value for form in _FORMS) and value != old:
                if path in self._places or REFERENCE in value:
                    return self._content(value, path)
                if len(value) == 1 and not (isinstance(old, dict) and old.keys() == value.keys()):
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

    def inline(self, value: object, path: Path) -> object:
        """Return ``value`` with the content of the object at ``path``, which is one of :attr:`unsure`, in its place."""
        if not path:
            return self._content(value, path) if isinstance(value, dict) else value
        step, rest = path[0], path[1:]
        if isinstance(value, dict):
            return {key: self.inline(item, rest) if key == step else item for key, item in value.items()}
        if isinstance(value, list):
            return [self.inline(item, rest) if at == step else item for at, item in enumerate(value)]
        return value

    def bytes_of(self, value: object) -> bytes:
        """Return the bytes of a record that is not JSON, from what stands for them."""
        if isinstance(value, str):
            return self._encoded_text(value)
        if isinstance(value, dict) and value.keys() <= _KEYS and any(form in value for form in _FORMS):
            return self._data(value).data
        raise self.error("$raw", 'the bytes of a record are {"$blob": …}, {"text": "…"} or {"blob": "<base64>"}')

    # -- within ------------------------------------------------------------------------------------------------------

    def _content(self, value: dict[str, object], path: Path) -> str:
        """Return the string that the record is to hold for one of the three forms."""
        found = self._data(value)
        if REFERENCE in value and path in self._places:
            kept = self._places[path]
            data = binascii.a2b_base64(kept) if path in self._encoded else kept.encode()
            if data == found.data:
                return kept
        text = None if path in self._encoded else _as_text(found.data)
        if text is not None and (path in self._places or not found.encoded):
            return text
        if path in self._places and path not in self._encoded:
            said = next(form for form in _FORMS if form in value)
            raise self.error(f'"{said}"', "this content is no text, and the record holds text here: write a text")
        return b64encode(found.data).decode()

    def _data(self, value: dict[str, object]) -> Found:
        forms = [form for form in _FORMS if form in value]
        if len(forms) > 1:
            both = " and ".join(f'"{form}"' for form in forms)
            raise self.error(f'"{forms[0]}"', f"{both} both say what the content is: keep one of them")
        form = forms[0]
        said = value[form]
        if not isinstance(said, str):
            raise self.error(f'"{form}"', f'the value of "{form}" is a string: write it in double quotes')
        if form == "text":
            return Found(self._encoded_text(said), encoded=False)
        if form == "blob":
            try:
                return Found(binascii.a2b_base64(said, strict_mode=True), encoded=True)
            except binascii.Error:
                raise self.error('"blob"', 'this is no base64: correct it, or write {"text": "…"}') from None
        found = self._named(said)
        size = value.get("size")
        if size is not None and not (isinstance(size, Number) and size.text == str(len(found.data))):
            told = size.text if isinstance(size, Number) else json.dumps(size, default=str)
            reason = f"the content of this hash has {len(found.data)} bytes and not {told}: correct hash or size"
            raise self.error(said, reason)
        return found

    def _named(self, said: str) -> Found:
        named = _hash(said)
        if named is None:
            raise self.error(said, f"{shorten(said)} is no hash: write 64 hexadecimal digits, or the text itself")
        digest = named[2].lower()
        found = self._held.get(digest) or self._find(named[1] or "", bytes.fromhex(digest))
        if found is None:
            reason = f'neither the conversation nor the store has the content {digest[:12]}…: write {{"text": "…"}}'
            raise self.error(said, f"{reason} in its place")
        return found

    def _in_base64(self, text: str, path: Path) -> str:
        """Return what the record holds, in base64, for a bare string."""
        try:
            data = binascii.a2b_base64(text, strict_mode=True)
        except (binascii.Error, ValueError):
            data = None
        if data is not None and (self._encoded[path] or _as_text(data) is not None):
            return text
        if self._encoded[path]:
            raise self.error(text[:40], "the record holds base64 here, of what is no text, and this is none")
        return b64encode(self._encoded_text(text)).decode()

    def _encoded_text(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise self.error("\\ud", "half of a surrogate pair is no text: write the whole character") from None

    def error(self, said: str, reason: str) -> ParseError:
        """Return an error about what stands in the element."""
        return ParseError(self._element.line_of(said), f"{self._who}: {reason}")


def _as_text(data: bytes) -> str | None:
    """Return content as text, None where it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
