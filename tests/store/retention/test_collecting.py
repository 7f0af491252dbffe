"""Pruned content is collected; content that exports and imports need is not."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.commit.writer import Unshown
from store.editing.editor import DELETED, Editor
from store.importing.importer import Importer
from store.retention.pruner import delete, prune_versions
from store.service.call import Holder
from store.service.redacting import redact, redact_plan
from store.store import Store
from store.upkeep.fsck import fsck
from store.upkeep.gc import Collected
from tests.store.importing.parted_formats import Braid, know
from tests.store.importing.sessions import lines, session
from tests.store.retention.test_importing import BRAID, file, parts

LATEST = 1 << 40


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


def collect(store: Store) -> Collected:
    steps = store.collector.steps(grace_seconds=0, least_part=0, dry_run=False)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            collected: Collected = end.value
            return collected


def said(number: int) -> str:
    return " ".join(f"{number}-{word}" for word in range(300))


def test_what_is_deleted_is_taken_out_of_the_files(store: Store, tmp_path: Path) -> None:
    session(tmp_path, lines(*map(said, range(6))))
    other = session(tmp_path, lines(*map(said, range(4, 9))), name="another")
    Importer(store).run([tmp_path])
    entry = store.catalogue.by_source(str(other))
    assert entry is not None
    delete(store, entry.id, entry.head)
    # what an import has relied on is kept for as long as its objects are there
    gc.collect()
    collected = collect(store)
    assert collected.turns == 5
    assert collected.freed_bytes > 0
    assert collect(store).turns == 0
    (left,) = store.library.conversations()
    assert left.records == 6
    assert list(store.contents.payloads([1, 2, 3, 4, 5, 6]))


def test_a_session_that_was_edited_and_grows(store: Store, tmp_path: Path) -> None:
    texts = [said(number) for number in range(4)]
    path = session(tmp_path, lines(*texts))
    for grown in (5, 6, 7):
        assert Importer(store).run([path]).errors == []
        (talk,) = store.library.conversations()
        # what is about to be shown is kept as well, while the store is open
        store.writer.unshown = Unshown()
        Editor(store).edit(talk.id, {2: DELETED})
        prune_versions(store, talk.id, LATEST)
        collect(store)
        assert fsck(store) == []
        texts.append(said(grown))
        session(tmp_path, lines(*texts))
        assert Importer(store).run([path]).errors == []
        (talk,) = store.library.conversations()
        store.writer.unshown = Unshown()
        prune_versions(store, talk.id, LATEST)
        collect(store)
        (talk,) = store.library.conversations()
        assert talk.records == len(texts)
        turns = store.contexts.last(talk.id, 99, latest=True)
        assert [turn.deleted for turn in turns] == [False, True, *[False] * (len(texts) - 2)]
    exported = file(store, talk)
    assert all(text.encode() in exported for number, text in enumerate(texts) if number != 1)


def test_a_file_of_many_that_were_edited(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, Braid())
    path = tmp_path / "some.braid"
    path.write_bytes(BRAID)
    Importer(store).run([path])
    # the same conversation in another file: in the first, it is as it was
    again = tmp_path / "other.braid"
    again.write_bytes(b"b:first\nb:SECOND\n")
    Importer(store).run([again])
    talks = parts(store)
    Editor(store).edit(talks["a"].id, {3: DELETED})
    expected = file(store, talks["a"])
    assert b"b:second" in expected
    for talk in talks.values():
        prune_versions(store, talk.id, LATEST)
    collect(store)
    assert file(store, talks["a"]) == expected
    assert fsck(store) == []
    path.write_bytes(BRAID + b"b:third\n")
    assert Importer(store).run([path]).errors == []


def test_what_was_deleted_is_redacted_too(store: Store) -> None:
    metadata: dict[str, object] = {"project": "p", "name": "n", "title": "key-4711-0815"}
    context = store.contexts.create(metadata=metadata).context
    store.contexts.append(context, b'{"type":"user","text":"it is key-4711-0815"}', "x.v1")
    delete(store, context, store.contexts.tip(context))
    other = store.contexts.create(metadata={"project": "p", "name": "m"}).context
    store.contexts.append(other, b'{"type":"user","text":"nothing"}', "x.v1")
    texts = (b"key-4711-0815",)
    plan = Holder(store).call(redact_plan(texts))
    assert plan.conversations == []
    report = Holder(store).call(redact(texts))
    assert report.proof.found == []
    assert [version.action for version in store.catalogue.versions(other)] == ["append"]
