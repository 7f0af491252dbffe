"""Sessions that copy another's beginning share its turns, and come back byte for byte."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.formats import registry
from store.formats.core.format import Source
from store.formats.core.look import Look
from store.importing.likeness import Copied
from store.importing.provenance import read_files
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.formats.chat_lines import ChatLines, ChatLinesLens
from tests.store.importing.parted_formats import know
from tests.store.importing.sessions import by_source, imported, native

TYPE = ChatLinesLens.type_name


class Copying(ChatLines):
    """Chat lines of which a copy has other times, and says whose copy it is."""

    volatile = frozenset(("at", "copied"))

    def claim(self, look: Look) -> Source | None:
        """Claim any file by its name."""
        return Source(self.name, look.path, look.path) if look.path.suffix == ".chatlines" else None


@pytest.fixture(autouse=True, scope="module")
def _formats() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_FAMILIES", ())
        patch.setitem(registry._TEXT_LENSES, TYPE, ChatLinesLens())
        know(patch, Copying())
        yield


def head(title: str = "Fix the login") -> bytes:
    """Return the line that introduces a session, which nobody sees as an event."""
    return json.dumps({"chatlines": 1, "title": title, "project": "shop", "at": "2026-03-05T19:31:54Z"}).encode()


def said(number: int, second: int = 0, **more: object) -> bytes:
    """Return a line; ``second`` is when it was written."""
    key = f"{number:08d}-57a5-4bd1-b1f3-0f4a1e3a5d00"
    line = {"at": f"2026-03-05T20:00:{second:02}Z", "from": "user", "text": f"Line {number}", "key": key}
    return json.dumps(line | more).encode()


def copy(record: bytes, second: int = 30) -> bytes:
    """Return a line as a copy has it."""
    line = json.loads(record)
    copied = {"copied": {"from": "the other one", "key": line.get("key")}}
    return json.dumps(line | {"at": f"2026-03-06T20:00:{second:02}Z"} | copied).encode()


def lines(*records: bytes) -> bytes:
    return b"".join(record + b"\n" for record in records)


def write(folder: Path, name: str, *records: bytes) -> Path:
    path = folder / f"{name}.chatlines"
    path.write_bytes(lines(*records))
    return path


def turns(store: Store, path: Path) -> list[int]:
    runs = store.records.runs(by_source(store, path).head)
    return [turn for first, count in runs for turn in range(first, first + count)]


TALK = [said(number) for number in range(10)]


def test_a_later_checkpoint_shares_the_turns_of_an_earlier_one(store: Store, tmp_path: Path) -> None:
    one = write(tmp_path, "a", head(), *TALK[:6])
    two = write(tmp_path, "b", head(), *TALK)
    report = imported(store, one, two)
    assert (report.imported, report.records) == (2, 11)
    assert turns(store, two)[:7] == turns(store, one)
    assert "copied" not in by_source(store, two).metadata
    assert (native(store, one), native(store, two)) == (one.read_bytes(), two.read_bytes())
    # and one that is a part of another takes nothing
    three = write(tmp_path, "c", head(), *TALK[:4])
    assert imported(store, three).records == 0
    assert turns(store, three) == turns(store, two)[:5]
    assert native(store, three) == three.read_bytes()
    assert by_source(store, three).events == 4


def test_copies_that_say_some_members_anew_share_turns(store: Store, tmp_path: Path) -> None:
    one = write(tmp_path, "a", head(), *TALK)
    two = write(tmp_path, "b", *map(copy, (head(), *TALK[:8])), said(20), said(21))
    report = imported(store, one, two)
    assert report.records == 13
    assert turns(store, two)[:9] == turns(store, one)[:9]
    assert (native(store, one), native(store, two)) == (one.read_bytes(), two.read_bytes())
    assert by_source(store, two).metadata["copied"]["records"] == 9  # type: ignore[index]


@pytest.mark.parametrize("keeps_its_own", [True, False])
def test_a_copy_may_begin_with_a_record_of_its_own(store: Store, tmp_path: Path, keeps_its_own: bool) -> None:
    one = write(tmp_path, "a", head(), *TALK)
    other = (copy(head()),) if keeps_its_own else ()
    two = write(tmp_path, "b", head("A copy"), *other, *map(copy, TALK[:8]), said(20), said(21))
    assert imported(store, one, two).records == 14
    there = turns(store, two)
    # what is shared comes first: all that is read of it is in its order
    assert there[:9] == turns(store, one)[:9]
    assert len(there) == 12
    assert native(store, two) == two.read_bytes()
    conversation = by_source(store, two)
    assert conversation.title == "A copy"
    assert conversation.events == 10
    assert imported(store, two).unchanged == 1
    # what comes later goes on behind it, and the title is still its own
    content = two.read_bytes() + lines(said(22))
    two.write_bytes(content)
    assert imported(store, two).records == 1
    assert native(store, two) == content
    assert by_source(store, two).title == "A copy"


def test_what_people_see_keeps_its_place(store: Store, tmp_path: Path) -> None:
    one = write(tmp_path, "a", head(), *TALK)
    # the second record is no bookkeeping
    two = write(tmp_path, "b", head("A copy"), said(50), *map(copy, TALK[:8]))
    assert imported(store, one, two).records == 21
    assert native(store, two) == two.read_bytes()


def test_edits_of_either_are_its_own(store: Store, tmp_path: Path) -> None:
    one = write(tmp_path, "a", head(), *TALK)
    two = write(tmp_path, "b", head("A copy"), copy(head()), *map(copy, TALK[:8]), said(20), said(21))
    imported(store, one, two)
    editor = Editor(store)
    # record 3 of both is the second line
    editor.edit(by_source(store, two).id, {3: TALK[1].replace(b"Line 1", b"LINE 1")})
    assert native(store, one) == one.read_bytes()
    assert native(store, two) == two.read_bytes().replace(b'Line 1"', b'LINE 1"')
    editor.edit(by_source(store, one).id, {4: TALK[2].replace(b"Line 2", b"Zeile 2")})
    assert native(store, one) == one.read_bytes().replace(b'Line 2"', b'Zeile 2"')
    assert native(store, two) == two.read_bytes().replace(b'Line 1"', b'LINE 1"')
    # deleting the sixth line, and adding one
    editor.edit(by_source(store, two).id, {7: DELETED})
    editor.append(by_source(store, two).id, [Append(said(30), TYPE)])
    expected = two.read_bytes().replace(b'Line 1"', b'LINE 1"').replace(lines(copy(TALK[5])), b"")
    assert native(store, two) == expected + lines(said(30))
    # and what comes by the next import is brought into that
    two.write_bytes(two.read_bytes() + lines(said(22)))
    imported(store, two)
    assert native(store, two) == expected + lines(said(30), said(22))


def test_what_is_added_behind_what_is_shared_stands_there(store: Store, tmp_path: Path) -> None:
    one = write(tmp_path, "a", head(), *TALK[:8])
    two = write(tmp_path, "b", head("A copy"), copy(head()), *map(copy, TALK[:8]))
    imported(store, one, two)
    Editor(store).append(by_source(store, two).id, [Append(said(30), TYPE)])
    assert native(store, two) == two.read_bytes() + lines(said(30))


def test_a_fork_of_a_copy(store: Store, tmp_path: Path) -> None:
    from tests.store.importing.sessions import exported

    one = write(tmp_path, "a", head(), *TALK)
    two = write(tmp_path, "b", head("A copy"), copy(head()), *map(copy, TALK[:8]), said(20))
    imported(store, one, two)
    editor = Editor(store)
    fork = editor.fork(by_source(store, two).id, "aside")
    editor.append(fork.context, [Append(said(31), TYPE)])
    with exported(store, store.library.conversation(fork.context)) as files:
        assert files == {"aside.chatlines": two.read_bytes() + lines(said(31))}
    early = editor.fork(by_source(store, two).id, "early", at=4)
    with exported(store, store.library.conversation(early.context)) as files:
        assert files == {"early.chatlines": lines(*map(copy, (head(), *TALK[:3])))}


@pytest.mark.parametrize("first", [(), (head("A copy"),)])
def test_a_copy_whose_beginning_is_written_anew(store: Store, tmp_path: Path, first: tuple[bytes, ...]) -> None:
    one = write(tmp_path, "a", head(), *TALK)
    records = [*first, *map(copy, (head(), *TALK[:8])), said(20)]
    two = write(tmp_path, "b", *records)
    imported(store, one, two)
    for changed in (
        [*records[:5], said(77), *records[6:]],
        records[:6],
        [*records[:2], *records[4:]],
        [],
        records,
        [*records, said(21)],
    ):
        two.write_bytes(lines(*changed))
        imported(store, two)
        assert native(store, two) == two.read_bytes()
        assert native(store, one) == one.read_bytes()
        assert fsck(store) == []


def test_a_copy_without_the_head_of_the_other_grows_otherwise(store: Store, tmp_path: Path) -> None:
    one = write(tmp_path, "a", head(), *TALK[:4])
    two = write(tmp_path, "b", *TALK[:4], said(20))
    imported(store, one, two)
    assert by_source(store, two).metadata["copied"] == {"records": 5, "left_out": 1}
    write(tmp_path, "b", *TALK[:4], said(70), said(20))
    assert imported(store, two).records == 2
    assert native(store, two) == two.read_bytes()


def test_a_copy_that_is_still_being_written(store: Store, tmp_path: Path) -> None:
    one = write(tmp_path, "a", head(), *TALK)
    whole = lines(head("A copy"), *map(copy, (head(), *TALK[:8])), said(20), said(21))
    two = tmp_path / "b.chatlines"
    imported(store, one)
    for size in (300, 900, 1500, len(whole) - 150, len(whole) - 1, len(whole)):
        two.write_bytes(whole[:size])
        imported(store, two)
        assert native(store, two) == whole[:size]


def test_a_shared_record_that_is_damaged_is_not_shared(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = write(tmp_path, "a", head(), *TALK)
    imported(store, one)
    two = write(tmp_path, "b", *map(copy, (head(), *TALK)))
    monkeypatch.setattr(store.contents, "payloads", lambda _turns: iter(()))
    assert imported(store, two).records == 11


def test_a_very_large_record_is_shared_as_well(monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path) -> None:
    from store.conversations import viewer
    from store.importing import records

    monkeypatch.setattr(records, "MAX_CUT_BYTES", 2000)
    monkeypatch.setattr(viewer, "LARGEST_VIEWED", 2000)
    large, larger = said(50, text="x" * 3000), said(51, text="y" * 3000)
    one = write(tmp_path, "a", head(), *TALK[:6], large, *TALK[6:], larger)
    two = write(tmp_path, "b", head(), *map(copy, TALK[:6]), large, *map(copy, TALK[6:]), copy(larger), said(20))
    # what is too large to be looked into is a copy as it is, or none
    assert imported(store, one, two).records == 13 + 2
    assert turns(store, two)[:12] == turns(store, one)[:12]
    assert native(store, two) == two.read_bytes()


def test_a_fork_says_whose_it_is(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from store.formats.claude_code.session import ClaudeCode
    from tests.store.importing.sessions import SESSION, line, session

    know(monkeypatch, ClaudeCode())
    other = "5c0375b4-57a5-4bd1-b1f3-0f4a1e3a5d99"
    records = [line(f"Line {number}", number) for number in range(10)]
    copies = []
    for record in records[:6]:
        said_before = json.loads(record)
        source = {"sessionId": SESSION, "messageUuid": said_before["uuid"]}
        copies.append(json.dumps(said_before | {"sessionId": other, "forkedFrom": source}, ensure_ascii=False).encode())
    one = session(tmp_path, lines(*records))
    two = session(tmp_path, lines(*copies, line("Else", 6, sessionId=other)), other)
    assert imported(store, one, two).records == 11
    assert native(store, two) == two.read_bytes()
    parent = by_source(store, one)
    assert by_source(store, two).metadata["forked_from"] == {"context": parent.id, "turn": turns(store, one)[5]}
    assert [fork.id for fork in store.catalogue.forks(parent.id)] == [by_source(store, two).id]


EXAMPLES = 500 if "CONVFS_LARGE_TESTS" in os.environ else 15
RECORDS = st.lists(st.integers(0, 6), min_size=3, max_size=9)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RECORDS, st.data())
def test_whatever_sessions_have_in_common(
    tmp_path_factory: pytest.TempPathFactory, base: list[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    original = [head(), *(said(number) for number in base)]
    sessions = [original]
    for _again in range(data.draw(st.integers(1, 3))):
        parent = data.draw(st.sampled_from(sessions))
        shared = parent[: data.draw(st.integers(0, len(parent)))]
        if data.draw(st.booleans()):
            shared = [copy(record, data.draw(st.integers(31, 33))) for record in shared]
        own = data.draw(st.sampled_from([[], [head("Own")], [head("Own"), head("Own again")], [said(9)]]))
        left_out = data.draw(st.integers(0, min(2, len(shared))))
        sessions.append([*own, *shared[left_out:], *(said(number) for number in data.draw(RECORDS))])
    order = data.draw(st.permutations(range(len(sessions))))
    with Store.open(folder / "store", renderer=FileRenderer()) as store:
        for at in order:
            imported(store, write(folder, f"s{at}", *sessions[at]))
        grown = data.draw(st.integers(0, len(sessions) - 1))
        cut = data.draw(st.integers(0, len(sessions[grown])))
        sessions[grown] = [*sessions[grown][:cut], said(70), *sessions[grown][cut + data.draw(st.integers(0, 2)) :]]
        imported(store, write(folder, f"s{grown}", *sessions[grown]))
        for at, records in enumerate(sessions):
            assert native(store, folder / f"s{at}.chatlines") == lines(*records)
        assert fsck(store) == []


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_edited_of_copies(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("any")
    own = data.draw(st.sampled_from([[], [head("Own")], [head("Own"), head("Own again")]]))
    left_out = data.draw(st.integers(0, 1))
    shared = data.draw(st.integers(5, 8))
    copies = [copy(record, data.draw(st.integers(31, 32))) for record in [head(), *TALK][left_out:shared]]
    file = [*own, *copies, *(said(number) for number in range(20, 20 + data.draw(st.integers(0, 3))))]
    expected: list[bytes | None] = list(file)
    with Store.open(folder / "store", renderer=FileRenderer()) as store:
        imported(store, write(folder, "a", head(), *TALK))
        path = write(folder, "b", *file)
        imported(store, path)
        context = by_source(store, path).id
        files = read_files(by_source(store, path).metadata)
        assert files
        copied = files.copied or Copied(0)
        editor = Editor(store)
        for number in range(1, by_source(store, path).records + 1):
            what = data.draw(st.sampled_from(["keep", "keep", "edit", "delete"]))
            at = copied.position(number)
            if what == "delete":
                editor.edit(context, {number: DELETED})
                if at is not None:
                    expected[at] = None
            elif what == "edit":
                turn = store.turns.path_to_root(store.catalogue.entry(context).head)[number - 1]
                editor.edit(context, {number: store.contents.payload(turn.turn_id).replace(b"Line", b"LINE")})
                if at is not None:
                    expected[at] = (expected[at] or b"").replace(b"Line", b"LINE")
        if data.draw(st.booleans()):
            editor.append(context, [Append(said(40), TYPE)])
            expected.append(said(40))
        left = [record for record in expected if record is not None]
        found = native(store, path)
        assert found == (lines(*left) if left else b"\n" if file else b"")
        assert native(store, folder / "a.chatlines") == lines(head(), *TALK)
        assert fsck(store) == []


def size_of(store: Store) -> int:
    store.checkpointer.flush()
    return sum(
        path.stat().st_size for path in store.root.rglob("*") if path.is_file() and path.parent.name != "journal"
    )


def prose(random_: random.Random, size: int) -> str:
    return "".join(random_.choice("etaoin shrdlu etaoin  cmfwyp vbgkqjxz") for _ in range(size))


@pytest.mark.parametrize("kind", ["checkpoint", "fork", "own first"])
def test_what_is_shared_costs_next_to_nothing(tmp_path: Path, kind: str) -> None:
    chance = random.Random(7)
    talk = [said(number, text=prose(chance, chance.choice((40, 300, 1500)))) for number in range(2000)]
    more = [said(number, text=prose(chance, chance.choice((40, 300, 1500)))) for number in range(5000, 5200)]
    if kind == "checkpoint":
        other = [head(), *talk[:1800], *more]
    else:
        own = [head("A fork")] if kind == "own first" else []
        other = [*own, *map(copy, (head(), *talk[:1800])), *more]
    costs = []
    for kind_of_file in (other, [head("Another talk"), *more]):
        with Store.open(tmp_path / str(len(costs)), renderer=FileRenderer()) as store:
            imported(store, write(tmp_path, "first", head(), *talk))
            before = size_of(store)
            imported(store, write(tmp_path, "second", *kind_of_file))
            costs.append(size_of(store) - before)
    shared, new = costs
    # a twentieth is promised
    assert shared <= new + before // 50
