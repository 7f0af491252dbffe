"""Who holds a content or a resource, and by which paths a mount shows that."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from fusefs.tree.paths import Paths, version_name
from store.backlinks import Backlinks, Holding
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.events.conversation import ARTIFACTS
from store.ids import Hash, hash_bytes
from store.store import Store
from tests.store.editing.records import TYPE, called, conversation, returned, said

FILE = "a line of a file\n" * 100
CONTENT = hash_bytes(FILE.encode())
READ = returned(FILE, "c1")
URI = "file:///src/c1.py"


def told(holdings: Iterable[Holding]) -> list[tuple[str, int, int]]:
    """Return what holds something: how, the conversation, and the number of the event (0: none)."""
    return [(one.relation, one.conversation.id, one.row.number if one.row else 0) for one in holdings]


def paths(store: Store, digest: Hash) -> list[str]:
    return [Paths(store).holding(holding) for holding in Backlinks(store).of_content(digest)]


@pytest.mark.parametrize("filed", [False, True])
def test_everybody_who_has_a_file_is_named(store: Store, filed: bool) -> None:
    first = conversation(store, [said("first"), called("Read", "c1"), READ], "first")
    second = conversation(store, [called("Read", "c1"), READ, returned("another\n", "c1")], "second")
    fork = store.contexts.fork(second, metadata={"project": "p", "name": "fork"}).context
    conversation(store, [said("nothing of it")], "third")
    while filed and store.search.step():
        pass
    links = Backlinks(store)
    having = [("content", first, 3), ("content", second, 2), ("content", fork, 2)]
    assert told(links.of_content(CONTENT)) == having
    assert [holding.uris for holding in links.of_content(CONTENT)] == [(URI,)] * 3
    assert told(links.of_content(hash_bytes(READ))) == [("payload", *place) for _how, *place in having]
    assert sorted(told(links.of_uris([URI, "file:///nothing"]))) == sorted(
        [*having, ("content", second, 3), ("content", fork, 3)]
    )
    assert paths(store, CONTENT)[0] == "conversations/p/first/events/00003-result-Read.md"
    assert told(links.of_content(hash_bytes(b"nowhere"))) == told(links.of_uris(["file:///src"])) == []


@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_what_was_edited_away_is_in_an_earlier_version(store: Store, edits: str) -> None:
    context = conversation(store, [said("first"), called("Read", "c1"), READ])
    elsewhere = conversation(store, [said("first"), called("Read", "c1"), READ], "elsewhere")
    for place in (context, elsewhere):
        if edits == "overlay":
            store.contexts.patch(place, {store.contexts.last(place, 1)[0].turn_id: returned("other\n", "c1")})
        else:
            Editor(store).edit(place, {3: returned("other\n", "c1")})
    assert told(Backlinks(store).of_content(CONTENT)) == [("content", context, 3), ("content", elsewhere, 3)]
    [version] = [holding.version for holding in Backlinks(store).of_content(CONTENT)][:1]
    assert version is not None
    assert version.number == 1
    assert paths(store, CONTENT)[0] == (
        f"conversations/p/talk/.versions/{version_name(version)}/events/00003-result-Read.md"
    )
    Editor(store).restore(context, 1)
    assert [holding.version and holding.version.number for holding in Backlinks(store).of_content(CONTENT)] == [None, 1]


def test_what_was_deleted_or_removed(store: Store) -> None:
    context = conversation(store, [said("first"), called("Read", "c1"), READ])
    Editor(store).edit(context, {3: DELETED})
    assert paths(store, CONTENT)[0].startswith("conversations/p/talk/.versions/0001-")
    Editor(store).restore(context, 1)
    Editor(store).remove(context)
    assert paths(store, CONTENT) == [".convfs/trash/talk/events/00003-result-Read.md"]
    nameless = store.contexts.create().context
    store.contexts.append_many(nameless, [Append(READ, TYPE)])
    assert paths(store, CONTENT)[1:] == [""]


def test_outputs_and_what_metadata_tells(store: Store) -> None:
    context = conversation(store, [said("first")])
    output = store.artifacts.begin(context, ARTIFACTS, "make")
    store.artifacts.add(context, ARTIFACTS, output, FILE.encode())
    store.artifacts.end(context, ARTIFACTS, output)
    assert told(Backlinks(store).of_content(CONTENT)) == [("output", context, 0)]
    assert paths(store, CONTENT) == ["conversations/p/talk/artifacts/0.make.log"]
    load = store.intake.load()
    store.contexts.set_metadata(context, {"original": {"blob": load.blob(b"a file").hex()}})
    load.sync()
    [holding] = Backlinks(store).of_content(hash_bytes(b"a file"))
    assert (holding.relation, holding.name) == ("metadata", "original")
    assert paths(store, hash_bytes(b"a file")) == ["conversations/p/talk/metadata.json"]


def test_records_that_are_not_shown_as_events(store: Store) -> None:
    note = b'{"type":"file-history-snapshot","messageId":"m","snapshot":{}}'
    conversation(store, [said("first"), note])
    assert paths(store, hash_bytes(note)) == ["conversations/p/talk/.records/00002.json"]


def looked_up(store: Store, digest: Hash) -> set[tuple[int, int, int]]:
    """Return which conversations hold a resource, in which version (0: now), and in which event, by looking."""
    found: set[tuple[int, int, int]] = set()
    for entry in store.catalogue.every():
        versions = store.catalogue.versions(entry.id)
        for version, head in ((0, entry.head), *((one.number, one.head) for one in reversed(versions))):
            held = {one.number for one in store.records.resources(head) if one.hash == digest}
            there = {number for number in held if (row := store.records.row(head, number)) and not row.deleted}
            found |= {(entry.id, version, number) for number in there}
            if there:
                break
    return found


@pytest.mark.parametrize("edits", ["branch", "overlay"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_was_appended_edited_forked_and_restored(memory_path: Path, edits: str, seed: int) -> None:
    chance = random.Random(seed)
    (memory_path / "store").mkdir()
    (memory_path / "store/convfs.toml").write_text(f'edits = "{edits}"\n')
    contents = [f"file {number}\n" for number in range(4)]
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        editor = Editor(store)
        contexts = [conversation(store, [called("Read", "c1"), said("and?")], f"talk{n}") for n in range(3)]
        for step in range(40):
            context = chance.choice(contexts)
            records = store.catalogue.entry(context).records
            line = returned(chance.choice(contents), "c1")
            match chance.randrange(6):
                case 0 | 1:
                    store.contexts.append_many(context, [Append(line, TYPE)])
                case 2:
                    editor.edit(context, {chance.randrange(2, records + 1): line})
                case 3:
                    editor.edit(context, {chance.randrange(2, records + 1): DELETED})
                case 4:
                    contexts.append(editor.fork(context, f"fork{step}").context)
                case 5:
                    editor.restore(context, chance.randrange(1, len(store.catalogue.versions(context)) + 1))
            if chance.randrange(4) == 0:
                store.search.step()
            digest = hash_bytes(chance.choice(contents).encode())
            holdings = [*Backlinks(store).of_content(digest)]
            told = {
                (one.conversation.id, one.version.number if one.version else 0, one.row.number)
                for one in holdings
                if one.row
            }
            assert told == looked_up(store, digest)
            assert len(told) == len(holdings)
