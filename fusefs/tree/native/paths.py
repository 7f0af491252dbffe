"""The tools' own files in ``.convfs/native/``: where each session stands, and what a tool keeps beside it.

A session stands where its tool keeps it, as seen from the tool's own directory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath

from fusefs.tree.node import Served
from fusefs.tree.paths import CONTROL, NATIVE
from fusefs.tree.waiting import Work, Workers
from store.errors import ConvfsError, NotFound
from store.formats.core import homes
from store.formats.core.format import Format
from store.formats.registry import FORMATS, format_named
from store.ids import Hash
from store.importing.native import NativeFile, is_one_file
from store.importing.snapshot import text_path
from store.index.catalogue import Sourced
from store.paths import SCRATCH
from store.store import Store

KEY = (CONTROL, NATIVE)
"""The path of ``native/``."""
SIDECARS = "native sidecars"
"""Leads the paths of what tools keep beside sessions, after that of ``.convfs/``: no listing shows them there."""
GONE = "native_gone"
"""The key of metadata under which those are that a tool has removed: the store keeps them."""

_FILES_KEPT = 64

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
        self._home = home
        self._tools: dict[str, _Folders] | None = None
        self.removed: dict[tuple[str, Parts], int] = {}
        """The conversations whose files were at these paths and are in the trash, or were since the mount began."""

    @cached_property
    def homes(self) -> Mapping[str, Path]:
        """The directories that stand for those of the tools, by tool."""
        return {format_.name: homes.first(format_.native, self._home) for format_ in FORMATS if format_.native}

    @cached_property
    def folders(self) -> Mapping[str, Sequence[str]]:
        """The folders that are always there, by tool."""
        return {name: format_named(name).native_folders for name in self.homes}

    @property
    def tools(self) -> dict[str, _Folders]:
        if self._tools is None:
            self._tools = {name: _Folders() for name in self.homes}
            apart: list[Sourced] = []
            for sourced in self._store.catalogue.of_one_file():
                below = self._below(sourced)
                if below is None:
                    apart.append(sourced)
                else:
                    self._tools[sourced.format].add(sourced.id, below)
            # the files that lie where the tool looks for them came first, so that they keep their names
            for sourced in apart:
                self._tools.setdefault(sourced.format, _Folders()).add(sourced.id, self._elsewhere(sourced))
            for sourced in self._store.catalogue.of_one_file(trashed=True):
                self.removed[sourced.format, self._below(sourced) or self._elsewhere(sourced)] = sourced.id
        return self._tools

    def format_of(self, tool: str) -> Format:
        return format_named(tool)

    def path(self, tool: str, parts: Parts) -> Path:
        """Return the path where the tool itself would keep a session begun here, without a look at the disk."""
        return self.homes.get(tool, Path("/", tool)).joinpath(*parts)

    def context(self, tool: str, parts: Parts) -> int:
        """Return the conversation whose file a path is, 0 if it is none's."""
        found = self.tools[tool].names(parts[:-1]).get(parts[-1], 0) if parts else 0
        return max(found, 0)

    def place(self, tool: str, context: int) -> Parts | None:
        """Return the path of a conversation's file."""
        return self.tools[tool].contexts.get(context)

    def is_folder(self, tool: str, parts: Parts) -> bool:
        """Return whether there are sessions below a path, or it is always there."""
        return not parts or parts in self.tools[tool].folders or self.is_kept(tool, parts)

    def is_kept(self, tool: str, parts: Parts) -> bool:
        """Return whether a path is that of a folder that is always there."""
        return not parts or (len(parts) == 1 and parts[0] in self.folders.get(tool, ()))

    def below(self, tool: str, folder: Parts) -> dict[int, Parts]:
        """Return the conversations whose files are below a folder, with the paths of these."""
        contexts = self.tools[tool].contexts
        return {context: parts for context, parts in contexts.items() if parts[: len(folder)] == folder}

    def changed(self, context: int) -> None:
        """Update the path of a conversation that has come, has gone, or is kept elsewhere."""
        if self._tools is None:
            return
        try:
            entry = self._store.catalogue.entry(context)
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
            called = home.parts[-1:] if home.name.startswith(".") else home.parts[-2:]
            words = [part.lstrip(".") for part in parts]
            for end in range(len(parts) - 2, len(called) - 1, -1):
                if words[end - len(called) : end] == [part.lstrip(".") for part in called]:
                    return parts[end:]
        return tuple(part for part in parts[-2:] if part != "/")


class _Folders:
    """The files of one tool, by folder."""

    def __init__(self) -> None:
        self.contexts: dict[int, Parts] = {}
        self.folders: dict[Parts, dict[str, int]] = {(): {}}
        """By folder: the conversations whose files are in it by name, -1 for a folder."""
        self.suffixes: set[str] = set()
        """The endings of the names of files."""

    def names(self, folder: Parts) -> Mapping[str, int]:
        return self.folders.get(folder, {})

    def add(self, context: int, parts: Parts) -> None:
        """Add a file; if another one has its path already, its name says whose it is."""
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


class Sidecars:
    """Files that tools keep in folders called as sessions are, and the store beside their conversations."""

    def __init__(self, native: Native) -> None:
        self._native = native

    def owner(self, tool: str, parts: Parts) -> tuple[int, str]:
        """Return whose file a path is: a conversation, and its name in the session's folder; (0, "") for nobody's.

        Those of a session that was removed stay, as they would on a disk, until they are removed themselves.
        """
        folders, removed = self._native.paths.tools[tool], self._native.paths.removed
        for at in range(len(parts) - 1):
            names = folders.names(parts[:at])
            for suffix in folders.suffixes:
                called = parts[at] + suffix
                context = names.get(called, 0) or removed.get((tool, (*parts[:at], called)), 0)
                if context > 0 and PurePath(parts[-1]).suffix != suffix:
                    return context, "/".join(parts[at + 1 :])
        return 0, ""

    def of(self, context: int) -> Mapping[str, tuple[str, Hash]]:
        """Return those of a conversation by their names in the session's folder: the whole name, and the content."""
        try:
            file = self._native.file(context)
        except NotFound:
            return {}
        gone = file.entry.metadata.get(GONE)
        hidden = gone if isinstance(gone, list) else []
        return {
            name.partition("/")[2]: (name, Hash(bytes.fromhex(digest)))
            for name, digest in file.imported.sidecars.items()
            if "/" in name and name not in hidden
        }

    def digest(self, tool: str, parts: Parts) -> Hash | None:
        """Return the content of the file at a path, None if there is none."""
        context, name = self.owner(tool, parts)
        found = self.of(context).get(name) if context else None
        return found[1] if found else None

    def listed(self, tool: str, parts: Parts) -> tuple[set[str], set[str]]:
        """Return the names of folders, and of files, that are in a folder because of them."""
        folders: set[str] = set()
        files: set[str] = set()
        for name, context in self._native.paths.tools[tool].names(parts).items():
            if context > 0 and any(self.of(context)):
                folders.add(PurePath(name).stem)
        owner, below = self.owner(tool, (*parts, ""))
        for kept in self.of(owner) if owner else ():
            if kept.startswith(below):
                first, slash, _rest = kept[len(below) :].partition("/")
                (folders if slash else files).add(first)
        return folders, files

    def is_folder(self, tool: str, parts: Parts) -> bool:
        context, below = self.owner(tool, (*parts, ""))
        return bool(context) and any(name.startswith(below) for name in self.of(context))


class Native:
    """The tools' files of one mount: where each stands, and those that were looked into lately."""

    def __init__(self, store: Store, home: Path, workers: Workers) -> None:
        self._store = store
        self._workers = workers
        self._loading: Work[object] | None = None
        self.paths = NativePaths(store, home)
        self.sidecars = Sidecars(self)
        self.root = store.root / SCRATCH / NATIVE
        """The folder on the disk of files that are no sessions, at the same paths."""
        self._files: OrderedDict[int, NativeFile] = OrderedDict()
        self._outdated: set[int] = set()
        self.served: Mapping[int, Served] = {}
        """By conversation: the waiting writes, shown in place of the stored file."""

    def load(self) -> None:
        """Have the formats of all tools loaded, which takes a tenth of a second: raises Later while a thread does."""
        if self._workers.can_wait:
            self._loading = self._loading or self._workers.begin(lambda: self.paths.homes)
            self._loading.await_done()

    def file(self, context: int) -> NativeFile:
        """Return the file of a conversation as it is now. Raises NotFound if it has none."""
        known = self._files.get(context)
        if known is not None and context not in self._outdated:
            self._files.move_to_end(context)
            return known
        entry = self._store.catalogue.entry(context)
        if not is_one_file(entry):
            raise NotFound(f"conversation {context} is no file of a tool")
        self._outdated.discard(context)
        file = self._files[context] = known.go_on(entry) if known else NativeFile(self._store, entry)
        if len(self._files) > _FILES_KEPT:
            self._outdated.discard(self._files.popitem(last=False)[0])
        return file

    def changed(self, context: int) -> None:
        """Look at the file of a conversation anew when it is asked for next."""
        if context in self._files:
            self._outdated.add(context)
        self.paths.changed(context)

    def on_disk(self, tool: str, parts: Parts) -> Path:
        """Return the path on the disk of a file that is no session."""
        return self.root.joinpath(tool, *parts)
