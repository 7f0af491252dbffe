"""A mount while programs append over the socket: what they append is seen at once, however it is looked at."""

import os
import random
import select
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from store.service import address
from store.service.client import Client
from tests.fusefs.tree.mounting import PATIENCE, TYPE, Mounted, add, assistant, mounted, new_store, until, user

TALKS = 4
PROMISED_SECONDS = 0.05


def name_of(talk: int) -> str:
    return f"2026-03-05-talk-{talk}"


@pytest.fixture
def live(store_path: Path) -> Iterator[Mounted]:
    with new_store(store_path) as store:
        for talk in range(1, TALKS + 1):
            add(store, [user("first", 1), assistant("second", 2)], name=name_of(talk))
    with mounted(store_path, "serving") as here:
        yield here


def client_of(mount: Mounted) -> Client:
    path = address.noted_socket(mount.store)
    assert path is not None
    return Client(path)


def delay(condition: Callable[[], object]) -> float:
    """Return how many seconds pass until ``condition`` returns something true."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + PATIENCE, "it did not come about"
        time.sleep(0.001)
    return time.monotonic() - began


def talk_at(mount: Mounted, talk: int) -> Path:
    return mount.root / "conversations/project" / name_of(talk)


def transcript_at(mount: Mounted, talk: int) -> Path:
    return mount.root / "transcripts/project" / f"{name_of(talk)}.md"


def looks_at(mount: Mounted, talk: int, event: Path, held: BinaryIO) -> dict[str, Callable[[], object]]:
    """Return ways to look at a conversation, each of which shows something else when it goes on with ``event``."""
    directory, transcript = talk_at(mount, talk), transcript_at(mount, talk)
    return {
        "stat": lambda: transcript.stat().st_size,
        "ls": lambda: os.listdir(directory / "events"),
        "name": lambda: event.exists(),
        "events.json": lambda: (directory / "events.json").read_bytes(),
        "metadata.json": lambda: (directory / "metadata.json").read_bytes(),
        "transcript": lambda: transcript.read_bytes(),
        "time": lambda: (directory / "events").stat().st_mtime_ns,
        "held open": lambda: os.pread(held.fileno(), 1 << 20, 0),
    }


def test_an_append_is_seen_wherever_one_looks(live: Mounted) -> None:
    """All has been looked at before, so the kernel has it, and would keep it for an hour; some is held open."""
    delays: dict[str, list[float]] = {}
    rng = random.Random(1)
    talks = range(1, TALKS + 1)
    with client_of(live) as client, ExitStack() as stack:
        held = {talk: stack.enter_context(transcript_at(live, talk).open("rb")) for talk in talks}
        for turn in range(10):
            for talk in talks:
                event = talk_at(live, talk) / "events" / f"{turn + 3:05}-user.md"
                looks = looks_at(live, talk, event, held[talk])
                before = {name: look() for name, look in looks.items()}
                client.append(talk, user(f"turn {turn} of {talk}", turn + 3).encode(), TYPE)
                began = time.monotonic()
                # in another order each time: those that come later have had more time
                for name in rng.sample(list(looks), len(looks)):
                    delay(partial(differs, looks[name], before[name]))
                    delays.setdefault(name, []).append(time.monotonic() - began)
                transcript = transcript_at(live, talk)
                assert f"turn {turn} of {talk}\n" in event.read_text()
                assert transcript.read_text().endswith(f"turn {turn} of {talk}\n")
                assert transcript.stat().st_size == len(transcript.read_bytes())
    medians = {name: statistics.median(some) for name, some in delays.items()}
    assert {name: median for name, median in medians.items() if median > PROMISED_SECONDS} == {}


def differs(look: Callable[[], object], before: object) -> bool:
    return look() != before


class Following:
    """A ``tail`` that follows a file from its beginning, and when what it said came."""

    def __init__(self, tail: "subprocess.Popen[bytes]") -> None:
        assert tail.stdout is not None
        self._out = tail.stdout.fileno()
        self._ended = threading.Event()
        self.text = b""
        self.came: list[tuple[float, int]] = []
        """When there was how much."""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.is_set():
            if select.select([self._out], [], [], 0.1)[0]:
                self.text += os.read(self._out, 1 << 16)
                self.came.append((time.monotonic(), len(self.text)))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def has_said_all_of(self, path: Path) -> bool:
        return len(self.text) >= path.stat().st_size

    def said_at(self, text: bytes) -> float:
        """Return when it had said ``text``."""
        end = self.text.index(text) + len(text)
        return next(at for at, length in self.came if length >= end)


@contextmanager
def following(path: Path, how: str) -> Iterator[Following]:
    with subprocess.Popen(["tail", "-c", "+1", "-s", "0.02", how, str(path)], stdout=subprocess.PIPE) as tail:
        here = Following(tail)
        try:
            yield here
        finally:
            here.end()
            tail.kill()


def test_tail_follows_transcripts_while_many_append(live: Mounted) -> None:
    """Nothing comes twice, nothing is missing, and it comes at once: with both ways to follow, of several at once."""
    acknowledged: dict[bytes, float] = {}
    count = 25

    def append(talk: int) -> None:
        with client_of(live) as client:
            for turn in range(count):
                said = f"this is turn {turn} of talk {talk}, {'and so on ' * (turn % 30)}end\n"
                client.append(talk, user(said.rstrip("\n"), turn + 3).encode(), TYPE)
                acknowledged[said.encode()] = time.monotonic()
                time.sleep(0.04)

    with ExitStack() as stack:
        tails = [
            (talk, stack.enter_context(following(transcript_at(live, talk), how)))
            for talk in range(1, TALKS + 1)
            for how in ("-f", "-F")
        ]
        threads = [threading.Thread(target=append, args=(talk,)) for talk in range(1, TALKS + 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(acknowledged) == TALKS * count
        for talk, tail in tails:
            until(partial(tail.has_said_all_of, transcript_at(live, talk)))
    delays = []
    for talk, tail in tails:
        assert tail.text == transcript_at(live, talk).read_bytes()
        for said, at in acknowledged.items():
            if f" of talk {talk}," in said.decode():
                delays.append(tail.said_at(said) - at)
    # eight tails that look fifty times a second, each of which reads what is new, take their part of the machine
    assert statistics.median(delays) < 20 * PROMISED_SECONDS


def test_patches_and_forks_by_others_are_seen(live: Mounted) -> None:
    delays = []
    events, transcript = talk_at(live, 1) / "events", transcript_at(live, 1)
    project, forks = live.root / "conversations/project", talk_at(live, 2) / "forks"
    with client_of(live) as client:
        first = client.last(1, 2)[0].turn_id
        for number in range(10):
            looks = [(events / "00001-user.md").read_bytes, transcript.read_bytes]
            before = [look() for look in looks]
            client.patch(1, {first: user(f"patched for the {number}th time", 1).encode()})
            delays += [delay(partial(differs, look, was)) for look, was in zip(looks, before, strict=True)]
            assert transcript.read_text().count(f"patched for the {number}th time\n") == 1
        for number in range(10):
            listings = [partial(os.listdir, project), partial(os.listdir, forks)]
            listed = [look() for look in listings]
            client.fork(2, metadata={"project": "project", "name": f"fork-{number}"})
            delays += [delay(partial(differs, look, was)) for look, was in zip(listings, listed, strict=True)]
            assert "second" in (project / f"fork-{number}" / "events" / "00002-assistant.md").read_text()
    assert statistics.median(delays) < PROMISED_SECONDS


def test_new_conversations_and_projects_are_seen(live: Mounted) -> None:
    delays = []
    conversations = live.root / "conversations"
    with client_of(live) as client:
        for number in range(10):
            talk = conversations / f"project-{number}" / "talk"
            before = os.listdir(conversations)
            assert not talk.exists()
            context = client.create_context(metadata={"project": f"project-{number}", "name": "talk"}).context
            client.append(context, user("begin", 1).encode(), TYPE)
            delays.append(delay(partial(differs, partial(os.listdir, conversations), before)))
            delays.append(delay((talk / "events" / "00001-user.md").exists))
            assert (live.root / f"transcripts/project-{number}/talk.md").read_text().endswith("begin\n")
    assert statistics.median(delays) < PROMISED_SECONDS


def test_what_was_only_listed_is_not_found_by_the_name_that_it_had(live: Mounted) -> None:
    """The kernel was told of the names with the listing, and would keep them for an hour."""
    delays = []
    listed = live.run("ls", "-l", "conversations/project", "transcripts/project").stdout
    assert all(listed.count(name_of(talk)) == 2 for talk in range(1, TALKS + 1))
    with client_of(live) as client:
        client.set_metadata(2, {"name": "another"})
        client.set_metadata(3, {"project": "elsewhere"})
        for talk in (2, 3):
            delays += [delay(partial(is_gone, see(live, talk))) for see in (talk_at, transcript_at)]
    assert statistics.median(delays) < PROMISED_SECONDS
    assert os.listdir(live.root / "conversations/elsewhere") == [name_of(3)]
    assert sorted(os.listdir(live.root / "transcripts/project"))[2:] == ["another.md"]
    assert (live.root / "conversations/project/another/events/00001-user.md").read_text().endswith("first\n")


def test_what_could_not_be_followed_is_not_shown_as_it_was(live: Mounted) -> None:
    listed = live.run("ls", "-l", "conversations/project", "transcripts/project").stdout
    assert all(listed.count(name_of(talk)) == 2 for talk in range(1, TALKS + 1))
    live.tell(unfollowed=True)
    with client_of(live) as client:
        client.set_metadata(2, {"name": "another"})
    until(lambda: not talk_at(live, 2).exists())
    until(lambda: not transcript_at(live, 2).exists())
    assert "another" in os.listdir(live.root / "conversations/project")
    assert "KeyError: 'started_by'" in live.messages.read_text()


def is_gone(path: Path) -> bool:
    return not path.exists()
