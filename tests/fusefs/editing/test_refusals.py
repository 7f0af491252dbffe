"""Every call is tried on every kind of file and directory in a mount: LAYOUT.md says what is refused, and why."""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.editors.calls import EXCHANGE, NOREPLACE, renameat2
from tests.fusefs.editing.talk import FIRST, NAME, changed
from tests.fusefs.editing.talk import LINES as SAID
from tests.fusefs.tree.mounting import REPOSITORY, TRANSCRIPT, Mounted, add, errno_of, mounted, new_store, until
from tests.store.editing.records import returned
from tests.store.worktree.test_changes import Talk

TALK = f"conversations/project/{NAME}"
NATIVE = ".convfs/native/claude-code"
WRITING = Talk()
WRITING.write("/garden/new.txt", "peas\n")
LINES = [*SAID, returned("def one():\n    pass\n", "c1", "r5").decode(), *WRITING.lines]

FILES = {
    "a resource": f"{TALK}/resources/src/c1.py",
    "a file in `resources/` that no record holds": f"{TALK}/resources/garden/new.txt",
    "an event": f"{TALK}/events/{FIRST}",
    "`events.json`, `metadata.json`": f"{TALK}/events.json",
    "a transcript": TRANSCRIPT,
    "an output": f"{TALK}/artifacts/0.make.log",
    "a session in `.convfs/native/`": f"{NATIVE}/here/there.jsonl",
    "scratch": f"{TALK}/scratch",
    "an earlier version": f"{TALK}/.versions/0001-*/events/{FIRST}",
    "`.records/`, `changes.diff`, `changes/`, `context.json`, `fs/`": f"{TALK}/.records/00001.json",
    "`README.md`, `.convfs/stats.json`, `html/`": "html/index.html",
}
DIRECTORIES = {
    "`events/`": f"{TALK}/events",
    "a conversation": TALK,
    "a project": "conversations/project",
    "a scratch directory": f"{TALK}/folder",
    "`subagents/`": f"{TALK}/subagents",
    "`.aside/`": "conversations/project/.aside",
    "`forks/`": f"{TALK}/forks",
    "`resources/`": f"{TALK}/resources/src",
    "a label": "by-label/todo",
    "`.convfs/native/TOOL/`": f"{NATIVE}/here",
    "the root": ".",
    "an earlier version": f"{TALK}/.versions/0001-*",
    "`by-date/`, `recent/`, `html/`": "html",
    "`.convfs/`": ".convfs",
}

LINKS = {
    "in `by-label/`": f"by-label/old/{NAME}",
    "in `forks/`": f"{TALK}/forks/other",
    "in `by-date/`, `recent/`": f"recent/{NAME}",
    "scratch": f"{TALK}/link",
}

Call = Callable[[Path], object]


def root_of(path: Path) -> Path:
    """Return where the mount is that a path leads into."""
    return next(parent for parent in (path, *path.parents) if (parent / "README.md").exists())


def beside(path: Path) -> Path:
    """Return a free name for the same kind of thing: in the conversation, or in the tool's folder."""
    if NATIVE in str(path):
        return path.with_name("elsewhere.jsonl")
    return root_of(path) / TALK / f"elsewhere-{len(path.parents)}-{path.name}"


def elsewhere(path: Path) -> Path:
    """Return where a link may be moved to: another label, else another name."""
    is_label = path.parents[1].name == "by-label"
    return path.parents[1] / "todo" / path.name if is_label else path.with_name("moved")


def move_and_back(path: Path) -> None:
    """Give a directory another name, and its own again."""
    other = path.with_name("moved")
    path.rename(other)
    other.rename(path)


def exchange(path: Path) -> None:
    """Exchange a file, a directory or a link with a scratch file."""
    renameat2(path, root_of(path) / TALK / "another", EXCHANGE)


def set_own(path: Path) -> None:
    """Set an extended attribute, of a link itself too."""
    os.setxattr(path, "user.mine", b"x", follow_symlinks=False)


def remove_own(path: Path) -> None:
    """Remove an extended attribute, which is there where it can be set."""
    with suppress(OSError):
        set_own(path)
    os.removexattr(path, "user.mine", follow_symlinks=False)


OF_FILES: dict[str, Call] = {
    "write": lambda path: os.close(os.open(path, os.O_WRONLY)),
    "cut": lambda path: os.truncate(path, path.stat().st_size + 1),
    "chmod": lambda path: path.chmod(stat.S_IMODE(path.stat().st_mode) ^ 0o40),
    "chown": lambda path: os.chown(path, 12345, 12345),
    "utime": lambda path: os.utime(path, ns=(1, 1)),
    "setxattr": set_own,
    "removexattr": remove_own,
    "link": lambda path: os.link(path, beside(path)),
    "rename": lambda path: path.rename(beside(path)),
    "noreplace": lambda path: renameat2(path, beside(path), NOREPLACE),
    "exchange": exchange,
    "unlink": lambda path: path.unlink(),
}
OF_DIRECTORIES: dict[str, Call] = {
    "file": lambda path: (path / "x").touch(exist_ok=False),
    "mkdir": lambda path: (path / f"new-in-{path.name}").mkdir(),
    "symlink": lambda path: (path / "z").symlink_to("nowhere"),
    "mkfifo": lambda path: os.mkfifo(path / "pipe"),
    "mknod": lambda path: os.mknod(path / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
    "chmod": lambda path: path.chmod(0o750),
    "chown": lambda path: os.chown(path, 12345, 12345),
    "utime": lambda path: os.utime(path, ns=(1, 1)),
    "setxattr": set_own,
    "removexattr": remove_own,
    "rename": move_and_back,
    "exchange": exchange,
    "rmdir": lambda path: path.rmdir(),
}
OF_LINKS: dict[str, Call] = {
    "chown": lambda path: os.lchown(path, 12345, 12345),
    "utime": lambda path: os.utime(path, ns=(1, 1), follow_symlinks=False),
    "setxattr": set_own,
    "removexattr": remove_own,
    "link": lambda path: os.link(path, beside(path), follow_symlinks=False),
    "rename": lambda path: path.rename(elsewhere(path)),
    "noreplace": lambda path: renameat2(path, elsewhere(path), NOREPLACE),
    "exchange": exchange,
    "unlink": lambda path: path.unlink(),
}
TABLES = [
    ("of a file", FILES, OF_FILES),
    ("of a directory", DIRECTORIES, OF_DIRECTORIES),
    ("of a link", LINKS, OF_LINKS),
]


@pytest.fixture
def mount(store_path: Path) -> Iterator[Mounted]:
    with new_store(store_path) as store:
        started = store.contexts.set_metadata
        started(add(store, LINES), {"source": "/s/talk.jsonl", "session": "s"})
        started(add(store, SAID, name="inside"), {"source": "/s/inside.jsonl", "parent_session": "s"})
        warm_up = {"source": "/s/ready.jsonl", "title": "Warmup", "agent": "a", "naming": {}}
        started(add(store, SAID, name="ready"), warm_up)
    with mounted(store_path) as mount:
        talk = mount.root / TALK
        (talk / "events" / FIRST).write_bytes(changed(talk / "events" / FIRST))
        (talk / "artifacts" / "make").write_text("made")
        (talk / "scratch").write_text("some")
        (talk / "folder").mkdir()
        (talk / "another").write_text("other")
        (talk / "link").symlink_to("nowhere")
        (talk / "forks/other").mkdir()
        (mount.root / "by-label/todo").mkdir()
        (mount.root / "by-label/old").mkdir()
        (mount.root / "by-label/old" / NAME).symlink_to(f"../../{TALK}")
        (mount.root / NATIVE / "here").mkdir(parents=True)
        (mount.root / NATIVE / "here" / "there.jsonl").write_text("".join(f"{line}\n" for line in LINES))
        until(lambda: not list((store_path / "scratch" / ".growing").glob("*/*")))
        until(lambda: len(list((mount.root / "conversations").glob("*/*"))) == 4)
        yield mount


def refused(kinds: dict[str, str], calls: dict[str, Call], mount: Mounted, name: str) -> dict[str, str]:
    """Return what comes of a call, by kind, as the table says it."""
    found = {}
    for kind, pattern in kinds.items():
        path = mount.root if pattern == "." else next(mount.root.glob(pattern), mount.root / pattern)
        before = path.lstat()
        code = errno_of(lambda path=path: calls[name](path))
        found[kind] = errno.errorcode[code] if code else "✓"
        if not code and name in ("chmod", "chown", "utime"):
            after = path.lstat()
            done = {
                "chmod": after.st_mode != before.st_mode,
                "chown": after.st_uid == 12345,
                "utime": after.st_mtime_ns == 1,
            }
            found[kind] = "✓" if done[name] else "0"
    return found


def said(heading: str) -> dict[str, dict[str, str]]:
    """Return the cells of a table of LAYOUT.md, by kind and call.

    A cell is an errno, ✓ for what is done, or 0 for what is let pass and not done.
    """
    text = (REPOSITORY / "fusefs" / "LAYOUT.md").read_text()
    lines = text[text.index(f"| {heading} |") :].splitlines()
    calls = [cell.strip() for cell in lines[0].strip("|").split("|")][1:-1]
    rows = {}
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        kind, *cells, why = (cell.strip() for cell in line.strip("|").split("|"))
        assert why or set(cells) == {"✓"}, f"no reason is given for what is refused of {kind}"
        rows[kind] = dict(zip(calls, cells, strict=True))
    return rows


@pytest.mark.parametrize(
    ("heading", "kinds", "calls", "name"),
    [(heading, kinds, calls, name) for heading, kinds, calls in TABLES for name in calls],
    ids=[f"{heading.split()[-1]}-{name}" for heading, _kinds, calls in TABLES for name in calls],
)
def test_what_is_refused_is_said(
    mount: Mounted, heading: str, kinds: dict[str, str], calls: dict[str, Call], name: str
) -> None:
    if os.geteuid() and name in ("write", "cut"):
        pytest.skip("modes are looked at first for all but root")
    table = said(heading)
    assert refused(kinds, calls, mount, name) == {kind: cells[name] for kind, cells in table.items()}


def test_every_call_is_in_the_table() -> None:
    for heading, kinds, calls in TABLES:
        table = said(heading)
        assert list(table) == list(kinds)
        assert all(list(cells) == list(calls) for cells in table.values())


def test_what_is_refused_everywhere(mount: Mounted) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for pattern in FILES.values():
        path = next(mount.root.glob(pattern))
        try:
            fd = os.open(path, os.O_WRONLY)
        except OSError:
            continue
        try:
            assert libc.fallocate(fd, 1, ctypes.c_int64(0), ctypes.c_int64(4096)) == -1
            assert ctypes.get_errno() == errno.EOPNOTSUPP, path
        finally:
            os.close(fd)
    for pattern in DIRECTORIES.values():
        path = mount.root if pattern == "." else next(mount.root.glob(pattern))
        assert errno_of(lambda path=path: os.open(path, os.O_TMPFILE | os.O_RDWR)) == errno.EOPNOTSUPP, path
