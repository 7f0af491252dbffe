"""Paths as text that metadata can hold: a file's name may be any bytes, JSON holds none but UTF-8."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

_SCHEME = "file:"


def path_text(path: Path | str) -> str:
    """Return ``path`` as text; one that is no UTF-8, and it alone, as ``file:`` and its bytes percent-encoded."""
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SCHEME + quote(os.fsencode(text))
    return _SCHEME + quote(text) if text.startswith(_SCHEME) else text


def text_path(text: str) -> Path:
    """Return the path that :func:`path_text` turned into ``text``."""
    if text.startswith(_SCHEME):
        return Path(os.fsdecode(unquote_to_bytes(text.removeprefix(_SCHEME))))
    return Path(text)
