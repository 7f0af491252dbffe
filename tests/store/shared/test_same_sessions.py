"""Machines of a space that import the files of one home, in any order and state: what a store alone makes of them.

A home has sessions, and copies of them that are cut, grown, merged or damaged, all of the same ids. Each machine sees
its files come and grow, and imports them now and then. CONVFS_LARGE_TESTS=1 tries thousands of homes.
"""

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.importing.importer import Importer, ImportReport
from store.importing.native import as_it_came
from store.store import Store
from tests.store.importing.sessions import SESSION, line
from tests.store.shared.test_importing import payloads
from tests.store.shared.test_spaces import Team, team

__all__ = ["team"]

BATCHES, HOMES = (100, 20) if os.environ.get("CONVFS_LARGE_TESTS") == "1" else (2, 9)
"""So many spaces for each kind of home, and so many homes that come into each."""
Home = dict[str, bytes]
"""The contents of files by their paths."""


def told(rng: random.Random, session: str, first: int, count: int) -> list[bytes]:
    """Return records of a session from a number on, some of which say nothing."""
    spoken = [line(f"{rng.random()} is what was said", first + at, sessionId=session) for at in range(count)]
    noted = b'{"type":"file-history-snapshot","messageId":"%d"}'
    return [noted % rng.randrange(1 << 30) if rng.random() < 0.15 else record for record in spoken]


def cut(rng: random.Random, content: bytes) -> bytes:
    """Return the beginning of a file, which may end within a record."""
    at = rng.randint(1, len(content))
    return content[:at] if rng.random() < 0.3 else content[: content.rfind(b"\n", 0, at) + 1] or content[:at]


def grown(rng: random.Random, content: bytes, session: str) -> bytes:
    """Return a file that goes on from some place of another."""
    kept = cut(rng, content) if rng.random() < 0.5 else content
    kept = kept[: kept.rfind(b"\n") + 1]
    return kept + b"".join(record + b"\n" for record in told(rng, session, kept.count(b"\n"), rng.randint(1, 4)))


def merged(rng: random.Random, one: bytes, other: bytes) -> bytes:
    """Return a file with the lines of two, each once."""
    both = list(dict.fromkeys([*one.splitlines(), *other.splitlines()]))
    return b"\n".join(sorted(both, key=lambda _line: rng.random()) if rng.random() < 0.3 else both) + b"\n"


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Return a file with a fault that such files are found to have."""
    lines = content.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            lines.insert(at, bytes(rng.randint(1, 60)) + b"\n")
        case 1:
            lines.insert(at, lines[at])
        case 2:
            lines[at] = lines[at].replace(b"what", b"wh\xff\xfet")
        case 3:
            lines[at] = lines[at].rstrip(b"\n") + b"" if at + 1 < len(lines) else lines[at]
        case 4:
            return content.removesuffix(b"\n")
        case 5:
            return content.replace(b"\n", b"\r\n")
    return b"".join(lines)


def tells(content: bytes) -> bool:
    """Return whether a file says by now of which session it is: until then it may be of any."""
    return b"sessionId" in content[: content.rfind(b"\n") + 1] or b"\n#### " in content


def histories(rng: random.Random, number: int) -> Home:
    """Return files of many conversations, some of which are in several of them, and have gone on in one."""
    files: Home = {}
    for which in range(rng.randint(1, 3)):
        runs = []
        for day in range(1, rng.randint(2, 5)):
            own = which if rng.random() < 0.5 else 0
            said = ((at if rng.random() < 0.7 else rng.random(), at) for at in range(rng.randint(1, 3)))
            asked = "".join(f"\n#### Question {number} {day} {what}?\n\nAnswer {at}.\n" for what, at in said)
            runs.append(f"\n# aider chat started at 2026-03-{day:02} 12:{number % 60:02}:{own:02}\n{asked}")
        files[f"p{which}/.aider.chat.history.md"] = "".join(runs).encode()
    if len(files) > 1 and rng.random() < 0.4:
        one, other = list(files)[:2]
        files[other] = files[one] + (files[other] if rng.random() < 0.5 else b"")
    return files


def home(rng: random.Random, number: int) -> Home:
    """Return the files of a home. Those of one id have the name of its tool, or of who has copied them."""
    files: Home = {}
    for which in range(rng.randint(1, 2)):
        session = f"{SESSION[:-8]}{number:06}{which:02}"
        contents = [b"".join(record + b"\n" for record in told(rng, session, 0, rng.randint(2, 8)))]
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4))):
            like = rng.choice(contents)
            makers: Sequence[Callable[[], bytes]] = (
                lambda like=like: like,
                lambda like=like: cut(rng, like),
                lambda like=like, session=session: grown(rng, like, session),
                lambda like=like, contents=contents: merged(rng, like, rng.choice(contents)),
                lambda like=like: damaged(rng, like),
            )
            contents.append(rng.choice(makers)())
        rng.shuffle(contents)
        for at, content in enumerate(contents):
            name = session if rng.random() < 0.5 else f"copy-{at}"
            if tells(content):
                files[f"{rng.choice('pqr')}{at if name == session else ''}/{name}.jsonl"] = content
    return files


class Machine:
    """A replica with its home at ``root``."""

    def __init__(self, store: Store, root: Path, files: Home) -> None:
        self.store = store
        self.root = root
        self._files = files

    def see(self, rng: random.Random, *, whole: bool = False) -> None:
        """Have some files come, or grow."""
        for name, content in self._files.items():
            if not whole and rng.random() < 0.5:
                continue
            path = self.root / name
            size = path.stat().st_size if path.exists() else 0
            now = content if whole or rng.random() < 0.5 else cut(rng, content)
            if path.suffix == ".md":
                # a question that has no answer yet is another one
                now = now[: now.rfind(b"\n#### ")] if now != content else now
            if len(now) > size and tells(now):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(now)

    def bring(self, rng: random.Random | None = None) -> ImportReport | None:
        paths = [self.root]
        if rng is not None and rng.random() < 0.3:
            files = sorted(path for path in self.root.rglob("*") if path.is_file())
            paths = [path for path in files if rng.random() < 0.5]
        if not paths or not self.root.exists():
            return None
        report = Importer(self.store).run(paths)
        assert report.errors == []
        return report


def at_once(machines: Sequence[Machine]) -> None:
    """Have all import their homes, and come to their first commits together."""
    begin = threading.Barrier(len(machines))
    failed: list[BaseException] = []

    def work(machine: Machine) -> None:
        submit = machine.store.writer.submit_all
        waited = False

        def together(*arguments: object) -> None:
            nonlocal waited
            if not waited:
                waited = True
                with suppress(threading.BrokenBarrierError):
                    begin.wait(20)
            submit(*arguments)  # type: ignore[arg-type]  (it passes on what it is given)

        machine.store.writer.submit_all = together  # type: ignore[method-assign, assignment]  (in the place of it)
        try:
            machine.bring()
        except BaseException as error:
            failed.append(error)
        finally:
            del machine.store.writer.submit_all
            if not waited:
                # who has nothing to commit holds up nobody
                begin.abort()

    threads = [threading.Thread(target=work, args=(machine,)) for machine in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def texts(store: Store, roots: Sequence[Path]) -> Counter[bytes]:
    """Return what the conversations from below some paths say, and how many say it."""
    store.writer.catch_up()
    found: Counter[bytes] = Counter()
    for talk in store.library.conversations():
        entry = store.catalogue.entry(talk.id)
        if any(Path(entry.source).is_relative_to(root) for root in roots):
            file = as_it_came(store, entry) if "part" not in entry.metadata else None
            text = file.read(0, file.size) if file is not None else payloads(store, talk)
            found[b"\n".join(text.splitlines()).strip()] += 1
    return found


def scenario(rng: random.Random, machines: Sequence[Machine]) -> None:
    for _ in range(rng.randint(0, 4)):
        machine = rng.choice(machines)
        machine.see(rng)
        match rng.randrange(4):
            case 0:
                at_once(machines)
            case 1:
                machine.bring(rng)
                machine.bring(rng)
            case _:
                machine.bring(rng)
    for machine in machines:
        machine.see(rng, whole=True)
    if rng.random() < 0.3:
        at_once(machines)
    order = [*machines, *machines] if rng.random() < 0.5 else [*machines, *reversed(machines)]
    for machine in order:
        machine.bring()


@pytest.mark.parametrize("make", [home, histories])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_machines_make_of_a_home_what_a_store_alone_does(
    team: Team, tmp_path: Path, batch: int, make: Callable[[random.Random, int], Home]
) -> None:
    stores = [team.open("a"), team.open("b")]
    for number in range(batch * HOMES, (batch + 1) * HOMES):
        rng = random.Random(number)
        files, folder = make(rng, number), tmp_path / str(number)
        roots = [folder / "home"] * 2 if rng.random() < 0.4 else [folder / name for name in "ab"]
        scenario(rng, [Machine(store, root, files) for store, root in zip(stores, roots, strict=True)])
        with Store.open(folder / "alone", renderer=FileRenderer()) as alone:
            Importer(alone).run([roots[0]])
            expected = texts(alone, roots)
        assert texts(stores[0], roots) == expected, number
        for store, root in zip(stores, roots, strict=True):
            report = Importer(store).run([root])
            assert (report.imported, report.grown) == (0, 0), number
