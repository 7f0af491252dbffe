"""Runs a program on a mounted store whose daemon dies or fails at a step, and looks at what is left."""

import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fusefs.mount_table import mount_at
from tests.conftest import scratch
from tests.crash_mount.faults import Watch
from tests.crash_mount.programs import SAVED, SYNCED
from tests.crash_mount.zygote import REMOVAL_SECONDS
from tests.fusefs.tree.mounting import PATIENCE, REPOSITORY, unmounted, until, work_directory
from tests.model import instead

_LONGEST = 400
PROJECT, NAME = "project", "2026-03-05-talk"
_EVENT = re.compile(r"[0-9]{5}-[a-z][-\w]*\.md")
_OWN = {"events", "events.json", "forks", "metadata.json", "resources"}
_UNLISTED = re.compile(r"not listed: (.*)")
_TIME = re.compile(rb"(?m)^(timestamp|id): .*\n")


class Zygote:
    """A process that makes daemons and programs; see ``zygote.py``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash_mount.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )
        assert self._read() == "ready"

    def ask(self, **order: object) -> dict[str, Any]:
        """Give an order and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._read()
        assert isinstance(answer, dict)
        return answer

    def _read(self) -> object:
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], PATIENCE)
        assert ready, "no answer"
        return json.loads(out.readline())

    def close(self) -> None:
        """End it, with whatever it has begun."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@dataclass(frozen=True)
class Talk:
    """A conversation as a mount shows it: the events' files, the actions of its versions, its forks, its metadata
    (those that people set), its resources."""

    events: dict[str, bytes]
    versions: tuple[str, ...]
    forks: tuple[str, ...] = ()
    metadata: str = ""
    resources: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class State:
    """A mount as it is seen: every conversation by project and name, and what is in the trash."""

    talks: dict[str, Talk]
    trash: tuple[str, ...]

    def edited(self, name: str, text: bytes, action: str = "") -> "State":
        """Return the state in which an event of the one conversation holds ``text``, in one version more."""
        key = f"{PROJECT}/{NAME}"
        talk = self.talks[key]
        action = action or f"edit-{name[:5]}"
        new = replace(talk, events=talk.events | {name: text}, versions=(*talk.versions, action))
        return replace(self, talks=self.talks | {key: new})


@dataclass
class Seen:
    """A mount as it is seen, and what else is there."""

    state: State
    scratch: dict[str, bytes]
    """The files in ``events/`` that are no events, those in directories too, and ``../NAME`` those elsewhere."""


def unlisted(root: Path, events: Path) -> list[Path]:
    """Return the files that programs which have ended left beside events: a note names them."""
    told = (note.read_text() for note in (root / ".convfs" / "errors").glob(f"*--{events.parent.name}--events.txt"))
    named = [name for text in told for line in _UNLISTED.findall(text) for name in line.split(", ")]
    return [events / name for name in named if os.path.lexists(events / name)]


def look(root: Path, known: State | None = None) -> Seen:
    """Read everything. Times of events that ``known`` does not have are left out: they differ from run to run."""
    talks: dict[str, Talk] = {}
    left: dict[str, bytes] = {}
    for project in sorted(os.listdir(root / "conversations")):
        for name in sorted(os.listdir(root / "conversations" / project)):
            path = root / "conversations" / project / name
            old = known.talks.get(f"{project}/{name}", Talk({}, ())).events if known else None
            events: dict[str, bytes] = {}
            shown = sorted((path / "events").rglob("*"))
            for file in sorted({*shown, *unlisted(root, path / "events")}):
                where = str(file.relative_to(path / "events"))
                if _EVENT.fullmatch(where):
                    data = file.read_bytes()
                    assert len(data) == file.stat().st_size, where
                    fresh = old is not None and where not in old
                    events[where] = _TIME.sub(b"", data) if fresh else data
                elif file.is_symlink() and not file.exists():
                    left[where] = b"-> " + os.fsencode(os.readlink(file))
                elif file.is_file():
                    left[where] = file.read_bytes()
            versions = [
                version[len("0001-2026-03-05T19.31.54-") :] for version in sorted(os.listdir(path / ".versions"))
            ]
            for file in path.iterdir():
                if file.name not in _OWN:
                    left[f"../{file.name}"] = file.read_bytes()
            metadata = json.loads((path / "metadata.json").read_bytes())
            json.loads((path / "events.json").read_bytes())
            said = json.dumps([metadata[key] for key in ("title", "labels", "pinned", "archived")])
            forks = tuple(sorted(os.listdir(path / "forks")))
            resources = []
            for file in sorted((path / "resources").rglob("*")):
                if file.is_file():
                    where = str(file.relative_to(path))
                    if file.suffix in (".draft", ".tmp"):
                        left[f"../{where}"] = file.read_bytes()
                    else:
                        resources.append((where, file.read_bytes()))
            talks[f"{project}/{name}"] = Talk(events, tuple(versions), forks, said, tuple(resources))
    return Seen(State(talks, tuple(sorted(os.listdir(root / ".convfs" / "trash")))), left)


@dataclass
class Told:
    """Answers that a program was given: ``promises`` in order; ``errno`` is 0 where it ended well."""

    promises: list[object]
    errno: int
    has: dict[str, bytes] = field(default_factory=dict)

    @property
    def saved(self) -> int:
        """How often it was told that it has saved."""
        return self.promises.count(SAVED)

    @property
    def synced(self) -> bool:
        """Whether it was told that what it wrote is on the disk, and then no more."""
        return self.promises[-1:] == [SYNCED]


@dataclass
class Fault:
    """At which step something happens, and what; see ``faults.py``."""

    at: int
    kind: str
    lasting: bool = False
    only: str = ""
    """Which steps are counted, as a pattern for ``CALL PATH``."""
    deaf: str = ""
    """Which files and directories a sync does not help that is done where the power fails later, as a pattern."""
    during: str = "work"
    """``start``: from the beginning; ``work``: while the program runs; ``end``: from when the mount is to end."""


class Bench:
    """A place for one run after the other: a mountpoint, a store, a zygote."""

    def __init__(self, zygote: Zygote) -> None:
        self.zygote = zygote
        self.base = scratch()
        self.store = self.base / "store"
        self.log = self.base / "log"
        self.root = Path(tempfile.mkdtemp(prefix="mount-", dir=work_directory()))
        self.pid = 0
        self.watch: Watch | None = None

    # -- the daemon ------------------------------------------------------------------------------------------------

    def begin(self, template: Path) -> None:
        """Take a fresh copy of a store."""
        shutil.rmtree(self.store, ignore_errors=True)
        shutil.copytree(template, self.store, symlinks=True)
        instead(self.store)
        self.log.unlink(missing_ok=True)
        (self.base / "image").mkdir(exist_ok=True)

    def mount(self, fault: Fault | None = None) -> dict[str, Any] | None:
        """Start a daemon; its end is returned if it did not get to mounting."""
        order: dict[str, object] = {"store": str(self.store), "root": str(self.root), "log": str(self.log)}
        order["image"] = str(self.base / "image")
        self.watch = None
        if fault is not None:
            path = self.base / "watch"
            path.unlink(missing_ok=True)
            self.watch = Watch(path)
            self.watch.arm(fault.during == "start")
            order["fault"] = {
                "watch": str(path),
                "at": fault.at,
                "kind": fault.kind,
                "lasting": fault.lasting,
                "only": fault.only,
                "deaf": fault.deaf,
            }
        else:
            order["fault"] = None
        answer = self.zygote.ask(mount=order)
        self.pid = answer["pid"]
        if not self.pid:
            return answer
        if self.watch is not None:
            self.watch.arm(fault is not None and fault.during == "work")
        return None

    def lose_power(self) -> None:
        """Let the store be what was on the disk when the power failed."""
        shutil.rmtree(self.store)
        os.rename(self.base / "image", self.store)

    def wait(self) -> dict[str, Any]:
        """Wait for the daemon's end."""
        pid, self.pid = self.pid, 0
        return self.zygote.ask(wait=pid)

    def unmount(self) -> dict[str, Any]:
        """Unmount, and wait for the daemon's end."""
        # a process that another thread begins may have for a moment what was open here
        until(lambda: unmounted(self.root) or self.died)
        return self.wait()

    def kill(self) -> None:
        """Kill the daemon."""
        os.kill(self.pid, signal.SIGKILL)

    @property
    def died(self) -> bool:
        """Whether the daemon has been killed."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    @property
    def fired(self) -> str:
        """At which step the fault has come about."""
        return self.watch.fired if self.watch is not None else ""

    # -- the program -----------------------------------------------------------------------------------------------

    @property
    def events(self) -> Path:
        return self.root / "conversations" / PROJECT / NAME / "events"

    def run(self, program: str, name: str, text: bytes) -> Told:
        """Run a program to its end."""
        order = {"program": program, "events": str(self.events), "name": name, "text": text.decode()}
        done = self.zygote.ask(program=order)
        told = Told([], 0)
        for said in done["said"]:
            if isinstance(said, str):
                told.promises.append(said)
            elif "has" in said:
                told.has[said["has"]] = said["data"].encode("latin1")
            elif "goes" in said:
                told.has.pop(said["goes"], None)
            elif "errno" in said:
                told.errno = said["errno"]
        if done["status"] == -signal.SIGBUS:
            # memory was mapped, and whoever had its content is dead or cannot keep it
            told.errno = -signal.SIGBUS
        else:
            assert (done["status"] == 0) == (told.errno == 0), done
        return told

    def settle(self, *, removal: bool = False) -> None:
        """Return when everything has been done that a program has left to be done."""
        if removal:
            end = time.monotonic() + REMOVAL_SECONDS + 0.5
            while time.monotonic() < end and not self.died and not self.fired:
                time.sleep(0.02)
        with suppress(OSError):
            # answered after what came before it
            os.stat(self.root / "no such name")
        if self.watch is not None:
            self.watch.arm(False)

    # -- the end ---------------------------------------------------------------------------------------------------

    def check_after(self, known: State) -> Seen:
        """Mount the store anew, read it, unmount it; it must be sound."""
        assert self.mount() is None, self.said()
        assert len(list((self.store / "mounts").iterdir())) == 1
        seen = look(self.root, known)
        os.kill(self.pid, signal.SIGTERM)
        ended = self.wait()
        assert ended["status"] == 0, self.said()
        assert ended["said"][-1]["fsck"] == []
        drafts = self.store / "scratch" / ".drafts"
        assert not drafts.exists() or list(drafts.iterdir()) == []
        return seen

    def said(self) -> str:
        """Return what the daemons of this run have logged."""
        return self.log.read_text() if self.log.exists() else ""

    def clean(self) -> None:
        """Leave nothing running and nothing mounted, after a failure."""
        if self.pid:
            if not self.died:
                os.kill(self.pid, signal.SIGKILL)
            self.wait()
        while mount_at(self.root) is not None:
            subprocess.run(["fusermount3", "-uz", str(self.root)], capture_output=True, timeout=PATIENCE, check=True)

    def close(self) -> None:
        """Leave nothing behind."""
        try:
            self.clean()
        finally:
            shutil.rmtree(self.base)
            self.root.rmdir()


@contextmanager
def benches(count: int = 1) -> Iterator[list[Bench]]:
    """Give benches, each with a zygote of its own."""
    with ExitStack() as held:
        made = []
        for _ in range(count):
            zygote = Zygote()
            held.callback(zygote.close)
            made.append(Bench(zygote))
            held.callback(made[-1].close)
        yield made


def at_every_step(here: list[Bench], run: Callable[[Bench, int], str], *, first: int = 1, every: int = 1) -> list[str]:
    """Call ``run`` with 1, 2, … on all benches side by side, until no fault comes about; return where they did.

    ``every`` 3 and ``first`` 2: with 2, 5, 8 and so on.
    """
    numbers = itertools.count(first, every)
    fired: dict[int, str] = {}
    beyond: list[int] = []
    over = threading.Event()

    def work(one: Bench) -> None:
        try:
            while not over.is_set():
                at = next(numbers)
                assert at < _LONGEST, "this does not end"
                where = run(one, at)
                if not where:
                    beyond.append(at)
                    break
                fired[at] = where
        finally:
            over.set()

    with ThreadPoolExecutor(len(here)) as pool:
        for done in [pool.submit(work, one) for one in here]:
            done.result()
    # in some runs the background does a step more before the end than in others
    assert sorted(at for at in fired if at < min(beyond)) == list(range(first, min(beyond), every))
    return [fired[at] for at in sorted(fired)]
