"""A conversation in a mount, and what tests of changing it ask."""

import os
from contextlib import suppress
from pathlib import Path

from tests.fusefs.tree.mounting import Mounted, assistant, bookkeeping, until, user

NAME = "2026-03-05-talk"
LINES = [
    user("Hello there", 1),
    assistant("General greetings\nin two lines", 2),
    bookkeeping(),
    user("The third and last", 3),
]
FIRST, SECOND, LAST = "00001-user.md", "00002-assistant.md", "00004-user.md"


class Talk:
    """A conversation of :data:`LINES`, mounted."""

    def __init__(self, mount: Mounted) -> None:
        self.mount = mount
        self.root = mount.root / "conversations" / "project" / NAME
        self.events = self.root / "events"
        self.first = self.events / FIRST
        self.second = self.events / SECOND
        self.last = self.events / LAST
        self._versions = self.versions

    @property
    def versions(self) -> int:
        """How many versions there are."""
        return len(os.listdir(self.root / ".versions"))

    @property
    def new_versions(self) -> int:
        """How many versions there are more than at the beginning."""
        return self.versions - self._versions

    @property
    def listed(self) -> list[str]:
        """The names in ``events/``."""
        return sorted(os.listdir(self.events))

    @property
    def transcript(self) -> str:
        """The transcript."""
        return (self.mount.root / "transcripts" / "project" / f"{NAME}.md").read_text()

    @property
    def errors(self) -> str:
        """All that is in ``.convfs/errors/``."""
        texts = []
        for path in (self.mount.root / ".convfs" / "errors").iterdir():
            with suppress(FileNotFoundError):
                texts.append(path.read_text())
        return "".join(texts)

    def shell(self, script: str, *, check: bool = True) -> str:
        """Run a script in ``events/`` and return what it prints."""
        return self.mount.shell(f"cd '{self.events}'; {script}", check=check)

    def sync(self) -> None:
        """Sync ``events/``: what has been removed is no longer waited for to come back."""
        fd = os.open(self.events, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def becomes(self, versions: int) -> None:
        """Wait until there are as many versions more, and no others come."""
        until(lambda: self.new_versions == versions)

    def check(self) -> None:
        """Fail unless every file is as long as it says."""
        for directory, _, names in os.walk(self.mount.root):
            for name in names:
                path = Path(directory, name)
                if path.is_file() and not path.is_symlink():
                    assert path.stat().st_size == len(path.read_bytes()), path


def changed(path: Path, old: str = "Hello", new: str = "Goodbye") -> bytes:
    """Return the content of an event's file with one word in the place of another."""
    text = path.read_text()
    assert old in text
    return text.replace(old, new).encode()
