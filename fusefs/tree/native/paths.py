"""Where in ``.convfs/native/`` each session stands: where its tool keeps it, as seen from the tool's own directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from store.errors import ConvfsError, NotFound
from store.formats.format import Format
from store.formats.registry import FORMATS
from store.importing.native import is_one_file
from store.importing.paths import text_path
from store.index.catalogue import Sourced
from store.store import Store

Parts = tuple[str, ...]
"""A path below a tool's directory, by its names."""


class NativePaths:
    """The files of all sessions that are one file each, by tool and path.

    Nothing is looked for before somebody asks; then it is known of all sessions, and follows what changes. A session
    that was imported from elsewhere has the last two names of its path; where two have the same, the later one's
    name says which conversation it is.
    """

    def __init__(self, store: Store, home: Path) -> None:
        self._store = store
        self.homes: Mapping[str, Path] = {
            format_.name: folder for format_ in FORMATS if (folder := format_.native_home(home)) is not None
        }
        """The directories that stand for those of the tools, by tool."""
        self._tools: dict[str, _Folders] | None = None
        self.removed: dict[tuple[str, Parts], int] = {}
        """The conversations whose files were at these paths and are in the trash, or were since the mount began."""

    @property
    def tools(self) -> dict[str, _Folders]:
        """The files, by tool."""
        if self._tools is None:
            self._tools = {name: _Folders() for name in self.homes}
            apart: list[Sourced] = []
            for sourced in self._store.of_one_file():
                below = self._below(sourced)
                if below is None:
                    apart.append(sourced)
                else:
                    self._tools[sourced.format].add(sourced.id, below)
            # what lies where the tool looks for it has its name for certain
            for sourced in apart:
                self._tools.setdefault(sourced.format, _Folders()).add(sourced.id, self._elsewhere(sourced))
            for sourced in self._store.of_one_file(trashed=True):
                self.removed[sourced.format, self._below(sourced) or self._elsewhere(sourced)] = sourced.id
        return self._tools

    def format_of(self, tool: str) -> Format:
        """Return the format of a tool's sessions."""
        return next(format_ for format_ in FORMATS if format_.name == tool)

    def path(self, tool: str, parts: Parts) -> Path:
        """Return where the tool itself would keep a session that is begun here; nothing is looked at for it."""
        return self.homes.get(tool, Path("/", tool)).joinpath(*parts)

    def context(self, tool: str, parts: Parts) -> int:
        """Return the conversation whose file a path is, 0 if it is none's."""
        found = self.tools[tool].names(parts[:-1]).get(parts[-1], 0) if parts else 0
        return max(found, 0)

    def place(self, tool: str, context: int) -> Parts | None:
        """Return the path of a conversation's file."""
        return self.tools[tool].contexts.get(context)

    def is_folder(self, tool: str, parts: Parts) -> bool:
        """Say whether there are sessions below a path."""
        return not parts or parts in self.tools[tool].folders

    def changed(self, context: int) -> None:
        """Take note that a conversation has come, has gone, or is kept elsewhere."""
        if self._tools is None:
            return
        try:
            entry = self._store.entry(context)
        except NotFound:
            # it was deleted for good
            for folders in self._tools.values():
                folders.remove(context)
            return
        except ConvfsError:
            return
        there = entry.name and is_one_file(entry)
        for name, folders in self._tools.items():
            if not there or name != entry.format:
                folders.remove(context)
        if there and context not in self._tools.setdefault(entry.format, _Folders()).contexts:
            sourced = Sourced(entry.id, entry.format, entry.source)
            self._tools[entry.format].add(context, self._below(sourced) or self._elsewhere(sourced))

    def move(self, tool: str, context: int, parts: Parts) -> None:
        """Let a conversation's file have another path."""
        self.tools[tool].remove(context)
        self.tools[tool].add(context, parts)

    def _below(self, sourced: Sourced) -> Parts | None:
        """Return the path of a file within the tool's directory, None if it lies elsewhere."""
        path, home = text_path(sourced.source), self.homes.get(sourced.format)
        return path.relative_to(home).parts if home is not None and path.is_relative_to(home) else None

    def _elsewhere(self, sourced: Sourced) -> Parts:
        parts = text_path(sourced.source).parts
        home = self.homes.get(sourced.format)
        if home is not None:
            # a copy of the tool's directory, or another one of the same name
            called = (home.parent.name.lstrip("."), home.name)
            for at in range(len(parts) - 3, 0, -1):
                if (parts[at - 1].lstrip("."), parts[at]) == called:
                    return parts[at + 1 :]
        return tuple(part for part in parts[-2:] if part != "/")


class _Folders:
    """The files of one tool, by folder."""

    def __init__(self) -> None:
        self.contexts: dict[int, Parts] = {}
        self.folders: dict[Parts, dict[str, int]] = {(): {}}
        """By folder: the conversations whose files are in it by name, -1 for a folder."""
        self.suffixes: set[str] = set()
        """How the names of files end."""

    def names(self, folder: Parts) -> Mapping[str, int]:
        return self.folders.get(folder, {})

    def add(self, context: int, parts: Parts) -> None:
        """Take in a file; where its path is another one's already, its name says whose it is."""
        *folder, name = parts
        if self.names(tuple(folder)).get(name):
            path = Path(name)
            name = f"{path.stem}@{context}{path.suffix}"
        self.contexts[context] = (*folder, name)
        self.suffixes.add(Path(name).suffix)
        for length in range(len(folder), -1, -1):
            names = self.folders.setdefault(tuple(folder[:length]), {})
            if length == len(folder):
                names[name] = context
            else:
                names.setdefault(folder[length], -1)

    def remove(self, context: int) -> None:
        parts = self.contexts.pop(context, None)
        while parts:
            folder = parts[:-1]
            names = self.folders[folder]
            names.pop(parts[-1], None)
            if names or not folder:
                return
            del self.folders[folder]
            parts = folder

    def listed(self, folder: Parts) -> Iterator[tuple[str, int]]:
        """Yield the names in a folder, each with its conversation, -1 for a folder."""
        return iter(list(self.names(folder).items()))
