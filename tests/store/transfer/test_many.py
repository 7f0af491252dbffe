"""Files of many conversations, large contents, and what is lost on the way."""

import json
from pathlib import Path

import pytest

from store.commit.writer import Writer
from store.conversations.contexts import Append
from store.editing.keeper import Keeper
from store.errors import StoreFull, UsageError
from store.service.call import Holder
from store.service.exchange import Chosen, Transfer, offer, pack, put, take
from store.store import Store
from store.transfer import giver, taker
from store.transfer.parcel import Need, Piece, Position
from tests.store.importing.sessions import lines, session
from tests.store.transfer.stores import brought_in, carry, did, exported, only, payloads, talks

JSON = "application/json"


def claude_export(folder: Path) -> Path:
    """Write an export of claude.ai of two conversations."""
    def message(talk: str, number: int, sender: str) -> dict[str, object]:
        text = f"{talk} says {number}"
        return {
            "uuid": f"{talk}-{number}",
            "text": text,
            "content": [{"type": "text", "text": text}],
            "sender": sender,
            "created_at": f"2026-03-05T10:00:0{number}Z",
            "updated_at": f"2026-03-05T10:00:0{number}Z",
            "attachments": [],
            "files": [],
        }

    data = [
        {
            "uuid": talk,
            "name": f"About {talk}",
            "created_at": "2026-03-05T10:00:00Z",
            "updated_at": "2026-03-05T10:00:09Z",
            "account": {"uuid": "me"},
            "chat_messages": [message(talk, number, ("human", "assistant")[number % 2]) for number in range(3)],
        }
        for talk in ("bees", "trees")
    ]
    path = folder / "conversations.json"
    path.write_text(json.dumps(data, indent=1))
    return path


def test_conversations_of_one_file_come_along_and_are_exported_alike(
    laptop: Store, desktop: Store, tmp_path: Path
) -> None:
    brought_in(laptop, claude_export(tmp_path))
    assert len(talks(laptop)) == 2
    assert did(laptop, desktop) == ["described", "new", "new"]
    for name, here in talks(laptop).items():
        there = talks(desktop)[name]
        assert payloads(desktop, there) == payloads(laptop, here)
        assert exported(desktop, there, tmp_path / "there" / name) == exported(laptop, here, tmp_path / "here" / name)
    assert set(did(laptop, desktop)) == {"same"}
    assert set(did(desktop, laptop)) == {"same"}


@pytest.mark.parametrize("all_of_it", [True, False], ids=["all of it", "one of it"])
def test_a_file_that_is_here_as_well_is_the_one_that_came(
    laptop: Store, desktop: Store, tmp_path: Path, all_of_it: bool
) -> None:
    path = claude_export(tmp_path)
    brought_in(laptop, path)
    chosen = [] if all_of_it else [talks(laptop)["2026-03-05-about-bees"].id]
    carry(laptop, desktop, chosen)
    came = {talk.id for talk in talks(desktop).values()}
    brought_in(desktop, path)
    assert len(talks(desktop)) == 2
    assert came <= {talk.id for talk in talks(desktop).values()}
    assert all(exported(desktop, talk, tmp_path / talk.name) for talk in talks(desktop).values())
    # and so it stays, also when something in it is another thing
    path.write_text(path.read_text().replace("trees says 2", "trees said 2"))
    brought_in(desktop, path)
    assert len(talks(desktop)) == 2
    assert b"trees said 2" in payloads(desktop, talks(desktop)["2026-03-05-about-trees"])[-1]
    assert {talk.source for talk in talks(desktop).values()} == {str(path)}


def test_one_of_a_file_comes_alone_and_another_later(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, claude_export(tmp_path))
    first, second = talks(laptop).values()
    carry(laptop, desktop, [first.id])
    # the file tells of the other one, too, so it stays behind
    there = only(desktop)
    assert payloads(desktop, there) == payloads(laptop, first)
    with pytest.raises(UsageError, match="import it again"):
        exported(desktop, there, tmp_path / "nothing")
    said = [str(desktop.catalogue.entry(context).metadata) for context in desktop.catalogue.ids()]
    assert not any(second.title in one for one in said)
    carry(laptop, desktop, [first.id, second.id])
    for name, here in talks(laptop).items():
        there = talks(desktop)[name]
        assert exported(desktop, there, tmp_path / "there" / name) == exported(laptop, here, tmp_path / "here" / name)


def test_large_contents_come_in_pieces(
    laptop: Store, desktop: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giver, "PIECE_BYTES", 10_000)
    path = session(tmp_path, lines("One", "".join(f"{number}, " for number in range(20_000))))
    beside = path.with_suffix("") / "tool-results" / "7.txt"
    beside.parent.mkdir(parents=True)
    beside.write_bytes(bytes(range(256)) * 400)
    brought_in(laptop, path.parent)
    assert did(laptop, desktop) == ["new"]
    assert payloads(desktop, only(desktop)) == payloads(laptop, only(laptop))
    assert exported(desktop, only(desktop), tmp_path / "out")[f"{path.stem}/tool-results/7.txt"] == beside.read_bytes()


def test_many_turns_are_more_than_one_request(
    laptop: Store, desktop: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desktop.writer, "turns_at_once", 7)
    path = session(tmp_path, lines(*map(str, range(50))))
    brought_in(laptop, path)
    assert did(laptop, desktop) == ["new"]
    assert payloads(desktop, only(desktop)) == payloads(laptop, only(laptop))
    with path.open("ab") as file:
        file.write(lines(*map(str, range(50, 90)), start=50))
    brought_in(laptop, path)
    assert did(laptop, desktop) == ["grown"]
    assert exported(desktop, only(desktop), tmp_path / "out") == {path.name: path.read_bytes()}


@pytest.mark.parametrize("after", range(8))
def test_what_is_interrupted_is_done_by_another_run(
    laptop: Store, desktop: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    for number in range(4):
        name = f"5c0375b4-57a5-4bd1-b1f3-0f4a1e3a5d0{number}"
        brought_in(laptop, session(tmp_path, lines(f"One {number}", f"Two {number}" * 300), name))
    submit, count = Writer.submit_all, 0

    def failing(self: Writer, requests: list[object]) -> None:
        nonlocal count
        if self is desktop.writer:
            count += 1
            if count > after:
                raise StoreFull("no room")
        submit(self, requests)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "submit_all", failing)
        try:
            carry(laptop, desktop)
        except StoreFull:
            assert after < 4
    assert set(did(laptop, desktop)) <= {"new", "same"}
    assert len(talks(desktop)) == 4
    assert did(laptop, desktop) == ["same"] * 4


def test_contents_that_were_collected_meanwhile_are_asked_for_again(laptop: Store, desktop: Store) -> None:
    context = Keeper(laptop).create("p", "talk").context
    laptop.contexts.append_many(context, [Append(b'{"text":"' + b"x" * 5000 + b'"}', JSON)])
    parcels = Holder(laptop).call(pack([Need(context)]))
    # nothing was put
    [outcome] = Holder(desktop).call(take(parcels))
    assert outcome.what == "wanted"
    assert len(outcome.wanted) == 1
    assert talks(desktop) == {}
    assert did(laptop, desktop) == ["new"]


def test_contents_that_are_not_what_they_are_called_are_refused(desktop: Store) -> None:
    with pytest.raises(UsageError, match="something else"):
        Holder(desktop).call(put([Piece(bytes(32), b"data", 0, 4, True)]))


def test_only_what_has_changed_is_looked_at(laptop: Store, desktop: Store) -> None:
    contexts = [Keeper(laptop).create("p", f"talk {number}").context for number in range(5)]
    laptop.contexts.append(contexts[1], b'{"text":"a"}', JSON)
    here = giver.position(laptop)
    assert Holder(laptop).call(offer(since=here)) == []
    laptop.contexts.append(contexts[3], b'{"text":"b"}', JSON)
    assert [one.context for one in Holder(laptop).call(offer(since=here))] == [contexts[3]]
    assert len(Holder(laptop).call(offer())) == 5
    # a position that this store has never been at
    beyond = Position(here.seq + 1000, here.length + 100_000)
    assert len(Holder(laptop).call(offer(since=beyond))) == 5
    transfer = Transfer(Holder(laptop), Holder(desktop))
    assert [one.what for one in transfer.run(transfer.offers(Chosen((contexts[3],))))] == ["new"]
    assert taker.wanted(desktop, [laptop.turns.get(2).payload_hash]) == []
