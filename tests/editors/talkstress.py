"""Some processes that do to conversations at random what people do: ``python talkstress.py COUNT SEED``.

Works in the root of a mount. Whatever comes of a call must make sense.
"""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PROCESSES = 4
SENSIBLE = {
    errno.ENOENT,
    errno.EEXIST,
    errno.EINVAL,
    errno.ESTALE,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTEMPTY,
    errno.EISDIR,
    errno.ENOTDIR,
}
"""Outcomes that a call may have where others are at work."""

TOP = Path("conversations/project")


class Worker:
    """One process at work."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.number = seed.rpartition(" ")[2]
        self.done = 0

    # -- what there is -------------------------------------------------------------------------------------------------

    def talk(self) -> Path:
        return TOP / self.random.choice(sorted(os.listdir(TOP)))

    def event(self) -> Path:
        events = self.talk() / "events"
        names = [name for name in sorted(os.listdir(events)) if name[0].isdigit() and name.endswith(".md")]
        if not names:
            raise FileNotFoundError(errno.ENOENT, "no event is left")
        return events / self.random.choice(names)

    def text(self, path: Path) -> bytes:
        data = path.read_bytes()
        head, mark, _ = data.partition(b"\n---\n")
        body = f"Said by {self.number} for the {self.done}th time\n" * self.random.randrange(1, 20)
        return head + mark + body.encode()

    # -- what is done to it --------------------------------------------------------------------------------------------

    def in_place(self) -> None:
        path = self.event()
        text = self.text(path)
        file = os.open(path, os.O_WRONLY | self.random.choice([0, os.O_TRUNC]))
        try:
            os.write(file, text)
            os.ftruncate(file, len(text))
        finally:
            os.close(file)

    def by_rename(self) -> None:
        path = self.event()
        beside = path.with_name(f"tmp-{self.number}")
        beside.write_bytes(self.text(path))
        beside.rename(path)

    def with_backup(self) -> None:
        path = self.event()
        text, backup = self.text(path), path.with_name(f"{path.name}~")
        path.rename(backup)
        path.write_bytes(text)
        backup.unlink()

    def nonsense(self) -> None:
        self.event().write_bytes(b"---\ntype: nonsense\n---\n")

    def longer(self) -> None:
        with open(self.event(), "ab") as file:
            file.write(b"and more\n")

    def remove(self) -> None:
        self.event().unlink()

    def add(self) -> None:
        (self.talk() / "events/user.md").write_text(f"Asked by {self.number}, {self.done}\n")

    def add_many(self) -> None:
        for number in range(3):
            path = self.talk() / f"events/new-{self.number}-{number}"
            path.write_text("Added\n")
            path.rename(path.with_name(f"{99_000 + number:05}-user.md"))

    def all_at_once(self) -> None:
        path = self.talk() / "events.json"
        events = json.loads(path.read_bytes())
        if len(events) > 2:
            events.pop(self.random.randrange(1, len(events)))
        path.write_text(json.dumps(events, indent=2) + "\n")

    def rename_talk(self) -> None:
        self.talk().rename(TOP / f"renamed-{self.number}-{self.done}")

    def title(self) -> None:
        path = self.talk() / "metadata.json"
        path.write_text(json.dumps(json.loads(path.read_bytes()) | {"title": f"Of {self.number}"}))

    def fork(self) -> None:
        if len(os.listdir(TOP)) < 8:
            (self.talk() / f"forks/fork-{self.number}-{self.done}").mkdir()

    def remove_talk(self) -> None:
        if len(os.listdir(TOP)) > 4:
            shutil.rmtree(self.talk())

    def read(self) -> None:
        for path in self.talk().rglob("*"):
            if path.is_file():
                path.read_bytes()

    def read_past(self) -> None:
        versions = self.talk() / ".versions"
        for path in (versions / self.random.choice(sorted(os.listdir(versions)))).rglob("*.md"):
            path.read_bytes()

    def scratch(self) -> None:
        path = self.event().with_name(f".{self.number}.swp")
        path.write_bytes(os.urandom(5000))
        path.unlink()

    def run(self, count: int) -> None:
        often: list[Callable[[], None]] = [self.in_place, self.by_rename, self.with_backup, self.longer, self.scratch]
        seldom = [self.nonsense, self.remove, self.add, self.add_many, self.all_at_once, self.rename_talk, self.title]
        others = [self.fork, self.remove_talk, self.read, self.read_past]
        for self.done in range(count):
            call = self.random.choice([*often, *often, *seldom, *others])
            try:
                call()
            except json.JSONDecodeError:
                # what another is writing is seen at once, and may be half of it
                continue
            except OSError as error:
                if error.errno not in SENSIBLE:
                    raise


def main(count: int, seed: str) -> None:
    workers = [
        subprocess.Popen([sys.executable, __file__, str(count), f"{seed} {number}", "work"], start_new_session=True)
        for number in range(PROCESSES)
    ]
    try:
        assert [worker.wait() for worker in workers] == [0] * PROCESSES
    finally:
        for worker in workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[3:] == ["work"]:
        Worker(sys.argv[2]).run(int(sys.argv[1]))
    else:
        main(int(sys.argv[1]), sys.argv[2])
