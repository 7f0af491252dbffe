"""Parts that come along from one store to another, parts that are there already, and changes of the same on both."""

from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.artifacts.names import kept_outputs
from store.commit.request import Request
from store.conversations.contexts import Append
from store.disk.head_format import Deleted
from store.editing.editor import Editor
from store.editing.keeper import Keeper
from store.events.conversation import AGENTS, ARTIFACTS, CAME_FROM, Conversation
from store.events.event import DELETED
from store.ids import now_ms
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from store.transfer.states import BORN, DIVERGED, State
from store.upkeep.fsck import fsck
from tests.spaces import let_in
from tests.store.importing.sessions import line, lines, session
from tests.store.transfer.stores import brought_in, carry, did, exported, only, payloads, talks, turns

JSON = "application/json"


def said(store: Store, project: str = "p", name: str = "talk", *texts: str) -> int:
    """Make a conversation without a session; return its id."""
    context = Keeper(store).create(project, name, title=name).context
    store.contexts.append_many(context, [Append(f'{{"text":"{text}"}}'.encode(), JSON) for text in texts])
    return context


def grow(store: Store, name: str, *texts: str) -> None:
    context = talks(store)[name].id
    store.contexts.append_many(context, [Append(f'{{"text":"{text}"}}'.encode(), JSON) for text in texts])


def outputs(store: Store, talk: Conversation) -> dict[str, bytes]:
    """Return the outputs of tools and agents by name."""
    kept = kept_outputs(store.blobs, talk, ARTIFACTS) | kept_outputs(store.blobs, talk, AGENTS)
    return {name: store.blobs.blob(output.blob) for name, output in kept.items() if output.blob}


def test_a_session_comes_along_and_is_exported_as_it_was(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Fix the login bug", "x" * 5000, "Thanks", "Bye"))
    brought_in(laptop, path)
    assert did(laptop, desktop) == ["new"]
    here, there = only(laptop), only(desktop)
    assert (there.project, there.name, there.title) == (here.project, here.name, here.title)
    assert payloads(desktop, there) == payloads(laptop, here)
    files = exported(desktop, there, tmp_path / "out")
    assert files == {path.name: path.read_bytes()}
    assert did(laptop, desktop) == ["same"]
    assert len(talks(desktop)) == 1


def test_nothing_is_sent_or_stored_twice(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, session(tmp_path, lines("a" * 9000, "b", "c")))
    did(laptop, desktop)
    count, packs = desktop.files.turns.count, desktop.files.packs.end
    for _ in range(3):
        assert did(laptop, desktop) == ["same"]
        assert did(desktop, laptop) == ["same"]
    assert (desktop.files.turns.count, desktop.files.packs.end) == (count, packs)
    assert len(talks(laptop)) == 1


def test_what_has_grown_goes_on(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two"))
    brought_in(laptop, path)
    did(laptop, desktop)
    with path.open("ab") as file:
        file.write(lines("Three", "Four", start=2))
    brought_in(laptop, path)
    assert did(laptop, desktop) == ["grown"]
    there = only(desktop)
    assert payloads(desktop, there) == payloads(laptop, only(laptop))
    assert desktop.catalogue.last_action(there.id) == "pull"
    assert exported(desktop, there, tmp_path / "out") == {path.name: path.read_bytes()}
    # the old turns are where they were
    assert desktop.files.turns.count == 4


def test_what_is_behind_changes_nothing(laptop: Store, desktop: Store) -> None:
    said(laptop, "p", "talk", "a", "b")
    did(laptop, desktop)
    grow(desktop, "talk", "c")
    assert did(laptop, desktop) == ["same"]
    assert len(payloads(desktop, only(desktop))) == 3
    assert did(desktop, laptop) == ["grown"]
    assert payloads(laptop, only(laptop)) == payloads(desktop, only(desktop))


def test_what_both_have_changed_stands_beside_as_a_fork(laptop: Store, desktop: Store) -> None:
    said(laptop, "p", "talk", "a", "b")
    did(laptop, desktop)
    grow(laptop, "talk", "mine")
    grow(desktop, "talk", "yours")
    assert did(laptop, desktop) == ["diverged"]
    own, fork = sorted(talks(desktop).values(), key=lambda talk: talk.id)
    assert own.name == "talk"
    assert fork.name.startswith("talk~")
    assert fork.labels == [DIVERGED]
    assert [payloads(desktop, talk)[-1] for talk in (own, fork)] == [b'{"text":"yours"}', b'{"text":"mine"}']
    # they share the turns that both have
    assert [turn.turn_id for turn in turns(desktop, own)[:2]] == [turn.turn_id for turn in turns(desktop, fork)[:2]]
    shared = turns(desktop, own)[1].turn_id
    assert fork.metadata["forked_from"] == {"context": own.id, "turn": shared}


def test_divergence_ends(laptop: Store, desktop: Store) -> None:
    said(laptop, "p", "talk", "a", "b")
    did(laptop, desktop)
    grow(laptop, "talk", "mine")
    grow(desktop, "talk", "yours")
    did(laptop, desktop)
    did(desktop, laptop)
    for _ in range(3):
        assert set(did(laptop, desktop)) == {"same"}
        assert set(did(desktop, laptop)) == {"same"}
    assert len(talks(laptop)) == len(talks(desktop)) == 2
    # each goes on on its own side, and the other follows
    grow(laptop, "talk", "more of mine")
    assert sorted(did(laptop, desktop)) == ["grown", "same"]
    assert set(did(laptop, desktop)) == {"same"}
    assert len(talks(desktop)) == 2
    fork = next(talk for name, talk in talks(desktop).items() if name != "talk")
    assert payloads(desktop, fork)[-1] == b'{"text":"more of mine"}'


def test_edits_come_along_and_are_no_divergence(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two", "Three", "Four"))
    brought_in(laptop, path)
    did(laptop, desktop)
    Editor(laptop).edit(only(laptop).id, {2: line("Better", 1), 3: DELETED})
    here = only(laptop)
    assert did(laptop, desktop) == ["grown"]
    there = only(desktop)
    assert payloads(desktop, there) == payloads(laptop, here)
    assert exported(desktop, there, tmp_path / "there") == exported(laptop, here, tmp_path / "here")
    assert did(laptop, desktop) == did(desktop, laptop) == ["same"]


def test_what_was_edited_before_it_went_is_exported_the_same(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two", "Three", "Four"))
    brought_in(laptop, path)
    Editor(laptop).edit(only(laptop).id, {2: line("Better", 1)})
    with path.open("ab") as file:
        file.write(lines("Five", start=4))
    brought_in(laptop, path)
    assert did(laptop, desktop) == ["new"]
    here, there = only(laptop), only(desktop)
    assert exported(desktop, there, tmp_path / "there") == exported(laptop, here, tmp_path / "here")
    with path.open("ab") as file:
        file.write(lines("Six", start=5))
    brought_in(laptop, path)
    assert did(laptop, desktop) == ["grown"]
    here, there = only(laptop), only(desktop)
    assert len(payloads(desktop, there)) == 6
    assert exported(desktop, there, tmp_path / "there2") == exported(laptop, here, tmp_path / "here2")


def test_edits_elsewhere_come_back_and_the_session_goes_on(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two"))
    brought_in(laptop, path)
    did(laptop, desktop)
    Editor(desktop).edit(only(desktop).id, {2: line("Better", 1)})
    assert did(desktop, laptop) == ["grown"]
    assert b"Better" in payloads(laptop, only(laptop))[1]
    with path.open("ab") as file:
        file.write(lines("Three", start=2))
    brought_in(laptop, path)
    here = only(laptop)
    assert [b"Better" in payload or b"Three" in payload for payload in payloads(laptop, here)] == [False, True, True]
    assert did(laptop, desktop) == ["grown"]
    assert payloads(desktop, only(desktop)) == payloads(laptop, here)
    assert exported(desktop, only(desktop), tmp_path / "there") == exported(laptop, here, tmp_path / "here")


@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_patched_turns_come_as_they_are_seen(laptop: Store, desktop: Store, edits: str) -> None:
    said(laptop, "p", "talk", "a", "b", "c")
    did(laptop, desktop)
    talk = only(laptop)
    change = {turns(laptop, talk)[1].turn_id: b'{"text":"B"}'}
    if edits == "overlay":
        laptop.contexts.patch(talk.id, change)
    else:
        Editor(laptop).edit(talk.id, {2: b'{"text":"B"}'})
    assert did(laptop, desktop) == ["grown"]
    assert payloads(desktop, only(desktop)) == [b'{"text":"a"}', b'{"text":"B"}', b'{"text":"c"}']
    grow(desktop, "talk", "d")
    assert did(desktop, laptop) == ["grown"]
    assert len(payloads(laptop, only(laptop))) == 4
    talk = only(desktop)
    desktop.contexts.patch(talk.id, {turns(desktop, talk)[0].turn_id: b'{"text":"A"}'})
    assert did(desktop, laptop) == ["grown"]
    assert payloads(laptop, only(laptop)) == payloads(desktop, only(desktop))
    assert did(laptop, desktop) == did(desktop, laptop) == ["same"]


def test_outputs_labels_and_titles_come_along(laptop: Store, desktop: Store) -> None:
    context = said(laptop, "p", "talk", "a")
    for sort, name, asked in ((ARTIFACTS, "0.make.log", "make"), (AGENTS, "0-Explore.md", "Explore")):
        laptop.artifacts.add(context, sort, laptop.artifacts.begin(context, sort, asked), b"one\ntwo\n")
        laptop.artifacts.end(context, sort, name)
    keeper = Keeper(laptop)
    keeper.describe(context, {"labels": ["good"]})
    did(laptop, desktop)
    there = only(desktop)
    assert there.labels == ["good"]
    assert outputs(desktop, there) == {"0.make.log": b"one\ntwo\n", "0-Explore.md": b"one\ntwo\n"}
    # and later ones to what is there already
    keeper.describe(context, {"labels": ["good", "later"], "title": "A better title"})
    laptop.artifacts.add(context, ARTIFACTS, laptop.artifacts.begin(context, ARTIFACTS, "test"), b"three\n")
    laptop.artifacts.end(context, ARTIFACTS, "1.test.log")
    Keeper(desktop).relabel(there.id, add=["here"])
    assert did(laptop, desktop) == ["described"]
    there = only(desktop)
    assert (set(there.labels), there.title) == ({"good", "here", "later"}, "A better title")
    assert outputs(desktop, there)["1.test.log"] == b"three\n"
    assert did(laptop, desktop) == ["same"]


def test_forks_share_their_turns_there_too(laptop: Store, desktop: Store) -> None:
    context = said(laptop, "p", "talk", "a", "b", "c")
    Keeper(laptop).fork(context, "other", at=2)
    grow(laptop, "other", "d")
    assert did(laptop, desktop) == ["new", "new"]
    assert desktop.files.turns.count == 4
    there = talks(desktop)
    first, second = turns(desktop, there["talk"])[1], turns(desktop, there["other"])[1]
    assert first == second
    assert there["other"].metadata["forked_from"] == {"context": there["talk"].id, "turn": first.turn_id}


def test_an_import_there_of_the_same_session_brings_no_second_one(
    laptop: Store, desktop: Store, tmp_path: Path
) -> None:
    path = session(tmp_path, lines("One", "Two"))
    brought_in(laptop, path)
    did(laptop, desktop)
    came = only(desktop)
    assert came.metadata[CAME_FROM]["path"] == str(path)  # type: ignore[index]
    assert came.source != str(path)
    assert "cursor" not in came.metadata
    brought_in(desktop, path)
    assert only(desktop).metadata == came.metadata
    # whoever has more of it has it from here
    path.write_bytes(lines("One", "Two", "Three"))
    brought_in(desktop, path)
    there = only(desktop)
    assert (there.source, CAME_FROM in there.metadata) == (str(path), False)
    assert did(desktop, laptop) == ["grown"]
    brought_in(laptop, path)
    assert payloads(laptop, only(laptop)) == payloads(desktop, there)
    assert did(laptop, desktop) == ["same"]


def test_an_import_there_of_another_session_of_that_id_is_another(
    laptop: Store, desktop: Store, tmp_path: Path
) -> None:
    path = session(tmp_path, lines("One", "Two"))
    brought_in(laptop, path)
    did(laptop, desktop)
    path.write_bytes(lines("One", "Else"))
    brought_in(desktop, path)
    assert len(talks(desktop)) == 2


def test_subagents_stand_in_those_that_started_them(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two"))
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    agent = folder / "agent-7.jsonl"
    asked, told = line("Look", 0, isSidechain=True, agentId="7"), line("Seen", 1, isSidechain=True)
    agent.write_bytes(asked + b"\n" + told + b"\n")
    brought_in(laptop, path.parent)
    [parent] = [talk for talk in talks(laptop).values() if "agent" not in talk.metadata]
    [inside] = [entry.name for entry in laptop.catalogue.subagents(parent.id)]
    assert [one.what for one in carry(laptop, desktop, [parent.id])] == ["new", "new"]
    there = talks(desktop)[parent.name]
    assert [entry.name for entry in desktop.catalogue.subagents(there.id)] == [inside]


def test_what_was_deleted_for_good_does_not_come_back(laptop: Store, desktop: Store) -> None:
    context = said(laptop, "p", "talk", "a")
    did(laptop, desktop)
    desktop.writer.submit(Request(only(desktop).id, notes=[Deleted(now_ms())]))
    assert did(laptop, desktop) == ["gone"]
    assert talks(desktop) == {}
    assert [one.what for one in carry(laptop, desktop, [context], named=True)] == ["new"]


def test_a_third_store_knows_it_wherever_it_came_from(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    said(laptop, "p", "talk", "a")
    did(laptop, desktop)
    with Store.open(tmp_path / "server", renderer=FileRenderer()) as server:
        assert did(desktop, server) == ["new"]
        assert did(laptop, server) == ["same"]
        grow(server, "talk", "b")
        assert did(server, laptop) == ["grown"]
        assert only(server).metadata[BORN] == f"{laptop.store_id.hex()}-{only(laptop).id}"
        assert fsck(server) == []


def test_names_that_are_taken_get_a_number(laptop: Store, desktop: Store) -> None:
    said(laptop, "p", "talk", "a")
    said(desktop, "p", "talk", "b")
    did(laptop, desktop)
    assert set(talks(desktop)) == {"talk", "talk-2"}


def test_chain_names_depend_on_every_turn(laptop: Store) -> None:
    context = said(laptop, "p", "talk", "a", "b")
    state = State(laptop, laptop.writer.head(context).tip)
    assert state.begins_with(1, state.name(1))
    assert not state.begins_with(2, state.name(1))
    assert state.shared([state.name(1), b"other"]) == 1
    assert state.shared([]) == 0


def test_a_replica_tells_which_machine_of_its_space_has_the_session(desktop: Store, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "server"))
    remote.init(place, "team")
    remote.join(place, "team", tmp_path / "ada", "ada")
    let_in(tmp_path / "ada", tmp_path / "bob", "bob")
    path = session(tmp_path, lines("a", "b"))
    with Store.open(tmp_path / "bob", renderer=FileRenderer()) as bob:
        brought_in(bob, path)
    with Store.open(tmp_path / "ada", renderer=FileRenderer()) as ada:
        assert did(ada, desktop) == ["new"]
        came = only(desktop).metadata
        assert came["source"] == f"bob:{path}"
        assert came[CAME_FROM] == {"store": ada.store_id.hex(), "machine": "bob", "path": str(path)}
        for store in (ada, desktop):
            store.contexts.append_many(only(store).id, [Append(line(store.root.name), "claude-code.line.v1")])
        did(ada, desktop)
        assert sorted(talks(desktop))[1].endswith("~ada")
