"""A daemon that is killed at any moment, and a disk that is full: what was written is there, or what was before."""

import errno
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

from store.importing.exporter import export_native
from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import PATIENCE, Mounted, mounted, new_store, until, user

NAME = "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90.jsonl"
FOLDER = ".convfs/native/claude-code/-work"
LIVES = 40 if os.environ.get("CONVFS_LARGE_TESTS") else 5


class Writer(threading.Thread):
    """Writes a session until it cannot any more; ``may_be`` is all that its file may hold by then.

    The kernel may ask for one write in parts; so while it appends, a beginning of what it writes may be there.
    """

    def __init__(self, path: Path, content: bytes, seed: int) -> None:
        super().__init__()
        self.path = path
        self.may_be = {content}
        self.chance = random.Random(seed)
        self.said = 0
        self.appends = False

    def line(self) -> bytes:
        self.said += 1
        return user(f"{self.said} " + "z" * self.chance.choice([1, 50, 2000]), self.said).encode() + b"\n"

    def may_hold(self, content: bytes) -> bool:
        """Say whether the file may hold this now."""
        old, new = min(self.may_be, key=len), max(self.may_be, key=len)
        return content in self.may_be or (self.appends and old == content[: len(old)] and new.startswith(content))

    def run(self) -> None:
        [content] = self.may_be
        while True:
            after = self.chance.choices([self.append, self.replace, self.cut], [6, 2, 1])[0](content)
            if after is None:
                return
            content = after
            self.may_be = {content}

    def append(self, content: bytes) -> bytes | None:
        line = self.line()
        self.may_be, self.appends = {content, content + line}, True
        try:
            with self.path.open("ab", buffering=0) as file:
                if file.write(line) != len(line):
                    return None
        except OSError:
            return None
        self.appends = False
        return content + line

    def replace(self, content: bytes) -> bytes | None:
        lines = content.splitlines(keepends=True)
        lines[self.chance.randrange(len(lines)) :] = [self.line()]
        new = b"".join(lines)
        self.may_be = {content, new}
        try:
            beside = self.path.with_name("temporary")
            beside.write_bytes(new)
            beside.rename(self.path)
        except OSError:
            return None
        return new

    def cut(self, content: bytes) -> bytes | None:
        new = content.splitlines(keepends=True)[0]
        self.may_be = {content, new}
        try:
            os.truncate(self.path, len(new))
        except OSError:
            return None
        return new


def test_killed_at_any_moment(store_path: Path) -> None:
    with new_store(store_path):
        pass
    chance = random.Random(5)
    content = b""
    writer = Writer(store_path, content, 0)
    for life in range(LIVES + 1):
        try:
            with mounted(store_path) as mount:
                path = mount.root / FOLDER / NAME
                if life == 0:
                    path.parent.mkdir()
                    content = user("Begin.").encode() + b"\n"
                    path.write_bytes(content)
                else:
                    content = path.read_bytes()
                    assert writer.may_hold(content)
                    assert path.stat().st_size == len(content)
                if life == LIVES:
                    until(lambda: not os.listdir(store_path / "scratch/.native"))
                    break
                writer = Writer(path, content, life)
                writer.start()
                time.sleep(chance.uniform(0.02, 0.4))
                mount.daemon.kill()
                mount.daemon.wait(PATIENCE)
                # whoever waits for an answer of the mount gets one when it is gone
                subprocess.run(["fusermount3", "-uz", mount.root], check=True, timeout=PATIENCE)
                writer.join(PATIENCE)
        except AssertionError:
            assert life < LIVES
            assert mount.daemon.returncode == -signal.SIGKILL
            assert not writer.is_alive()
    with new_store(store_path) as store:
        assert fsck(store) == []
        [conversation] = store.library.conversations()
        [exported] = export_native(store, conversation, store_path.parent / "out")
        assert exported.read_bytes() == content


def test_a_full_disk_is_told_of_and_what_was_taken_is_there(store_path: Path, small_disk: Path) -> None:
    del store_path
    store = small_disk / "store"
    with new_store(store):
        pass
    with mounted(store) as mount:
        path = mount.root / FOLDER / NAME
        path.parent.mkdir()
        path.write_bytes(user("Begin.").encode() + b"\n")
        content = path.read_bytes()
        with (small_disk / "full").open("ab", buffering=0) as file:
            while os.statvfs(small_disk).f_bavail:
                file.write(bytes(4096))
        told = 0
        for number in range(20):
            line = user(f"{number} " + "w" * 5000, number).encode() + b"\n"
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
            try:
                content += line[: os.write(fd, line)]
            except OSError as error:
                told += error.errno == errno.ENOSPC
            try:
                os.close(fd)
            except OSError as error:
                told += error.errno == errno.ENOSPC
            assert path.read_bytes() == content
        assert told > 0
        (small_disk / "full").unlink()
        line = user("There is room again.", 30).encode() + b"\n"
        with path.open("ab") as file:
            file.write(line)
        content += line
        assert path.read_bytes() == content
        until(lambda: _last_event(mount).endswith("There is room again.\n"))
    with new_store(store) as opened:
        assert fsck(opened) == []
        [conversation] = opened.library.conversations()
        [exported] = export_native(opened, conversation, small_disk / "out")
        assert exported.read_bytes() == content


def _last_event(mount: Mounted) -> str:
    return mount.shell("cat $(ls -d conversations/*/*/events/* | tail -n 1)")
