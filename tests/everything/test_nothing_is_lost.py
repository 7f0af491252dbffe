"""A store in use in every way, by a process that is killed again and again: it holds what it should, each time.

Steps are chosen at random, from a seed. What the process was at when it was killed has been done or it has not. So are
copies, in use beside what they were copied from, each of which holds its own. ``CONVFS_LARGE_TESTS`` makes it 10,000
steps.
"""

from __future__ import annotations

import os
import random
import select
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fusefs.text.render import FileRenderer
from store.paths import SETTINGS
from store.redaction.secrets import MARK
from store.retention.plan import Doomed, Selection
from store.service.client import Client
from store.service.upkeep import prune_plan, prune_planned
from store.store import Store
from store.upkeep.fsck import fsck
from tests.everything import expected
from tests.everything.expected import Step, Talk
from tests.everything.steps import held
from tests.forked import ROOT, Forked

LARGE = bool(os.environ.get("CONVFS_LARGE_TESTS"))
STEPS = 10_000 if LARGE else 250
KILLS = 0.03
ENDS = 0.01
_SECONDS = 120
_LONGEST_MS = 25
_MOST_TALKS = 30

Changed = dict[str, Talk | None]
"""Outcomes for conversations; None: they are not there."""


class Worker:
    """A process that has the store open."""

    def __init__(self, root: Path) -> None:
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        nothing = os.open(os.devnull, os.O_WRONLY)
        streams = (orders, answers, nothing)
        self._process = Forked("tests.everything.worker", root, streams=streams, directory=ROOT)
        for stream in streams:
            os.close(stream)
        self._buffer = b""
        assert self.answer() == "opened"

    def send(self, step: Step) -> None:
        os.write(self._orders, msgspec.json.encode(step) + b"\n")

    def answer(self, timeout: float = _SECONDS) -> str | None:
        """Return the next answer, None if none comes in so many seconds; "" if the process has ended."""
        while b"\n" not in self._buffer:
            if not select.select([self._answers], [], [], timeout)[0]:
                return None
            read = os.read(self._answers, 1 << 16)
            if not read:
                return ""
            self._buffer += read
        line, self._buffer = self._buffer.split(b"\n", 1)
        return msgspec.json.decode(line, type=str)

    def end(self, *, kill: bool) -> str | None:
        """Have it end, and return what it says to that."""
        if kill:
            self._process.kill()
        os.close(self._orders)
        said = self.answer()
        self._process.wait(_SECONDS)
        os.close(self._answers)
        return said


class Everything:
    """The store, its worker, and what it should hold."""

    def __init__(self, root: Path, seed: int, talks: dict[str, Talk] | None = None) -> None:
        self.root = root
        self.talks: dict[str, Talk] = dict(talks or {})
        self.done: list[Step] = []
        self._chance = random.Random(seed)
        self._names = len(self.talks) * 1000
        self._texts: list[str] = []
        self._secrets: list[str] = []
        self._worker = Worker(root)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.end()

    def step(self) -> None:
        """Do something, or have it done over the socket."""
        step = self._choose()
        self.done.append(step)
        if step.what == "delete" and self._chance.random() < 0.5:
            prune(self.root, step.name)
            self._change(self._after(step))
            return
        killed = self._chance.random() < KILLS
        self._worker.send(step)
        answer = self._worker.answer(self._chance.randrange(_LONGEST_MS) / 1000 if killed else _SECONDS)
        assert answer in ("done", None), answer
        changed = self._after(step)
        if answer == "done":
            self._change(changed)
            changed = {}
        if killed:
            self._worker.end(kill=True)
        if step.what == "redact":
            self._redacted(step, killed=killed)
        elif killed:
            self._open_again(changed)
        elif self._chance.random() < ENDS:
            assert self._worker.end(kill=False) == "closed"
            self._open_again({})

    def end(self) -> None:
        """End the process, and look at everything once more."""
        assert self._worker.end(kill=False) == "closed"
        self._check({})

    def copied(self, to: Path, seed: int) -> Everything:
        """Copy the store, as a process has left it that was killed or ended, and have both used from now on."""
        if self._chance.random() < 0.5:
            assert self._worker.end(kill=False) == "closed"
        else:
            self._worker.end(kill=True)
        subprocess.run(["cp", "-a", self.root, to], check=True)
        # what was the first to be opened must not matter
        if self._chance.random() < 0.5:
            self._open_again({})
            return Everything(to, seed, self.talks)
        copy = Everything(to, seed, self.talks)
        self._open_again({})
        return copy

    def _redacted(self, step: Step, *, killed: bool) -> None:
        """Look at what a redaction has made of the store; one in which it was killed is done once more."""
        if killed:
            self._worker = Worker(self.root)
            self._worker.send(step)
            assert (answer := self._worker.answer()) == "done", answer
        assert self._worker.end(kill=False) == "closed"
        with Store.open(self.root, renderer=FileRenderer(), create=False) as store:
            there = held(store)
        for name, talk in self.talks.items():
            without = expected.redacted(talk, step.texts[0], MARK.decode())
            if name in there and there[name].last > talk.last:
                # its versions tell of it, also where the secret was in what is not to be seen any more
                without = expected.after(without, Step("redacted"))
            self.talks[name] = without
        self._open_again({})

    def _open_again(self, pending: Changed) -> None:
        self._check(pending)
        self._worker = Worker(self.root)

    def _check(self, pending: Changed) -> None:
        """Look at everything that the store holds; what is ``pending`` may be as it was, or as it would be."""
        reindex = self._chance.random() < 0.1
        with Store.open(self.root, renderer=FileRenderer(), create=False, reindex=reindex) as store:
            there = held(store)
            if pending and all(there.get(name) == talk for name, talk in pending.items()):
                self._change(pending)
            assert there.keys() == self.talks.keys()
            for name, talk in self.talks.items():
                assert there[name] == talk, name
            assert [finding for finding in fsck(store) if finding.severity == "error"] == []

    def _change(self, changed: Changed) -> None:
        for name, talk in changed.items():
            if talk is None:
                self.talks.pop(name, None)
            else:
                self.talks[name] = talk

    def _after(self, step: Step) -> Changed:
        if not step.name:
            return {}
        return {step.other if step.what == "fork" else step.name: expected.after(self.talks.get(step.name), step)}

    # -- choosing --------------------------------------------------------------------------------------------------

    def _choose(self) -> Step:
        weights = dict(self._kinds())
        while True:
            (make,) = self._chance.choices(list(weights), list(weights.values()))
            if (step := make()) is not None:
                return step

    def _kinds(self) -> list[tuple[Callable[[], Step | None], int]]:
        return [
            (self._create, 6),
            (lambda: self._to_talk("append", texts=self._chance.randint(1, 5)), 24),
            (lambda: self._to_talk("stream", texts=1), 4),
            (lambda: self._to_event("branch", texts=1), 5),
            (lambda: self._to_event("edit", texts=1), 14),
            (lambda: self._to_event("remove"), 4),
            (self._restore, 3),
            (self._fork, 5),
            (self._title, 2),
            (lambda: self._to_talk("trash"), 3),
            (lambda: self._to_talk("bring back", trashed=True), 2),
            (lambda: self._to_talk("artifact", texts=1, other="bash"), 4),
            (self._prune, 5),
            (lambda: self._to_talk("delete", trashed=self._chance.random() < 0.5), 2 + 6 * self._is_full),
            (lambda: Step("blob", texts=(self._text(),)), 2),
            (self._redact, 1),
            (lambda: self._whole("flush"), 2),
            (lambda: self._whole("seal"), 3),
            (lambda: self._whole("collect"), 4),
        ]

    @property
    def _is_full(self) -> bool:
        return len(self.talks) > _MOST_TALKS

    def _redact(self) -> Step | None:
        # one that nobody has any more will do as well
        return Step("redact", texts=(self._chance.choice(self._secrets[-9:]),)) if self._secrets else None

    def _whole(self, what: str) -> Step:
        return Step(what, other=self._chance.choice(["", "meanwhile"]))

    def _new_name(self) -> str:
        self._names += 1
        return f"talk-{self._names}"

    def _create(self) -> Step | None:
        return None if self._is_full else Step("create", self._new_name())

    def _talk(self, *, trashed: bool = False) -> str:
        names = sorted(name for name, talk in self.talks.items() if talk.trashed == trashed)
        return self._chance.choice(names) if names else ""

    def _to_talk(self, what: str, *, texts: int = 0, other: str = "", trashed: bool = False) -> Step | None:
        name = self._talk(trashed=trashed)
        return Step(what, name, texts=tuple(self._text() for _ in range(texts)), other=other) if name else None

    def _title(self) -> Step | None:
        name = self._talk()
        return Step("title", name, texts=(self._text()[:100],)) if name else None

    def _to_event(self, what: str, *, texts: int = 0) -> Step | None:
        name = self._talk()
        events = self.talks[name].events if name else ()
        there = [number for number, text in enumerate(events, 1) if text != expected.DELETED]
        if what == "branch":
            # to go on behind the last one is no branch
            there = [number for number in there if number < len(events)]
        if not there:
            return None
        return Step(what, name, self._chance.choice(there), tuple(self._text() for _ in range(texts)))

    def _restore(self) -> Step | None:
        name = self._talk()
        talk = self.talks[name] if name else Talk()
        # to go back to what is there makes no version
        others = [number for number, events in talk.versions.items() if events != talk.events]
        return Step("restore", name, self._chance.choice(others)) if others else None

    def _fork(self) -> Step | None:
        name = self._talk()
        if not name or self._is_full or not self.talks[name].events:
            return None
        return Step("fork", name, self._chance.randint(1, len(self.talks[name].events)), other=self._new_name())

    def _prune(self) -> Step | None:
        name = self._talk()
        talk = self.talks[name] if name else Talk()
        later = [number for number in talk.versions if number > min(talk.versions)]
        return Step("prune", name, self._chance.choice(later)) if later else None

    def _text(self) -> str:
        chance = self._chance
        if self._texts and chance.random() < 0.3:
            # what was there before, and perhaps is no more
            return chance.choice(self._texts[-200:])
        size = chance.choice([3, 30, 30, 200, 200, 400, 3000 if chance.random() < 0.5 else 12_000])
        text = " ".join(f"word{chance.getrandbits(14)}" for _ in range(size))
        if chance.random() < 0.05:
            self._secrets.append(f"key-{chance.getrandbits(96):024x}")
            text = f"{text[: len(text) // 2]}{self._secrets[-1]}{text[len(text) // 2 :]}"
        self._texts.append(text)
        return text


def prune(root: Path, name: str) -> None:
    """Have a conversation deleted for good by whoever holds the store, as ``convfs prune`` does."""
    doomed: list[Doomed] = []
    with Client.of(root) as client:
        shown = [talk.id for talk in client.conversations() if talk.name == name]
        # what is not shown is in the trash
        chosen = Selection("conversations", contexts=tuple(shown)) if shown else Selection("trash")
        client.call(prune_plan((chosen,)), doomed.extend)
        doomed = [one for one in doomed if one.name == name]
        assert client.call(prune_planned(tuple(doomed))).conversations == 1


@pytest.mark.timeout(0)
@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_a_store_holds_what_it_should(memory_path: Path, runtime_path: Path, edits: str) -> None:
    root = memory_path / "store"
    root.mkdir()
    (root / SETTINGS).write_text(f'edits = "{edits}"\nversion_seconds = 0\n')
    seed = random.randrange(1 << 30) if LARGE else 1
    print("seed", seed)
    Everything(root, seed).run(STEPS // 2)


@pytest.mark.timeout(0)
def test_a_store_and_its_copies_hold_what_is_their_own(memory_path: Path, runtime_path: Path) -> None:
    seed = random.randrange(1 << 30) if LARGE else 1
    print("seed", seed)
    chance = random.Random(seed)
    stores = [Everything(memory_path / "store", seed)]
    for number in range(1, 3):
        for _ in range(STEPS // 5):
            chance.choice(stores).step()
        stores.append(chance.choice(stores).copied(memory_path / f"copy-{number}", seed + number))
    for _ in range(STEPS // 5):
        chance.choice(stores).step()
    ids = set()
    for one in stores:
        one.end()
        with Store.open(one.root, create=False) as store:
            assert store.recovered == []
            ids.add(store.store_id)
    assert len(ids) == len(stores)
