"""The ``convfs`` command. Modules import at the top only what ``convfs --help`` needs; the rest when it is used.

A command that only looks ends after some hundredths of a second, most of which it takes Python to load modules. So
here stands what makes that faster for all of them.
"""

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_OBJECTS = 100_000
"""The new objects after which Python looks for garbage among them."""

# what is imported is not garbage: looking for some takes up to a tenth of a short command
gc.set_threshold(_OBJECTS)


class _Inspect(ModuleType):
    """Stands for ``inspect``, which loads Python's own parser, in click, which needs little of it: to strip help."""

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module(self.__name__), name)

    def cleandoc(self, text: str) -> str:
        if "\n" not in text:
            return text.expandtabs().lstrip()
        # imported here, as it is what takes long
        from inspect import cleandoc

        return cleandoc(text)


@contextmanager
def _standing(name: str, module: ModuleType | None) -> Iterator[None]:
    """Have what is imported meanwhile find ``module`` under a name, or nothing, unless the real one is loaded."""
    if name in sys.modules:
        yield
        return
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # it may hold None, which says so
    modules[name] = module
    try:
        yield
    finally:
        del modules[name]


def load_msgspec() -> None:
    """Load msgspec without ``typing_extensions``: what it takes from there Python itself has, since 3.11."""
    with _standing("typing_extensions", None):
        import msgspec  # noqa: F401


with _standing("inspect", _Inspect("inspect")):
    import click  # noqa: F401  # it keeps what it finds
