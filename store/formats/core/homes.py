"""The places where tools keep sessions, spelled with variables of the environment and patterns."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from store.formats.core.json_view import as_text, every, place, value_in
from store.formats.core.look import read_head

_LARGEST_LIST = 1 << 20
_NEAREST = ".../"
"""The beginning of a place in the folder where one works, or in the nearest one above that has it."""
_variable = re.compile(r"\$([A-Z_]+)").sub


def environment(home: Path) -> Mapping[str, str]:
    """Return the variables that move the folders of tools; none for another home than that of this user."""
    return os.environ if home == Path.home() else {}


def existing(spelled: Iterable[str], home: Path, cwd: Path) -> Iterator[Path]:
    """Yield the places of :attr:`store.formats.core.format.Format.kept` that exist, each once."""
    yield from dict.fromkeys(path for one in spelled for path in _existing(one, home, cwd))


def first(spelled: Iterable[str], home: Path) -> Path:
    """Return the first of some places whose variables are set, existing or not; ``home`` where none is."""
    return next((path for one in spelled for path in expanded(one, home)), home)


def _existing(spelled: str, home: Path, cwd: Path) -> Iterator[Path]:
    spelled, listed, where = spelled.partition("#")
    if listed:
        folders, _, below = where.partition("/")
        files = (read_head(path, _LARGEST_LIST) for path in expanded(spelled, home))
        told = (as_text(one) for file in files if file for _at, one in every(value_in(file, ()), place(folders)))
        named = (Path(folder, below) for folder in told if "\0" not in folder)
        yield from (path for path in named if path.is_absolute() and path.exists())
        return
    for path in expanded(spelled.removeprefix(_NEAREST), home):
        if spelled.startswith(_NEAREST):
            yield from islice(filter(Path.exists, (folder / path for folder in (cwd, *cwd.parents))), 1)
            continue
        path = cwd / path if spelled.startswith("./") else path
        beginning, star, _pattern = str(path).partition("*")
        root = Path(beginning) if beginning.endswith("/") else Path(beginning).parent
        if not star:
            yield from (one for one in (path,) if one.exists())
        elif root.is_dir():
            yield from sorted(root.glob(str(path.relative_to(root))))


def expanded(spelled: str, home: Path) -> Iterator[Path]:
    """Yield the path that is spelled with ``~`` and variables; none where one of these is not set."""
    known = environment(home)
    usual = {"XDG_DATA_HOME": f"{home}/.local/share", "XDG_CONFIG_HOME": f"{home}/.config"}
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        found = known.get(match[1], "")
        if match[1] in usual and not found.startswith("/"):
            return usual[match[1]]
        missing.extend(() if found else (match[1],))
        return found

    path = _variable(value, spelled)
    if not missing:
        yield Path(str(home) + path[1:] if path.startswith("~") else path)
