"""The base64 under which JP keeps texts out of ``grep`` and of editors' search: arguments, results, metadata."""

import binascii

_LAST_OF_TWO = frozenset("AQgw")
_LAST_OF_THREE = frozenset("AEIMQUYcgkosw048")


def plain_text(text: str) -> str | None:
    """Return what ``text`` encodes, None where it is not canonical base64 of UTF-8; then it stands for itself."""
    if len(text) % 4:
        return None
    if text.endswith("="):
        last, allowed = (text[-3:-2], _LAST_OF_TWO) if text.endswith("==") else (text[-2:-1], _LAST_OF_THREE)
        if last not in allowed:
            return None
    try:
        return binascii.a2b_base64(text, strict_mode=True).decode()
    except ValueError:
        return None
