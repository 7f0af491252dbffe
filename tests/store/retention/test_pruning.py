"""Plans of pruning: what one finds is deleted, as far as it still is what was found."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.events.conversation import ARTIFACTS
from store.ids import now_ms
from store.importing.importer import Importer
from store.retention.plan import DAY_MS, Doomed, Selection, plan, rules
from store.retention.pruner import PruneReport, prune
from store.settings import Retention
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.parted_formats import Boxes, know
from tests.store.retention.test_importing import BOXES


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


def begun(store: Store, name: str, size: int = 10, **metadata: object) -> int:
    context = store.contexts.create(metadata={"project": "p", "name": name, **metadata}).context
    payload = b'{"timestamp":"2026-03-05 23:12:09.3","type":"chat_request","content":"%s"}' % (b"x" * size)
    store.contexts.append_many(context, [Append(payload, "jp.event.v1")] * 3)
    return context


def found(store: Store, *selections: Selection, keep: tuple[str, ...] = ("keep",), later_ms: int = 0) -> list[Doomed]:
    return list(plan(store, selections, keep, now_ms() + later_ms))


def names(doomed: list[Doomed]) -> list[tuple[str, str]]:
    return [(one.what, one.name) for one in doomed]


def test_conversations_by_all_that_is_asked_for(store: Store) -> None:
    begun(store, "small", labels=["old"])
    begun(store, "large", size=5000, labels=["old"])
    begun(store, "large-too", size=5000)
    begun(store, "pinned", size=5000, labels=["old"], pinned=True)
    begun(store, "kept", size=5000, labels=["old", "keep"])
    Editor(store).remove(begun(store, "removed", size=5000, labels=["old"]))

    def asked(keep: tuple[str, ...] = ("keep",), later_ms: int = 0, **conditions: object) -> set[str]:
        selection = Selection("conversations", **conditions)  # type: ignore[arg-type]
        return {one.name for one in found(store, selection, keep=keep, later_ms=later_ms)}

    assert asked() == {"small", "large", "large-too"}
    assert asked(label="old") == {"small", "large"}
    assert asked(label="old", keep=()) == {"small", "large", "kept"}
    assert asked(label="old", larger_bytes=9000) == {"large"}
    assert asked(project="another") == set()
    assert asked(contexts=(1, 2)) == {"small", "large"}
    assert asked(older_ms=DAY_MS) == set()
    assert asked(older_ms=DAY_MS, later_ms=2 * DAY_MS) == {"small", "large", "large-too"}
    assert [one.name for one in found(store, Selection("trash"))] == ["removed"]
    assert found(store, Selection("trash", older_ms=DAY_MS)) == []


def test_what_goes_as_a_whole_does_not_go_in_parts(store: Store) -> None:
    for name in ("one", "two"):
        context = begun(store, name)
        Editor(store).edit(context, {1: DELETED})
    versions, all_of_it = Selection("versions"), Selection("conversations", contexts=(1,))
    assert names(found(store, versions, all_of_it, all_of_it)) == [("conversation", "one"), ("versions", "two")]


def test_versions_by_when_they_were_over(store: Store) -> None:
    context = begun(store, "one")
    begun(store, "never edited")
    for number in (1, 2, 3):
        Editor(store).edit(context, {number: DELETED})
    first, second, *_, last = store.catalogue.versions(context)
    assert found(store, Selection("versions", older_ms=DAY_MS)) == []
    (all_but_one,) = found(store, Selection("versions"))
    assert (all_but_one.count, all_but_one.what) == (3, "versions")
    (some,) = plan(store, [Selection("versions", older_ms=0)], (), second.time_ms)
    assert some.last >= first.seq
    assert prune(store, [all_but_one]) == PruneReport(versions=3)
    assert store.catalogue.versions(context) == [last]
    assert found(store, Selection("versions")) == []


def test_artifacts(store: Store) -> None:
    context = begun(store, "one")
    artifacts = store.artifacts
    name = artifacts.begin(context, ARTIFACTS, "bash")
    artifacts.add(context, ARTIFACTS, name, b"out")
    artifacts.end(context, ARTIFACTS, name)
    (doomed,) = found(store, Selection("artifacts"))
    assert (doomed.what, doomed.count, doomed.bytes, doomed.keys) == ("artifacts", 1, 3, ("artifact/0.bash.log",))
    assert found(store, Selection("artifacts", older_ms=DAY_MS)) == []
    assert prune(store, [doomed, doomed]) == PruneReport(artifacts=1)
    assert found(store, Selection("artifacts")) == []


def test_what_has_changed_meanwhile_stays(store: Store) -> None:
    for name in ("grown", "removed", "gone", "unchanged"):
        begun(store, name)
    doomed = found(store, Selection("conversations"))
    by_name = {one.name: one.id for one in doomed}
    store.contexts.append(by_name["grown"], b"more", "x.v1")
    Editor(store).remove(by_name["removed"])
    assert prune(store, [one for one in doomed if one.name == "gone"]) == PruneReport(conversations=1)
    report = prune(store, doomed)
    assert report.conversations == 1
    assert len(report.skipped) == 3
    assert [entry.id for entry in store.catalogue.every()] == [by_name["grown"], by_name["removed"]]
    trash = found(store, Selection("trash"))
    Editor(store).bring_back(by_name["removed"])
    assert prune(store, trash).conversations == 0
    assert store.catalogue.by_name("p", "removed") is not None


def test_what_was_kept_of_a_file_goes_with_the_last_of_its_conversations(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, Boxes())
    path = tmp_path / "some.boxes"
    path.write_bytes(BOXES)
    Importer(store).run([path])
    one, other = found(store, Selection("conversations"))
    prune(store, [one])
    assert len(store.catalogue.layouts()) == 1
    prune(store, [other])
    assert store.catalogue.layouts() == []


def test_the_rules_of_a_store() -> None:
    assert rules(Retention()) == []
    assert rules(Retention(trash_days=30, versions_days=0.5)) == [
        Selection("trash", older_ms=30 * DAY_MS),
        Selection("versions", older_ms=DAY_MS // 2),
    ]
