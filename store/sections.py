"""Settings out of a table: values of a TOML file or of a JSON object, laid over a struct that has the defaults.

A setting is a field of a msgspec Struct, and what it takes is said by its type: ``bool``, ``int``, ``float``, ``str``,
``Literal`` of strings, ``tuple[str, ...]``, ``T | None`` (None can only be the default), a Struct (a section), or a
``dict`` from names to any of these (a section for each name). Numbers are 0 or more.
"""

import math
import reprlib
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Literal, TypeVar, get_args, get_origin

from msgspec import NODEFAULT, Struct, structs

from store.errors import UsageError

_TOO_LARGE = 1 << 63

S = TypeVar("S", bound=Struct)


def merged(base: S, table: Mapping[str, object], origin: str, within: str = "") -> tuple[S, list[str]]:
    """Return ``base`` with what ``table`` sets, and one warning for each key that is no setting.

    ``origin`` (a file) begins every message, and ``within`` (``section.``) the name of every setting in it. Raises
    UsageError, in one line, where a value does not fit.
    """
    known = {field.name: field for field in structs.fields(base)}
    values: dict[str, object] = {}
    warnings = []
    for key, value in table.items():
        name = within + key
        if (field := known.get(key)) is None:
            warnings.append(f"{origin}: unknown setting {name!r} is ignored")
            continue
        values[key], more = _value(field.type, getattr(base, key), value, origin, name)
        warnings += more
    return structs.replace(base, **values), warnings


def _value(kind: object, default: object, value: object, origin: str, name: str) -> tuple[object, list[str]]:
    """Return what a setting of the type ``kind`` becomes by ``value``, and warnings."""
    if get_origin(kind) is UnionType:
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if isinstance(kind, type) and issubclass(kind, Struct):
        if not isinstance(value, Mapping):
            raise UsageError(f"{origin}: {name} must be a section of its own, not {reprlib.repr(value)}")
        return merged(default if isinstance(default, kind) else kind(), value, origin, f"{name}.")
    if get_origin(kind) is dict:
        if not isinstance(value, Mapping):
            raise UsageError(f"{origin}: {name} must be a section of its own, not {reprlib.repr(value)}")
        each = get_args(kind)[1]
        found = dict(default) if isinstance(default, Mapping) else {}
        warnings = []
        for key, inner in value.items():
            found[key], more = _value(each, found.get(key, NODEFAULT), inner, origin, f"{name}.{key}")
            warnings += more
        return found, warnings
    if (taken := _fitting(kind, value)) is None:
        otherwise = "" if default is NODEFAULT else f" (default {_shown(default)})"
        raise UsageError(f"{origin}: {name} must be {_wanted(kind)}, not {reprlib.repr(value)}{otherwise}")
    return taken, []


def _fitting(kind: object, value: object) -> object:
    """Return ``value`` as a setting of a plain type ``kind`` takes it; None where it does not."""
    # Not isinstance: true and false are integers to Python.
    number = type(value) is int and 0 <= value < _TOO_LARGE
    if kind is float and (number or (type(value) is float and 0 <= value < math.inf)):
        return float(value)  # type: ignore[arg-type]  # a number, as was just seen
    if kind is int:
        return value if number else None
    if get_origin(kind) is Literal:
        return value if isinstance(value, str) and value in get_args(kind) else None
    if get_origin(kind) is tuple:
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return tuple(value) if fits else None  # type: ignore[arg-type]  # a list, as was just seen
    return value if kind in {bool, str} and type(value) is kind else None


def _wanted(kind: object) -> str:
    """Return what a setting of the type ``kind`` takes, in words."""
    if get_origin(kind) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "a list of strings"
    words = {
        bool: "true or false",
        int: "a whole number from 0 up",
        float: "a number from 0 up",
        str: "a string",
    }
    return next(word for each, word in words.items() if each is kind)


def _shown(value: object) -> str:
    """Return a setting's value as TOML spells it; "none" for what has none."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(each) for each in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
