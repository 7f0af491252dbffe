"""Where files are saved: a directory of a plain file system, or ``events/`` of a mounted conversation.

Every pattern is driven in both. What the plain one does is right by definition, so it tests the tests.
"""

import itertools
import mmap
import os
import shutil
import stat
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

from fusefs.text.render import render_event
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.editors.sessions import CONVERSATION, EVENTS, PROJECT, write_session
from tests.editors.terminal import PATIENCE, Terminal, terminal
from tests.fusefs.tree.mounting import Mounted, keep_each_save, mounted, new_store, work_directory

TRACES = "CONVFS_TEST_STRACE"
"""Names a directory where strace is to note what every program did."""

_traces = itertools.count(1)


class Place(ABC):
    """A directory of event files, and a user who runs programs in it.

    ``directory`` holds the files; ``outside`` is an empty directory elsewhere, on a disk; ``drawn`` has every event's
    file as it is drawn.
    """

    def __init__(self, base: Path, drawn: dict[str, bytes]) -> None:
        self.base = base
        self.drawn = drawn
        self.outside = base / "outside"
        self.home = base / "home"
        self.outside.mkdir()
        self.home.mkdir()
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "USER": "ada"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        return None

    @property
    @abstractmethod
    def directory(self) -> Path:
        """Return where the files are."""

    def versions(self) -> int | None:
        """Return how many versions the conversation has had; None where nobody counts."""
        return None

    def files(self) -> dict[str, bytes]:
        """Return every regular file of the directory."""
        with os.scandir(self.directory) as listing:
            return {entry.name: Path(entry).read_bytes() for entry in listing if entry.is_file(follow_symlinks=False)}

    def mode(self, name: str) -> int:
        return stat.S_IMODE((self.directory / name).stat().st_mode)

    # -- programs --------------------------------------------------------------------------------------------------

    def run(
        self, *command: str, text: bytes = b"", fails: bool = False, seconds: float = 0
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a program in the directory; unless it ``fails``, it must end well and complain of nothing.

        ``seconds`` is how long it may take, where that is longer than usual.
        """
        done = subprocess.run(
            self._traced(command),
            cwd=self.directory,
            env=self.environment,
            input=text,
            capture_output=True,
            timeout=max(seconds, 3 * PATIENCE),
            check=False,
        )
        if fails:
            assert done.returncode > 0, f"{command} works: {done}"
        else:
            assert (done.returncode, done.stderr) == (0, b""), done
        return done

    def shell(self, script: str, *arguments: str) -> bytes:
        """Run a bash script in the directory, and return what it prints."""
        return self.run("bash", "-euc", script, "bash", *arguments).stdout

    def terminal(self, *command: str) -> AbstractContextManager[Terminal]:
        """Run a program in a terminal, in the directory."""
        return terminal(self._traced(command), self.directory, self.environment, self.base)

    def _traced(self, command: Sequence[str]) -> Sequence[str]:
        traces = os.environ.get(TRACES)
        if not traces:
            return command
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2].split(" ")[0].replace("/", "-")
        note = Path(traces) / f"{test}-{next(_traces)}.strace"
        return ["strace", "-f", "-y", "-s", "60", "-o", str(note), *command]


class PlainPlace(Place):
    """A directory on whatever file system the tests lie on."""

    def __init__(self, base: Path, drawn: dict[str, bytes]) -> None:
        super().__init__(base, drawn)
        self.directory.mkdir(mode=0o700)
        for name, data in drawn.items():
            (self.directory / name).write_bytes(data)
            (self.directory / name).chmod(0o600)

    @property
    def directory(self) -> Path:
        return self.base / "events"


class MountedPlace(Place):
    """``events/`` of the conversation, in a mount."""

    def __init__(self, base: Path, drawn: dict[str, bytes]) -> None:
        super().__init__(base, drawn)
        self.store = base / "store"
        self._mounting: AbstractContextManager[Mounted]
        self.mount: Mounted

    @property
    def conversation(self) -> Path:
        return self.mount.root / "conversations" / PROJECT / CONVERSATION

    @property
    def directory(self) -> Path:
        return self.conversation / "events"

    @property
    def transcript(self) -> Path:
        return self.mount.root / "transcripts" / PROJECT / f"{CONVERSATION}.md"

    def versions(self) -> int:
        return len(self.version_names())

    def version_names(self) -> list[str]:
        return sorted(os.listdir(self.conversation / ".versions"))

    def version(self, number: int) -> Path:
        """Return the directory of one version, by its place in the list."""
        return self.conversation / ".versions" / self.version_names()[number]

    def __enter__(self) -> Self:
        self._mounting = mounted(self.store)
        self.mount = self._mounting.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Unmount, having seen that the mount still lives, and check the store; after a failure only unmount."""
        if kind is not None:
            print(f"The daemon says: {self.mount.messages.read_text()}")  # pytest shows it with the failure
        self._mounting.__exit__(kind, *error)  # type: ignore[arg-type]  # handed on as it came
        if kind is None:
            with new_store(self.store) as store:
                assert fsck(store) == []

    def remount(self) -> None:
        """Unmount, check the store, and mount it again."""
        self.__exit__(None, None, None)
        self.__enter__()

    def read_past_the_cache(self, name: str) -> bytes:
        """Return what the mount itself says that a file holds, whatever the kernel remembers of it."""
        file = os.open(self.directory / name, os.O_RDONLY | os.O_DIRECT)
        try:
            # memory of its own begins at a page, as O_DIRECT wants it
            with mmap.mmap(-1, os.fstat(file).st_size + mmap.PAGESIZE) as memory:
                return bytes(memory[: os.readv(file, [memory])])
        finally:
            os.close(file)

    def payloads(self) -> list[bytes]:
        """Return every record's own bytes."""
        records = self.conversation / ".records"
        return [(records / name).read_bytes() for name in sorted(os.listdir(records))]


def draw(store: Store) -> dict[str, bytes]:
    """Return the file of every event of the one conversation, as it is drawn."""
    conversation = store.library.find(PROJECT, CONVERSATION)
    assert conversation is not None
    rows = store.records.rows(conversation.head)
    return {
        name: render_event(number, store.records.event(rows[number - 1]))
        for name in EVENTS
        for number in [int(name[:5])]
    }


@contextmanager
def place(kind: type[Place]) -> Iterator[Place]:
    """Give a place with the invented session in it. A mounted one is unmounted at the end, and its store checked."""
    base = Path(tempfile.mkdtemp(prefix="save-", dir=work_directory()))
    try:
        with new_store(base / "store") as store:
            report = Importer(store).run([write_session(base)])
            assert report.conversations == [f"{PROJECT}/{CONVERSATION}"]
            drawn = draw(store)
        keep_each_save(base / "store")
        with kind(base, drawn) as made:
            assert made.files() == drawn
            yield made
    finally:
        shutil.rmtree(base)
