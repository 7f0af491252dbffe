"""The certain part of a disk: what was synced, and no more."""

import os
import stat
from pathlib import Path


class Certain:
    """Follows the syncs of files and directories below ``root``; :meth:`write` makes what is left without power."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[int, bytes] = {}
        self._names: dict[Path, int] = {}
        for directory, directories, names in os.walk(root):
            for name in (*directories, *names):
                path = Path(directory, name)
                self._note(path)
                if path.is_file():
                    self._contents[path.stat().st_ino] = path.read_bytes()

    def synced(self, fd: int) -> None:
        """Note that a file or directory was synced."""
        path, status = Path(os.readlink(f"/proc/self/fd/{fd}")), os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            # whatever it is called by now, and though it be open to be written only
            with open(f"/proc/self/fd/{fd}", "rb") as file:
                self._contents[status.st_ino] = file.read()
            return
        for name in [name for name in self._names if name.parent == path]:
            del self._names[name]
        for entry in os.listdir(path):
            self._note(path / entry)

    def write(self, image: Path) -> None:
        """Write what is certain into the empty directory ``image``. What is derived is not believed, and left out."""
        for path, number in sorted(self._names.items()):
            target = image / path.relative_to(self._root)
            if path.name.startswith("index.db") or not target.parent.exists():
                continue
            if number:
                target.write_bytes(self._contents.get(number, b""))
                target.chmod(0o600)
            else:
                target.mkdir(mode=0o700)

    def _note(self, path: Path) -> None:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            self._names[path] = 0
        elif stat.S_ISREG(status.st_mode):
            self._names[path] = status.st_ino
