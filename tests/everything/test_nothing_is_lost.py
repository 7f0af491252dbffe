"""A store in use in every way, by a process that is killed again and again: it holds what it should, each time.

Steps are chosen at random, from a seed. What the process was at when it was killed has been done or it has not.
``CONVFS_LARGE_TESTS`` makes it 10,000 steps.
"""

from __future__ import annotations

import os
import random
import select
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fusefs.text.render import FileRenderer
from store.redaction.spellings import MARK
from store.settings import FILE_NAME
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
"""What became of conversations; None: they are not there."""


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

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.talks: dict[str, Talk] = {}
        self.done: list[Step] = []
        self._chance = random.Random(seed)
        self._names = 0
        self._texts: list[str] = []
        self._secrets: list[str] = []
        self._worker = Worker(root)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self._choose()
            self.done.append(step)
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
        assert self._worker.end(kill=False) == "closed"
        self._check({})

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
        weights = {make: weight for make, weight in self._kinds()}
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


@pytest.mark.timeout(0)
@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_a_store_holds_what_it_should(memory_path: Path, edits: str) -> None:
    root = memory_path / "store"
    root.mkdir()
    (root / FILE_NAME).write_text(f'edits = "{edits}"\n')
    seed = random.randrange(1 << 30) if LARGE else 1
    print("seed", seed)
    Everything(root, seed).run(STEPS // 2)
