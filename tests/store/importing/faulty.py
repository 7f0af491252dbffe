"""Formats that raise what nobody foresaw."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from store.formats.core.format import Source
from store.formats.core.look import Look

WORD = "quince"
"""The word in what a faulty format fails of: of its records or of its path."""

ERRORS = (
    KeyError("x"),
    RecursionError("too deep"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad\nbyte"),
    struct.error("unpack"),
    MemoryError(),
    StopIteration(),
)


def _told(value: object) -> bool:
    match value:
        case Source() | Look():
            return WORD in str(value.path)
        case bytes() | memoryview():
            return WORD.encode() in bytes(value)
        case dict():
            return WORD in str(value)
        case _:
            return False


def failing(method: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    """Return a method that raises where any of its arguments has the word."""

    def failed(*given: object, **more: object) -> object:
        if any(map(_told, given)):
            raise error
        return method(*given, **more)

    return failed


def fail(monkeypatch: pytest.MonkeyPatch, of: type, name: str, error: BaseException) -> None:
    """Have a method of a class fail of what has the word."""
    monkeypatch.setattr(of, name, failing(getattr(of, name), error))
