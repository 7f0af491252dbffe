"""Libraries, loaded without modules that they import and that are not needed here.

To load modules is most of what a command that only looks does, and of the start of a mount.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class _Late(ModuleType):
    """Stands for a module in the libraries that import it, and loads it once one of them uses what is not here."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            # the import itself asks, not the library
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            # used while the library is loaded
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


class _Inspect(_Late):
    """``inspect``, which loads Python's own parser, for click, which needs little of it: to strip help."""

    def cleandoc(self, text: str) -> str:
        if "\n" not in text:
            return text.expandtabs().lstrip()
        # imported here, as it is what takes long
        from inspect import cleandoc

        return cleandoc(text)


class _Gettext(_Late):
    """``gettext``, which looks for translations on the disk, for click, which has none."""

    def gettext(self, message: str) -> str:
        return message

    def ngettext(self, one: str, several: str, count: int) -> str:
        return one if count == 1 else several


class _Platform(_Late):
    """``platform``, which compiles many patterns, for ``uuid``, which asks for the system's name."""

    def system(self) -> str:
        return os.uname().sysname


class _Parse(_Late):
    """``urllib.parse``, which loads ``ipaddress``, for pathlib, which makes URIs with it."""

    def quote_from_bytes(self, given: bytes) -> str:
        from urllib.parse import quote_from_bytes

        return quote_from_bytes(given)


class _Schema(_Late):
    """``msgspec._json_schema``, which takes types apart, for msgspec, which hands its functions on."""

    def schema(self, *given: object, **named: object) -> object:
        return importlib.import_module(self.__name__).schema(*given, **named)

    def schema_components(self, *given: object, **named: object) -> object:
        return importlib.import_module(self.__name__).schema_components(*given, **named)


class _Metadata(_Late):
    """``importlib.metadata``, which loads what reads mail, for pyfuse3, which looks up its own version."""

    PackageNotFoundError = LookupError

    def version(self, name: str) -> str:
        raise LookupError(name)


class _Util(_Late):
    """``ctypes.util``, which runs a program to find a library, for trio, which looks for the one that names threads."""

    def find_library(self, name: str) -> str | None:
        # the C library has it
        return "libc.so.6" if name == "pthread" else None


@contextmanager
def _standing(*modules: _Late, own: tuple[_Late, ...] = (), missing: tuple[str, ...] = ()) -> Iterator[None]:
    """Have what is imported meanwhile find these in place of modules that are not loaded, and some not at all.

    ``own`` are parts of the library that is imported: it keeps them.
    """
    loaded: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # None says that there is no such one
    placed = {module.__name__: module for module in (*modules, *own)} | dict.fromkeys(missing)
    placed = {name: module for name, module in placed.items() if name not in loaded}
    inside = [(*name.rpartition("."), module) for name, module in placed.items() if "." in name and module not in own]
    for package, _, part, module in inside:
        setattr(importlib.import_module(package), part, module)
    loaded |= placed
    try:
        yield
    finally:
        for package, _, part, module in inside:
            if vars(loaded[package]).get(part) is module:
                delattr(loaded[package], part)
        for name, module in placed.items():
            if name in loaded and loaded[name] is module:
                del loaded[name]


def load_click() -> None:
    """Load click, and pathlib."""
    with _standing(_Gettext("gettext"), _Inspect("inspect"), _Platform("platform"), _Parse("urllib.parse")):
        import pathlib  # noqa: F401  # they keep what they find

        import click  # noqa: F401


def load_msgspec() -> None:
    """Load msgspec without ``typing_extensions``: what it takes from there Python itself has, since 3.11."""
    late = (_Late("msgspec.inspect"), _Schema("msgspec._json_schema"))
    with _standing(own=late, missing=("typing_extensions",)):
        import msgspec  # noqa: F401


def load_fuse() -> None:
    """Load pyfuse3 and trio, without what encrypts connections and finds names of hosts."""
    late = (_Late(name) for name in ("hmac", "idna", "ssl"))
    with _standing(_Metadata("importlib.metadata"), _Util("ctypes.util"), *late):
        import pyfuse3  # noqa: F401
        import trio  # noqa: F401
