"""Packing in a process of its own: what comes of it is what comes of packing here, whatever happens to the process."""

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from store.content import zstd
from store.content.compression import Member
from store.content.sealed import LEVEL, GroupSealer
from store.disk.blob_format import Form
from store.errors import DamageError
from store.ids import hash_bytes
from store.upkeep import press
from store.upkeep.press import Press

Result = TypeVar("Result")
TEXT = "".join(f"{number}: what a tool returned, and {number * number} more\n" for number in range(4000)).encode()


def done(steps: Generator[int, None, Result]) -> tuple[int, Result]:
    """Return the sum of what is yielded, and the result."""
    total = 0
    while True:
        try:
            total += next(steps)
        except StopIteration as end:
            result: Result = end.value
            return total, result


def group(*bodies: bytes) -> GroupSealer:
    made = GroupSealer()
    for body in bodies:
        made.add_record(Member(hash_bytes(body), Form.PLAIN, len(body), body))
    return made


@pytest.fixture(name="pressing")
def _pressing() -> Iterator[Press]:
    made = Press()
    yield made
    made.close()


@pytest.fixture(name="processes", autouse=True)
def _processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(press, "processes", lambda: 2)
    # what is larger takes a second a time
    monkeypatch.setattr(press, "_WORTH_BYTES", 100_000)


def children() -> list[int]:
    """Return the processes that this one has started and that have not ended."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def test_a_group_is_as_it_is_made_here(pressing: Press) -> None:
    before = children()
    for _again in range(2):
        assert done(pressing.group(group(TEXT, b"short"))) == done(group(TEXT, b"short").finish())
    assert len(children()) == len(before) + 1
    pressing.close()
    assert children() == before


def test_a_body_is_as_it_is_made_here(pressing: Press) -> None:
    assert done(pressing.frame(TEXT)) == done(zstd.compress_in_steps([TEXT], LEVEL))


def test_what_is_small_needs_no_process(pressing: Press) -> None:
    before = children()
    assert done(pressing.group(group(b"short"))) == done(group(b"short").finish())
    assert zstd.decompress(done(pressing.frame(b"short"))[1], 5) == b"short"
    assert children() == before


def test_on_one_core_it_is_done_here(pressing: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(press, "processes", lambda: 0)
    before = children()
    assert done(pressing.frame(TEXT)) == done(zstd.compress_in_steps([TEXT], LEVEL))
    assert children() == before


def test_damage_is_told(pressing: Press) -> None:
    damaged = GroupSealer()
    damaged.add_record(Member(hash_bytes(b"other"), Form.PLAIN, len(TEXT), TEXT))
    with pytest.raises(DamageError, match="do not have its hash"):
        done(pressing.group(damaged))


def test_a_process_that_is_killed_is_done_without(pressing: Press) -> None:
    before = children()
    steps = pressing.group(group(TEXT))
    next(steps)
    [pid] = [pid for pid in children() if pid not in before]
    os.kill(pid, signal.SIGKILL)
    assert done(steps)[1] == done(group(TEXT).finish())[1]
    assert done(pressing.frame(TEXT))[1] == done(zstd.compress_in_steps([TEXT], LEVEL))[1]


def test_one_that_is_abandoned_ends_at_once() -> None:
    before = children()
    made = Press()
    next(made.group(group(TEXT)))
    made.close()
    assert children() == before
