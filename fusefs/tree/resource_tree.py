"""The directories of ``resources/``, made from the paths of a conversation's resources."""

from __future__ import annotations

from collections.abc import Sequence

from fusefs import inodes
from fusefs.text import resource_names
from store.errors import NotFound
from store.events.conversation import ResourceRow


class Folder:
    """The names directly in one directory of ``resources/``: files with their rows, directories with their folders."""

    __slots__ = ("files", "folders", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.files: dict[str, ResourceRow] = {}
        self.folders: dict[str, Folder] = {}


class ResourceTree:
    """The directories of ``resources/`` in one view, made from the paths of its resources.

    A resource's number counts from 1 in the order in which events brought them, and a directory's counts on from the
    highest possible downwards, so that numbers stay what they are while a conversation grows.
    """

    def __init__(self, rows: Sequence[ResourceRow]) -> None:
        self.rows = rows
        self._numbers = {(row.turn, row.seq): number for number, row in enumerate(self.rows, 1)}
        self.folders: dict[str, Folder] = {"": Folder("")}
        paths = resource_names.resource_paths(self.rows)
        self._listed = {self.number(row): path for path, row in paths.items()}
        for path, row in sorted(paths.items(), key=lambda item: self.number(item[1])):
            folder, _, name = path.rpartition("/")
            self._folder(folder).files[name] = row
        self._folder_numbers = {path: inodes.MAX_NUMBER - index for index, path in enumerate(self.folders)}
        self._folders_by_number = {number: path for path, number in self._folder_numbers.items()}

    def number(self, row: ResourceRow) -> int:
        """Return the number of a resource."""
        return self._numbers[row.turn, row.seq]

    def path(self, row: ResourceRow) -> str:
        """Return the path of a resource's file, whether it is listed or not."""
        listed = self._listed.get(self.number(row))
        plain = resource_names.resource_path(row.uri, row.mime)
        return listed or resource_names.numbered_path(plain, row.number, row.seq)

    def folder_number(self, path: str) -> int:
        """Return the number of a directory."""
        return self._folder_numbers[path]

    def by_number(self, number: int) -> Folder | ResourceRow:
        """Return what has that number. Raises NotFound."""
        path = self._folders_by_number.get(number)
        if path is not None:
            return self.folders[path]
        if 0 < number <= len(self.rows):
            return self.rows[number - 1]
        raise NotFound(f"there is no resource {number}")

    def _folder(self, path: str) -> Folder:
        folder = self.folders.get(path)
        if folder is None:
            above, _, name = path.rpartition("/")
            parent = self._folder(above)
            folder = self.folders[path] = parent.folders[name] = Folder(path)
        return folder
