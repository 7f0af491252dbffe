"""A store mounted by a process of its own, for tests, and the lines of sessions to fill one with."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio

from fusefs.mount_table import mount_at
from fusefs.text.render import FileRenderer
from fusefs.tree.waiting import Later
from store.conversations.contexts import Append
from store.paths import SETTINGS
from store.store import Store
from tests.forked import Forked
from tests.waiting import until as until

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parents[3]
TYPE = "claude-code.line.v1"
TALK = "conversations/project/2026-03-05-talk"
TRANSCRIPT = "transcripts/project/2026-03-05-talk.md"
PATIENCE = 20.0

_SESSION = {"sessionId": "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90", "cwd": "/home/dev/project", "version": "2.0.0"}


def work_directory() -> Path:
    """Return where mounts and their stores go: on a disk, and not below /tmp, where programs behave differently."""
    base = os.environ.get("CONVFS_TEST_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "convfs-tests"
    path.mkdir(parents=True, exist_ok=True)
    return path


def can_mount() -> bool:
    """Say whether this machine lets us mount anything."""
    return os.access("/dev/fuse", os.R_OK | os.W_OK) and shutil.which("fusermount3") is not None


def user(text: str, second: int = 0) -> str:
    """Return a line of a session in which the user says ``text``."""
    message = {"role": "user", "content": text}
    return json.dumps(
        {"type": "user", "message": message, "uuid": f"u{second}", "timestamp": stamp(second), **_SESSION}
    )


def assistant(text: str, second: int = 0) -> str:
    """Return a line of a session in which the model says ``text``."""
    message = {"role": "assistant", "model": "claude-test-1", "content": [{"type": "text", "text": text}]}
    line = {"type": "assistant", "message": message, "uuid": f"a{second}", "timestamp": stamp(second)}
    return json.dumps({**line, **_SESSION})


def bookkeeping() -> str:
    """Return a line of a session that tells of nothing."""
    return json.dumps({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False})


def stamp(second: int) -> str:
    """Return the time of an event: seconds after noon on 2026-03-05."""
    return f"2026-03-05T12:{second // 60 % 60:02}:{second % 60:02}.000Z"


def add(store: Store, lines: Sequence[str], *, project: str = "project", name: str = "2026-03-05-talk") -> int:
    """Make a conversation of lines and return its context."""
    metadata: dict[str, object] = {"project": project, "name": name, "title": "A talk", "format": "claude-code"}
    context = store.contexts.create(metadata={**metadata, "started_ms": 1_772_712_000_000}).context
    store.contexts.append_many(context, [Append(line.encode(), TYPE) for line in lines])
    return context


@contextmanager
def new_store(root: Path) -> Iterator[Store]:
    """Give an open store at ``root``."""
    with Store.open(root, renderer=FileRenderer()) as store:
        yield store


def keep_each_save(root: Path, *settings: str) -> None:
    """Have the store at ``root`` make a version of each save: a test saves often. ``settings`` are further ones."""
    path = root / SETTINGS
    path.write_text("".join(f"{line}\n" for line in ("version_seconds = 0", *settings)))
    path.chmod(0o600)


class Mounted:
    """A mounted store. ``root`` is the mountpoint, ``store`` the store's directory."""

    def __init__(self, store: Path, root: Path, *options: str) -> None:
        self.store = store
        self.root = root
        self.messages = store.with_suffix(".out")
        its_input, our_output = os.pipe()
        our_input, its_output = os.pipe()
        with self.messages.open("wb") as messages, open(its_input, "rb"), open(its_output, "wb"):
            streams = (its_input, its_output, messages.fileno())
            self.daemon = Forked("tests.fusefs.tree.serve", store, root, *options, streams=streams)
        self._orders, self._answers = open(our_output, "w"), open(our_input)  # noqa: SIM115  (until :meth:`destroy`)
        self._expect("ready")

    def _expect(self, word: str) -> None:
        said = self._answers.readline().strip()
        assert said == word, f"the daemon says {said!r}: {self.messages.read_text()}"

    def tell(self, **order: object) -> None:
        """Have the daemon change its store; returns when that is committed."""
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        self._expect("done")

    def check_alive(self) -> None:
        """Fail unless the daemon lives, something is mounted, and it answers."""
        assert self.daemon.poll() is None, self.messages.read_text()
        assert mount_at(self.root) is not None
        listed = self.run("ls", ".")
        assert "conversations" in listed.stdout.split()

    def run(self, *command: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a program in the root of the mount."""
        return subprocess.run(
            command,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=check,
            timeout=PATIENCE,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )

    def shell(self, script: str, *, check: bool = True) -> str:
        """Run a script in the root of the mount and return what it prints."""
        return self.run("bash", "-c", script, check=check).stdout

    def make_kernel_forget(self) -> bool:
        """Have the kernel forget what it knows of this mount; False if we may not, which only root may.

        Of this mount alone: ``drop_caches`` would have it forget what tests beside this one count on, too.
        """
        if os.geteuid() == 0:
            subprocess.run(["mount", "-i", "-o", "remount,rw", str(self.root)], check=True, timeout=PATIENCE)
        return os.geteuid() == 0

    def unmount(self) -> None:
        """Unmount, and wait until the daemon has ended; whatever happens, nothing stays mounted."""
        try:
            # a process that was killed may take a moment to go
            until(lambda: unmounted(self.root) or self.daemon.poll() is not None)
            self.daemon.wait(PATIENCE)
        finally:
            self.destroy()

    def destroy(self) -> None:
        """Leave nothing mounted and nothing running, by force."""
        if self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait(PATIENCE)
        self._orders.close()
        self._answers.close()
        if mount_at(self.root) is not None:
            subprocess.run(["fusermount3", "-uz", str(self.root)], capture_output=True, timeout=PATIENCE, check=False)


@contextmanager
def mounted(store: Path, *options: str) -> Iterator[Mounted]:
    """Mount the store in directory ``store`` for the time of the block, and check at both ends that the mount lives."""
    root = Path(tempfile.mkdtemp(prefix="mount-", dir=work_directory()))
    try:
        mount = Mounted(store, root, *options)
        try:
            mount.check_alive()
            yield mount
            mount.check_alive()
        finally:
            mount.unmount()
        assert mount.daemon.returncode == 0, mount.messages.read_text()
    finally:
        root.rmdir()


def unmounted(root: Path) -> bool:
    """Unmount what is mounted at ``root``; False if it is in use, or nothing is."""
    done = subprocess.run(["fusermount3", "-u", str(root)], capture_output=True, timeout=PATIENCE, check=False)
    return done.returncode == 0


def run(handler: Coroutine[Any, Any, T]) -> T:
    """Run a handler, which may not wait for anything."""
    try:
        handler.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the handler waits")


def answered(ask: Callable[[], T]) -> T:
    """Return what a node answers, asked as a handler does: again, once the work is done that it waits for."""
    while True:
        try:
            return ask()
        except Later as later:
            trio.run(later.work.wait)


def errno_of(attempt: Callable[[], object]) -> int:
    """Return the errno that a call fails with, 0 if it does not."""
    try:
        attempt()
    except OSError as error:
        return error.errno or 0
    return 0
