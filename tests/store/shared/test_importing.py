"""Machines of a space that import: the same session once, and outputs with numbers of their own."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from store.artifacts.names import kept_outputs
from store.errors import Unreachable
from store.events.conversation import AGENTS, ARTIFACTS, BEGUN, Conversation, Outputs
from store.importing import identity
from store.importing.importer import Importer, ImportReport
from store.importing.snapshot import Snapshot
from store.index.catalogue import ContextEntry
from store.store import Store
from tests.store.importing.sessions import SESSION, lines, session
from tests.store.shared.test_spaces import Team, any_team, team

__all__ = ["any_team", "team"]


def another(folder: Path, number: int, *texts: str) -> tuple[Path, bytes]:
    """Write a session with an id of its own."""
    name = SESSION[:-2] + f"{number:02}"
    content = lines(*texts).replace(SESSION.encode(), name.encode())
    return session(folder, content, name), content


def talks(store: Store) -> list[Conversation]:
    store.writer.catch_up()
    return [one for project in store.catalogue.projects() for one in store.library.conversations(project)]


def payloads(store: Store, talk: Conversation) -> bytes:
    turns = [turn for run in store.records.runs(talk.head) for turn in store.turns.range(*run)]
    return b"".join(bytes(store.blobs.blob(turn.payload_hash)) + b"\n" for turn in turns)


def brought(store: Store, *paths: Path) -> tuple[int, int, int]:
    """Import; return how many conversations were imported, had grown and were unchanged."""
    report = Importer(store).run(list(paths))
    assert not report.errors, report
    return report.imported, report.grown, report.unchanged


def at_once(stores: Sequence[Store], path: Path) -> None:
    """Have all machines import the same."""
    reports: list[ImportReport] = []
    begin = threading.Barrier(len(stores))

    def work(store: Store) -> None:
        begin.wait()
        reports.append(Importer(store).run([path]))

    threads = [threading.Thread(target=work, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == len(stores)
    assert [report.errors for report in reports if report.errors] == []


def stale(*stores: Store) -> None:
    """Have replicas go by what they had when they last committed: they look for nothing by themselves."""
    for store in stores:
        assert store.replica is not None
        store.replica.close()


def test_a_session_in_a_home_that_machines_share_is_one_conversation(team: Team, tmp_path: Path) -> None:
    a, b = team.open("a"), team.open("b")
    path = session(tmp_path, lines("One", "Two"))
    assert brought(a, path) == (1, 0, 0)
    b.writer.catch_up()
    assert brought(b, path) == (0, 0, 1)
    path.write_bytes(lines("One", "Two", "Three"))
    assert brought(b, path) == (0, 1, 0)
    [talk] = talks(a)
    assert talk.metadata["machine"] == "b"
    # by now it is known here, too
    assert brought(a, path) == (0, 0, 1)
    path.write_bytes(lines("One", "Two", "Three", "Four"))
    assert brought(a, path) == (0, 1, 0)
    [talk] = talks(b)
    assert (talk.metadata["machine"], payloads(b, talk)) == ("a", path.read_bytes())
    # a file that has yet to arrive says less, and changes nothing
    older = session(tmp_path / "late", lines("One", "Two"))
    assert brought(b, older) == (0, 0, 1)
    assert [payloads(a, one) for one in talks(a)] == [path.read_bytes()]


@pytest.mark.parametrize("order", [1, -1])
def test_checkpoints_and_copies_of_a_session_are_on_two_machines_what_they_are_on_one(
    any_team: Team, tmp_path: Path, order: int
) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    whole = lines("One", "Two", "Three", "Four")
    last = whole.splitlines(keepends=True)[-1]
    contents = [lines("One", "Two"), lines("One", "Two", "Three"), whole, whole[:-60], whole + last, bytes(9) + whole]
    for number, content in enumerate([*contents, whole.replace(b"\n", b"\r\n"), whole.removesuffix(b"\n")][::order]):
        session(tmp_path, content, f"{number}-{len(content)}")
    assert brought(a, tmp_path) == (8, 0, 0)
    for store in (b, a, b):
        store.writer.catch_up()
        assert brought(store, tmp_path) == (0, 0, 8)
    assert len(talks(a)) == 8


def test_a_session_whose_id_comes_after_many_records_is_one_conversation(team: Team, tmp_path: Path) -> None:
    a, b = team.open("a"), team.open("b")
    summaries = b"".join(b'{"type":"summary","summary":"Before %d","leafUuid":"v%d"}\n' % (n, n) for n in range(40))
    path = session(tmp_path, summaries + lines("One", "Two"), "exported")
    assert brought(a, path) == (1, 0, 0)
    b.writer.catch_up()
    assert brought(b, path) == (0, 0, 1)


def test_what_two_machines_have_only_noted_since_is_kept_by_both(team: Team, tmp_path: Path) -> None:
    a, b = team.open("a"), team.open("b")
    said = lines("One", "Two")
    contents = [said + b'{"type":"new-kind","of":"%d"}\n' % number * number for number in (2, 1)]
    for store, content in zip((a, b), contents, strict=True):
        store.writer.catch_up()
        assert brought(store, session(tmp_path / str(len(content)), content)) == (1, 0, 0)
    # and neither takes the other's for its own
    for store, content in zip((a, b), contents, strict=True):
        store.writer.catch_up()
        assert brought(store, session(tmp_path / str(len(content)), content)) == (0, 0, 1)
    assert {payloads(a, talk) for talk in talks(a)} == set(contents)


def test_a_session_that_another_machine_has_moved_on_meanwhile_is_not_made_anew(any_team: Team, tmp_path: Path) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    whole = lines("One", "Two", "Three", "Four")
    copy = session(tmp_path / "b", lines("One", "Two"), "copy")
    assert brought(b, copy) == (1, 0, 0)
    a.writer.catch_up()
    stale(a, b)
    assert brought(a, session(tmp_path / "a", whole, "whole")) == (0, 1, 0)
    # here it is still the beginning of the copy, and the whole is new
    copy.write_bytes(whole[:-60])
    session(tmp_path / "b", whole, "whole")
    assert brought(b, tmp_path / "b") == (1, 0, 1)
    assert sorted(payloads(a, talk) for talk in talks(a)) == sorted([whole, whole[:-60] + b"\n"])


def test_a_session_of_which_another_machine_has_less_is_read_once(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = team.open("a"), team.open("b")
    path = session(tmp_path, lines("One", "Two"))
    assert brought(a, path) == (1, 0, 0)
    path.write_bytes(lines("One", "Two", "Three"))
    b.writer.catch_up()
    looked_at: list[Path] = []

    class Counted(Snapshot):
        def __init__(self, path: Path, scratch: Path) -> None:
            super().__init__(path, scratch)
            looked_at.append(path)

    monkeypatch.setattr(identity, "Snapshot", Counted)
    assert brought(b, path) == (0, 1, 0)
    assert looked_at == [path]


def test_a_session_that_changes_hands_while_it_is_looked_for_is_there_once(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicas of one machine: what the other one imports is neither new nor of another machine."""
    a, b, c = team.open("a"), team.open("b"), team.open("c", "b")
    path = session(tmp_path, lines("One", "Two"))
    assert brought(a, path) == (1, 0, 0)
    path.write_bytes(lines("One", "Two", "Three"))
    for store in (b, c):
        store.writer.catch_up()
    with monkeypatch.context() as patch:
        look = identity.Moved._like

        def overtaken(*arguments: Any) -> Iterator[tuple[ContextEntry, bool]]:  # noqa: ANN401  (those of the other)
            patch.undo()
            assert brought(c, path) == (0, 1, 0)
            b.writer.catch_up()
            return look(*arguments)

        patch.setattr(identity.Moved, "_like", overtaken)
        assert brought(b, path) == (0, 0, 1)
    assert [payloads(a, talk) for talk in talks(a)] == [path.read_bytes()]


def test_a_session_that_two_machines_have_gone_on_with_is_two_conversations(team: Team, tmp_path: Path) -> None:
    a, b = team.open("a"), team.open("b")
    here = session(tmp_path / "a", lines("One", "Two"))
    there = session(tmp_path / "b", lines("One", "Two"))
    assert brought(a, here) == (1, 0, 0)
    b.writer.catch_up()
    assert brought(b, there) == (0, 0, 1)
    here.write_bytes(lines("One", "Two", "On the desktop"))
    there.write_bytes(lines("One", "Two", "On the laptop", "Once more"))
    assert brought(a, here) == (0, 1, 0)
    b.writer.catch_up()
    assert brought(b, there) == (1, 0, 0)
    assert {payloads(a, talk) for talk in talks(a)} == {here.read_bytes(), there.read_bytes()}
    # and each goes on with its own
    there.write_bytes(there.read_bytes() + lines("And on", start=4))
    assert brought(b, there) == (0, 1, 0)
    assert {payloads(a, talk) for talk in talks(a)} == {here.read_bytes(), there.read_bytes()}


@pytest.mark.parametrize("machines", [("a", "b"), ("pc", "pc")], ids=["two machines", "two replicas on one"])
def test_who_was_second_takes_what_is_there(any_team: Team, tmp_path: Path, machines: tuple[str, str]) -> None:
    a, b = any_team.open("a", machines[0]), any_team.open("b", machines[1])
    stale(a, b)
    path = session(tmp_path, lines("One", "Two"))
    assert brought(a, path) == (1, 0, 0)
    # nothing is known of that here before the commit
    assert brought(b, path) == (0, 0, 1)
    assert len(talks(a)) == len(talks(b)) == 1
    path.write_bytes(lines("One", "Two", "Three"))
    assert brought(a, path) == (0, 1, 0)
    path.write_bytes(lines("One", "Two", "Three", "Four"))
    assert brought(b, path) == (0, 1, 0)
    [talk] = talks(a)
    assert payloads(a, talk) == path.read_bytes()


def test_who_was_second_with_a_file_of_many_takes_what_is_there(any_team: Team, tmp_path: Path) -> None:
    a, b = any_team.open("a", "pc"), any_team.open("b", "pc")
    stale(a, b)
    path = tmp_path / ".aider.chat.history.md"
    runs = [f"\n# aider chat started at 2026-03-0{day} 12:00:00\n\n#### Day {day}?\n\nYes.\n" for day in (5, 6)]
    path.write_text("".join(runs))
    assert brought(a, path)[:2] == (2, 0)
    assert brought(b, path)[:2] == (0, 0)
    assert sorted(talk.name for talk in talks(a)) == sorted(talk.name for talk in talks(b))
    assert len(talks(a)) == 2
    assert len(a.catalogue.layouts()) == 1


def test_names_that_machines_give_at_once_differ(any_team: Team, tmp_path: Path) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    stale(a, b)
    for store, number in ((a, 1), (b, 2)):
        path, _content = another(tmp_path / str(number), number, "Hello", f"From {number}")
        assert brought(store, path) == (1, 0, 0)
    first, second = sorted(talk.name for talk in talks(a))
    assert second == f"{first}-2"


def test_all_machines_import_at_once(any_team: Team, tmp_path: Path) -> None:
    stores = [any_team.open("a"), any_team.open("b"), any_team.open("c", "b")]
    written = dict(another(tmp_path, number, f"Talk {number}") for number in range(12))
    for count in range(3):
        at_once(stores, tmp_path)
        found = talks(stores[count])
        assert sorted(payloads(stores[count], talk) for talk in found) == sorted(written.values())
        for number, path in enumerate(written):
            written[path] += lines(f"More {count} {number}", start=count + 1)
            path.write_bytes(written[path])
    for store in stores:
        store.close()
    any_team.agree("a", "b", "c")


def test_outputs_that_machines_begin_at_once_have_numbers_of_their_own(any_team: Team) -> None:
    stores = [any_team.open(name) for name in "abc"]
    context = stores[0].contexts.create(metadata={"project": "shop", "name": "first"}).context
    for store in stores:
        store.writer.catch_up()
    said: dict[str, bytes] = {}

    def work(store: Store, own: int) -> None:
        for count in range(5):
            name = store.artifacts.begin(context, ARTIFACTS, "make")
            store.artifacts.add(context, ARTIFACTS, name, text := f"{own} {count}".encode())
            assert said.setdefault(name, text) == text
            said[name] = text
            if count == 3:
                # what was never kept has no number for long
                said.pop(name)
                store.artifacts.drop(context, ARTIFACTS, name)
            else:
                store.artifacts.end(context, ARTIFACTS, name)

    threads = [threading.Thread(target=work, args=(store, own)) for own, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.writer.catch_up()
        entry = store.catalogue.entry(context)
        kept = kept_outputs(store.blobs, entry, ARTIFACTS)
        assert {name: bytes(store.blobs.blob(one.blob)) for name, one in kept.items() if one.blob} == said
        assert len({name.partition(".")[0] for name in kept}) == len(said) == 12
        assert BEGUN not in entry.metadata


def test_an_output_that_another_machine_writes_keeps_its_number(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    stale(a, b)
    context = a.contexts.create(metadata={"project": "shop", "name": "first"}).context
    b.writer.catch_up()
    assert a.artifacts.begin(context, ARTIFACTS, "make") == "0.make.log"
    assert b.artifacts.begin(context, ARTIFACTS, "test") == "1.test.log"
    assert list(b.artifacts.listed(context, ARTIFACTS)) == ["1.test.log"]


def test_an_output_that_another_machine_has_kept_since_keeps_its_number(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    stale(a, b)
    context = a.contexts.create(metadata={"project": "shop", "name": "first"}).context
    b.writer.catch_up()
    a.artifacts.add(context, ARTIFACTS, a.artifacts.begin(context, ARTIFACTS, "make"), b"one\n")
    a.artifacts.end(context, ARTIFACTS, "0.make.log")
    # nothing is begun, as when this machine looked last
    assert b.artifacts.begin(context, ARTIFACTS, "make") == "1.make.log"
    b.artifacts.add(context, ARTIFACTS, "1.make.log", b"two\n")
    b.artifacts.end(context, ARTIFACTS, "1.make.log")
    assert listed(b, context, ARTIFACTS) == {"0.make.log": b"one\n", "1.make.log": b"two\n"}


def listed(store: Store, context: int, outputs: Outputs) -> dict[str, bytes]:
    found = store.artifacts.listed(context, outputs)
    return {name: store.artifacts.reader(context, outputs, one).read(0, 1 << 20) for name, one in found.items()}


EXPLORED = {"0-Explore.md": b"0-Explore.md", "0-Explore.0-Read.md": b"0-Explore.0-Read.md"}
"""The agents that another machine has begun meanwhile."""
GO_ON = {
    "1-Explore.md": b"0-Explore.md",
    "1-Explore.0-Read.md": b"0-Explore.0-Read.md",
    "1-Explore.0-Read.0-Grep.md": b"0-Explore.0-Read.0-Grep.md",
    "1-Explore.1-Read.md": b"0-Explore.1-Read.md",
}
"""The names that those of this one get then, which were begun with the next numbers that it knew of."""


def begun_while_away(team: Team) -> tuple[Store, Store, int]:
    """Begin agents on two machines, of which the second one does not reach the space; return both, and the context."""
    a, b = team.open("a"), team.open("b")
    stale(a, b)
    context = a.contexts.create(metadata={"project": "shop", "name": "first"}).context
    b.writer.catch_up()
    away = team.space.rename(team.space.with_name("away"))
    for asked in ("Explore", "0-Explore.Read", "0-Explore.0-Read.Grep", "0-Explore.Read"):
        name = b.artifacts.begin(context, AGENTS, asked)
        b.artifacts.add(context, AGENTS, name, name.encode())
    away.rename(team.space)
    for asked in ("Explore", "0-Explore.Read"):
        name = a.artifacts.begin(context, AGENTS, asked)
        a.artifacts.add(context, AGENTS, name, name.encode())
        a.artifacts.end(context, AGENTS, name)
    return a, b, context


@pytest.mark.parametrize("first", sorted(GO_ON.values()))
@pytest.mark.logs("cannot be reached", sometimes=True)
def test_what_an_agent_has_started_goes_with_it_to_another_number(team: Team, first: bytes) -> None:
    a, b, context = begun_while_away(team)
    renamed: dict[str, str] = {}
    # whichever of them has its number reserved first
    b.artifacts.reserve(context, AGENTS, first.decode(), renamed.__setitem__)
    assert renamed == {said.decode(): name for name, said in GO_ON.items()}
    assert listed(b, context, AGENTS) == GO_ON | EXPLORED
    b.artifacts.settle()
    a.writer.catch_up()
    assert listed(a, context, AGENTS) == GO_ON | EXPLORED
    assert BEGUN not in a.catalogue.entry(context).metadata


@pytest.mark.logs("cannot be reached", sometimes=True)
def test_it_does_so_when_the_store_is_closed(team: Team) -> None:
    a, b, context = begun_while_away(team)
    b.artifacts.settle()
    a.writer.catch_up()
    assert listed(a, context, AGENTS) == GO_ON | EXPLORED


@pytest.mark.logs("cannot be reached", sometimes=True)
def test_what_an_agent_without_a_number_starts_gets_none_before_it(team: Team) -> None:
    store = team.open("a")
    context = store.contexts.create(metadata={"project": "shop", "name": "first"}).context
    away = team.space.rename(team.space.with_name("away"))
    store.artifacts.begin(context, AGENTS, "Explore")
    away.rename(team.space)
    assert store.artifacts.begin(context, AGENTS, "Read", parent="0-Explore") == "0-Explore.0-Read.md"
    assert not store.artifacts.is_reserved(context, AGENTS, "0-Explore.0-Read.md")
    assert store.artifacts.reserve(context, AGENTS, "0-Explore.0-Read.md") == "0-Explore.0-Read.md"
    assert store.artifacts.is_reserved(context, AGENTS, "0-Explore.md")


@pytest.mark.logs("cannot be reached", sometimes=True)
def test_an_output_that_is_dropped_while_the_space_is_away_stays(team: Team) -> None:
    store = team.open("a")
    context = store.contexts.create(metadata={"project": "shop", "name": "first"}).context
    name = store.artifacts.begin(context, ARTIFACTS, "make")
    store.artifacts.add(context, ARTIFACTS, name, b"one\n")
    away = team.space.rename(team.space.with_name("away"))
    with pytest.raises(Unreachable):
        store.artifacts.drop(context, ARTIFACTS, name)
    assert store.artifacts.path(context, ARTIFACTS, name).read_bytes() == b"one\n"
    away.rename(team.space)
    store.artifacts.drop(context, ARTIFACTS, name)
    assert not store.artifacts.path(context, ARTIFACTS, name).exists()
    assert BEGUN not in store.catalogue.entry(context).metadata
