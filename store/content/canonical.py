"""Canonical forms: of all spellings of a value one, so that who says the same says it in the same bytes.

A form is a function from a payload to a payload that, applied once more, changes nothing; what it cannot read it
leaves as it is. Nothing has one unless it is asked for: payloads are their producers' own bytes.
"""

import json
from collections.abc import Callable
from typing import Never

Canonical = Callable[[bytes], bytes]


def canonical_json(payload: bytes) -> bytes:
    """Return a JSON document in UTF-8 with its keys in order, no blanks between, and no escapes that need not be.

    Numbers stay what they are as integers, or as floating point numbers of 64 bits. Left as they are: duplicate keys,
    lone surrogates, numbers that none of these can hold, and whatever is no JSON.
    """
    try:
        value = json.loads(payload.decode(), object_pairs_hook=_object, parse_constant=_refuse)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        return text.encode()
    except (ValueError, RecursionError):
        return payload


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no JSON")
