"""The process that packs full journals: it makes what is packed beside the commits, and is missed by nobody."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from store.commit import checkpointer, packer
from store.commit.intake import Intake
from store.content.sealed import names_of
from store.conversations.contexts import Append
from store.disk.blob_format import Record
from store.errors import StoreFailed, StoreFull
from store.ids import Hash
from store.store import Store
from tests.model import findings


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every journal packed by the process, however small it is."""
    monkeypatch.setattr(packer, "worth", lambda _size: True)


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store") as opened:
        yield opened
        opened.checkpointer.flush()
        assert findings(opened) == []


def records(first: int, count: int) -> list[bytes]:
    """Return records with contents of all sizes; each third has the same, each fifth almost that of an earlier one."""
    made = []
    for number in range(first, first + count):
        source = random.Random(3 if number % 3 == 0 else number)
        text = " ".join(source.choices(("alpha", "beta", "gamma", "delta é", "→"), k=1 << source.randrange(4, 14)))
        if number % 5 == 0:
            text = " ".join(random.Random(5).choices(("one", "two", "three"), k=8000)) + str(number)
        made.append(json.dumps({"n": number, "content": text, "more": text[:2000]}, ensure_ascii=False).encode())
    return [*made, b"", b"\xff\x00 no JSON %d" % first]


def append(store: Store, first: int, count: int = 40) -> dict[int, bytes]:
    context = store.contexts.create().context
    payloads = records(first, count)
    turns = store.contexts.append_many(context, [Append(payload, "x.v1") for payload in payloads])
    return dict(zip([turn.turn_id for turn in turns], payloads, strict=True))


def test_what_it_packs_comes_back_and_is_stored_once(store: Store) -> None:
    told = append(store, 0)
    store.checkpointer.flush()
    assert store.checkpointer._packer is not None
    assert not store.files.pending
    size = store.files.packs.end[1]
    # nothing of it is new
    told |= append(store, 0)
    store.checkpointer.flush()
    assert store.files.packs.end[1] == size
    told |= append(store, 1000)
    store.checkpointer.flush()
    assert dict(store.contents.payloads(list(told))) == told


def test_the_same_is_packed_with_it_and_without(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[list[bytes]] = []
    for helped in (True, False):
        monkeypatch.setattr(packer, "worth", lambda _size, helped=helped: helped)
        with Store.open(memory_path / f"store-{helped}") as store:
            append(store, 0)
            store.checkpointer.flush()
            assert (store.checkpointer._packer is not None) == helped
            found = store.files.packs.scan()
            held.append(sorted(name for *_at, one in found if isinstance(one, Record) for name in names_of(one)))
    assert held[0] == held[1]


@pytest.mark.logs("packed without a process of its own: it has ended")
def test_if_it_ends_the_rest_is_packed_without_it(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    told = append(store, 0)
    store.checkpointer.flush()
    assert store.checkpointer._packer is not None
    store.checkpointer._packer._process.kill()
    told |= append(store, 100)
    store.checkpointer.flush()
    assert not store.files.pending
    assert "without a process of its own: it has ended" in caplog.text
    # and the next has one again
    told |= append(store, 200)
    store.checkpointer.flush()
    assert store.checkpointer._packer is not None
    assert dict(store.contents.payloads(list(told))) == told


@pytest.mark.logs("packed without a process of its own: it has ended")
def test_if_it_ends_with_some_in_hand_these_are_packed_without_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer, "_HELPED_SLICE_BYTES", 20_000)
    real, had = packer.Packer.pack, list[int]()

    def pack(self: packer.Packer, parts: Sequence[packer.Part], dictionary: tuple[Hash, bytes] | None) -> None:
        real(self, parts, dictionary)
        had.append(len(parts))
        if len(had) == 3:
            self._process.kill()
            self._process.wait()

    monkeypatch.setattr(packer.Packer, "pack", pack)
    told = append(store, 0)
    store.checkpointer.flush()
    assert len(had) == 3
    assert not store.files.pending
    assert dict(store.contents.payloads(list(told))) == told


@pytest.mark.logs("waits in the journal: no room|there is room again")
def test_what_it_did_for_an_attempt_that_failed_is_not_taken_for_another(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer, "_HELPED_SLICE_BYTES", 20_000)
    monkeypatch.setattr(checkpointer, "_RETRY_SECONDS", 0.01)
    told = append(store, 0)
    real, calls = Intake.write, list[int]()

    def write(*given: Any, **named: Any) -> None:  # noqa: ANN401  (passed on)
        calls.append(1)
        if len(calls) == 4:
            raise StoreFull("no room")
        real(*given, **named)

    monkeypatch.setattr(Intake, "write", write)
    with pytest.raises(StoreFull):
        store.checkpointer.flush()
    store.checkpointer.flush()
    assert not store.files.pending
    assert dict(store.contents.payloads(list(told))) == told


@pytest.mark.logs("packed without a process of its own: .*No such file")
def test_if_it_cannot_be_started_all_is_packed_without_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packer.sys, "executable", "/nowhere")
    told = append(store, 0)
    store.checkpointer.flush()
    assert store.checkpointer._packer is None
    assert not store.files.pending
    assert dict(store.contents.payloads(list(told))) == told


def test_it_ends_when_nothing_comes_any_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointer, "_REST_SECONDS", 0.05)
    append(store, 0)
    store.checkpointer.flush()
    assert store.checkpointer._packer is not None
    process = store.checkpointer._packer._process
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is not None
    assert store.checkpointer._packer is None


def test_what_a_journal_does_not_hold_any_more_is_not_packed(memory_path: Path) -> None:
    store = Store.open(memory_path / "store")
    payload = b"x" * 5000
    context = store.contexts.create().context
    store.contexts.append(context, payload, "x.v1")
    for path in (memory_path / "store" / "journal").glob("[0-9]*"):
        path.write_bytes(path.read_bytes().replace(payload, b"y" * 5000))
    with pytest.raises(StoreFailed, match="the journal does not hold any more"):
        store.checkpointer.flush()
    with pytest.raises(StoreFailed):
        store.close()
