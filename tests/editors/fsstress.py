"""Many processes that make, write, move and remove files at random in one tree: ``python fsstress.py COUNT SEED``.

Works in the current directory. Each process has a directory of its own, where it knows what must come of every call,
and all of them share another, where whatever comes must at least make sense. Some more work in the shared one only and
are killed all the time. At the end everything is compared with what it should be. After the idea of fsstress.
"""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

PROCESSES, VICTIMS = 4, 2
NAMES = ["a", "b", "c", "d", "e", "f.txt", "long name with blanks " * 9, "ünïcode"]
DEPTH = 4
SHARED = "shared"
SENSIBLE = {"ENOENT", "EEXIST", "ENOTEMPTY", "EISDIR", "ENOTDIR", "EINVAL", "EPERM", "ELOOP"}
"""Outcomes that a call may have where others are at work."""


class Inode:
    """A regular file, or a symbolic link ``to`` something, by however many names."""

    def __init__(self, to: str = "") -> None:
        self.data = bytearray()
        self.to = to


Node = Inode | None
"""A file, or None: a directory."""


class Model:
    """The entries below a directory, by path."""

    def __init__(self, top: str) -> None:
        self.nodes: dict[str, Node] = {top: None}

    def has(self, path: str) -> bool:
        return path in self.nodes

    def is_directory(self, path: str) -> bool:
        return self.has(path) and self.nodes[path] is None

    def directories(self) -> list[str]:
        return [path for path, node in self.nodes.items() if node is None]

    def within(self, path: str) -> list[str]:
        return [other for other in self.nodes if other.startswith(f"{path}/")]

    def links(self, inode: Inode) -> int:
        return sum(node is inode for node in self.nodes.values())

    # -- what should come of a call: the name of an errno, or "" -------------------------------------------------------

    def open(self, path: str, *, anew: bool) -> str:
        if not self.has(path):
            self.nodes[path] = Inode()
            return ""
        node = self.nodes[path]
        if anew:
            return "EEXIST"
        if node is None:
            return "EISDIR"
        return "ELOOP" if node.to else ""

    def make(self, path: str, node: Node) -> str:
        if self.has(path):
            return "EEXIST"
        self.nodes[path] = node
        return ""

    def unlink(self, path: str) -> str:
        if not self.has(path):
            return "ENOENT"
        if self.is_directory(path):
            return "EISDIR"
        del self.nodes[path]
        return ""

    def rmdir(self, path: str) -> str:
        if not self.has(path):
            return "ENOENT"
        if not self.is_directory(path):
            return "ENOTDIR"
        if self.within(path):
            return "ENOTEMPTY"
        del self.nodes[path]
        return ""

    def link(self, old: str, new: str) -> str:
        if not self.has(old):
            return "ENOENT"
        if self.has(new):
            return "EEXIST"
        if self.is_directory(old):
            return "EPERM"
        self.nodes[new] = self.nodes[old]
        return ""

    def rename(self, old: str, new: str) -> str:
        if not self.has(old):
            return "ENOENT"
        if new.startswith(f"{old}/"):
            return "EINVAL"
        if old.startswith(f"{new}/"):
            return "ENOTEMPTY"
        if old == new:
            return ""
        moved = self.nodes[old]
        if self.has(new):
            there = self.nodes[new]
            if moved is None and there is not None:
                return "ENOTDIR"
            if moved is not None and there is None:
                return "EISDIR"
            if self.within(new):
                return "ENOTEMPTY"
            if moved is not None and moved is there:
                return ""
        self.nodes[new] = self.nodes.pop(old)
        for path in self.within(old):
            self.nodes[new + path[len(old) :]] = self.nodes.pop(path)
        return ""


class Worker:
    """One process at work: below ``top``, where it is alone, and in the shared directory."""

    def __init__(self, top: str, seed: str) -> None:
        self.random = random.Random(seed)
        self.model = Model(top)
        self.done: list[str] = []

    def path(self) -> str:
        return f"{self.random.choice(self.model.directories())}/{self.random.choice(NAMES)}"

    def shared_path(self) -> str:
        depth = self.random.randrange(3)
        return "/".join([SHARED, *self.random.choices(NAMES[:3], k=depth), self.random.choice(NAMES)])

    def attempt(self, expected: str, call: Callable[..., object], *arguments: object) -> bool:
        """Make a call, and check that what comes of it is ``expected``; say whether it did what it should."""
        self.done.append(f"{call.__name__}{arguments!r} {expected}")
        came = came_of(call, *arguments)
        assert came == expected, f"{came or 'works'}, should be {expected or 'done'}; " + "\n".join(self.done[-9:])
        return not came

    # -- where it is alone ---------------------------------------------------------------------------------------------

    def write(self) -> None:
        path, anew = self.path(), self.random.random() < 0.3
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | (os.O_EXCL if anew else 0)
        expected = self.model.open(path, anew=anew)
        files: list[int] = []
        self.attempt(expected, lambda: files.append(os.open(path, flags, 0o600)))
        for file in files:
            inode = self.model.nodes[path]
            assert isinstance(inode, Inode)
            for _ in range(self.random.randrange(4)):
                self.change(file, inode)
            assert os.pread(file, 1 << 20, 0) == inode.data, path
            os.close(file)

    def change(self, file: int, inode: Inode) -> None:
        at, data = self.random.randrange(20_000), self.random.randbytes(self.random.randrange(9000))
        match self.random.randrange(4):
            case 0:
                os.ftruncate(file, at)
                del inode.data[at:]
                inode.data.extend(bytes(at - len(inode.data)))
            case 1:
                os.fsync(file)
            case _:
                os.pwrite(file, data, at)
                if data:
                    inode.data.extend(bytes(max(at - len(inode.data), 0)))
                    inode.data[at : at + len(data)] = data

    def mkdir(self) -> None:
        path = self.path()
        if path.count("/") < DEPTH:
            self.attempt(self.model.make(path, None), os.mkdir, path)

    def symlink(self) -> None:
        path, to = self.path(), self.random.choice(NAMES)
        self.attempt(self.model.make(path, Inode(to)), os.symlink, to, path)

    def unlink(self) -> None:
        path = self.path()
        self.attempt(self.model.unlink(path), os.unlink, path)

    def rmdir(self) -> None:
        path = self.path()
        self.attempt(self.model.rmdir(path), os.rmdir, path)

    def link(self) -> None:
        old, new = self.path(), self.path()
        self.attempt(self.model.link(old, new), link, old, new)

    def rename(self) -> None:
        old, new = self.path(), self.path()
        deep = max((path.count("/") for path in self.model.within(old)), default=0) - old.count("/")
        if new.count("/") + max(deep, 0) <= DEPTH:
            self.attempt(self.model.rename(old, new), os.rename, old, new)

    def look(self) -> None:
        path = self.path()
        if self.model.has(path):
            check(self.model, path)
        else:
            self.attempt("ENOENT", os.lstat, path)

    # -- where others are too ------------------------------------------------------------------------------------------

    def share(self) -> None:
        one, other = self.shared_path(), self.shared_path()
        calls: list[Callable[[], object]] = [
            lambda: Path(one).write_bytes(one.encode() * self.random.randrange(99)),
            lambda: Path(one).read_bytes(),
            lambda: os.rename(one, other),
            lambda: link(one, other),
            lambda: os.symlink("elsewhere", one),
            lambda: os.mkdir(one),
            lambda: os.unlink(one),
            lambda: os.rmdir(one),
            lambda: os.truncate(one, self.random.randrange(5000)),
            lambda: os.listdir(os.path.dirname(one)),
            lambda: os.chmod(one, self.random.choice([0o600, 0o644, 0o700, 0o755])),
            lambda: os.utime(one),
            lambda: [os.lstat(entry) for entry in os.scandir(os.path.dirname(one))],
        ]
        came = came_of(self.random.choice(calls))
        assert not came or came in SENSIBLE, f"{came} of {one} and {other}"

    def run(self, count: int) -> None:
        own = [self.write, self.write, self.mkdir, self.symlink, self.unlink, self.rmdir, self.link, self.rename]
        for _ in range(count):
            self.random.choice([*own, self.look, self.share, self.share])()
        for path in self.model.nodes:
            check(self.model, path)


def link(old: str, new: str) -> None:
    os.link(old, new, follow_symlinks=False)


def came_of(call: Callable[..., object], *arguments: object) -> str:
    """Return the name of the errno that a call fails with, "" if it does not."""
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return ""


def check(model: Model, path: str) -> None:
    """Check that what there is under a path is what should be."""
    node, status = model.nodes[path], os.lstat(path)
    if node is None:
        assert stat.S_ISDIR(status.st_mode), path
        expected = sorted(other[len(path) + 1 :] for other in model.within(path))
        assert sorted(os.listdir(path)) == [name for name in expected if "/" not in name], path
        return
    assert (status.st_size, status.st_nlink) == (len(node.to.encode() or node.data), model.links(node)), path
    if node.to:
        assert os.readlink(path) == node.to, path
    else:
        assert Path(path).read_bytes() == node.data, path


def check_shared() -> None:
    """Check that the shared directory makes sense: what is listed is there, as long as it says, as often as it says."""
    names: Counter[int] = Counter()
    links: dict[int, int] = {}
    for directory, _, files in os.walk(SHARED):
        listed = os.listdir(directory)
        assert len(listed) == len(set(listed))
        for name in files:
            path = Path(directory, name)
            status = path.lstat()
            names[status.st_ino] += 1
            links[status.st_ino] = status.st_nlink
            assert path.is_symlink() or len(path.read_bytes()) == status.st_size
    assert names == links


def command(*arguments: object) -> list[str]:
    return [sys.executable, __file__, *map(str, arguments)]


def main(count: int, seed: str) -> None:
    os.mkdir(SHARED)
    chance = random.Random(seed)
    workers = [subprocess.Popen(command(count, seed, f"own-{number}")) for number in range(PROCESSES)]
    victims: list[subprocess.Popen[bytes]] = []
    killed = 0
    while any(worker.poll() is None for worker in workers):
        while len(victims) < VICTIMS:
            victims.append(subprocess.Popen(command(count, f"{seed} {killed} {len(victims)}", "")))
        time.sleep(0.3 * chance.random())
        victim = victims.pop(0)
        victim.send_signal(signal.SIGKILL)
        assert victim.wait(20) in (0, -signal.SIGKILL), "a victim found something"
        killed += 1
    for victim in victims:
        victim.kill()
        victim.wait(20)
    assert [worker.wait() for worker in workers] == [0] * PROCESSES
    check_shared()


def work(count: int, seed: str, top: str) -> None:
    """Be a worker, or a victim, which works in the shared directory alone."""
    worker = Worker(top, f"{seed} {top}")
    if top:
        os.mkdir(top)
        worker.run(count)
    else:
        while True:
            worker.share()


if __name__ == "__main__":
    if sys.argv[3:]:
        work(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    else:
        main(int(sys.argv[1]), sys.argv[2])
