"""A mount beside a service that many use at once: it answers, and what it takes does not grow with what it is asked."""

import random
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.conversations.contexts import Append
from store.service import address
from store.service.client import Client
from tests.fusefs.tree.mounting import TYPE, Mounted, mounted, new_store, user

CONNECTIONS = 40
CONVERSATIONS = 10
SECONDS = 4.0
LS_SECONDS = 1.0
"""As long may ``ls`` take, ten times what it should: whoever asks for so much is on this machine, too."""
MOST_GROWTH = 16 << 20


@pytest.fixture
def busy(store_path: Path) -> Iterator[Mounted]:
    """Mount long conversations of which no two turns lie together."""
    with new_store(store_path) as store:
        names = ({"project": "project", "name": f"talk-{number}"} for number in range(CONVERSATIONS))
        contexts = [store.contexts.create(metadata=dict(name)).context for name in names]
        for number in range(500):
            requests = [
                store.contexts.appending(context, Append(user(str(number)).encode(), TYPE)) for context in contexts
            ]
            store.writer.submit_all([request for request in requests if request is not None])
        # what is decompressed is kept up to this
        (store_path / "convfs.toml").write_text(f"content_cache_bytes = {1 << 20}\n")
    with mounted(store_path, "serving") as here:
        yield here


def work(path: Path, seed: int, until: float, failures: list[BaseException], done: list[int]) -> None:
    rng = random.Random(seed)
    try:
        with Client(path) as client:
            context = seed % CONVERSATIONS + 1
            while time.monotonic() < until:
                match rng.randrange(5):
                    case 0 | 1:
                        client.append(context, user(rng.randbytes(rng.randrange(1, 2000)).hex()).encode(), TYPE)
                    case 2:
                        assert len(client.last(context, 64)) == 64
                    case 3:
                        assert client.head(context).depth >= 499
                    case 4:
                        assert len(client.range_by_depth(context, 0, 16)) == 16
                done.append(seed)
                time.sleep(rng.random() / 10)
    except BaseException as error:
        failures.append(error)


def memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^VmRSS:\s+([0-9]+) kB$", status, re.MULTILINE)[0]) << 10


def load(mount: Mounted, seconds: float) -> tuple[list[float], int]:
    """Load the service for a while; return what ``ls`` took meanwhile, and how much was asked for."""
    path = address.noted_socket(mount.store)
    assert path is not None
    failures: list[BaseException] = []
    done: list[int] = []
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=work, args=(path, seed, until, failures, done)) for seed in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    took = []
    while time.monotonic() < until:
        for directory in ("conversations/project", "transcripts/project", "conversations/project/talk-3/events"):
            began = time.monotonic()
            subprocess.run(["ls", "-l", mount.root / directory], stdout=subprocess.DEVNULL, check=True, timeout=60)
            took.append(time.monotonic() - began)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return took, len(done)


def test_a_mount_answers_beside_a_busy_service(busy: Mounted) -> None:
    """It has looked at all of it before: what is new is all that it costs."""
    load(busy, SECONDS / 4)
    before = memory(busy.daemon.pid)
    took, requests = load(busy, SECONDS)
    assert requests > CONNECTIONS
    assert sorted(took)[len(took) // 2] < LS_SECONDS
    assert max(took) < SECONDS
    assert memory(busy.daemon.pid) - before < MOST_GROWTH
