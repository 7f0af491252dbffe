"""Names, titles, labels, forks and the trash."""

import threading
import time

import msgspec
import pytest

from store.conversations.contexts import Append
from store.conversations.lines import LogLine
from store.editing.editor import DELETED, Editor, version_log
from store.errors import Conflict, NotFound, UsageError
from store.store import Store
from tests.store.editing.records import TYPE, conversation, dialogue, history, said, shown


def names(store: Store) -> list[tuple[str, str]]:
    return [(talk.project, talk.name) for talk in store.library.conversations()]


def test_a_new_conversation(store: Store, editor: Editor) -> None:
    head = editor.create("shop", "2026-03-05-an-idea", title="An idea", format="claude-code")
    talk = store.library.conversation(head.context)
    assert (head.turn, talk.records, talk.events) == (0, 0, 0)
    assert (talk.project, talk.name, talk.title, talk.format) == (
        "shop",
        "2026-03-05-an-idea",
        "An idea",
        "claude-code",
    )
    with pytest.raises(Conflict, match="shop/2026-03-05-an-idea"):
        editor.create("shop", "2026-03-05-an-idea")
    assert editor.create("other", "2026-03-05-an-idea").context != head.context


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "a\nb", "\udc80", "x" * 256, "ä" * 128])
def test_names_that_cannot_be(store: Store, editor: Editor, name: str) -> None:
    context = editor.create("p", "n").context
    for change in (
        lambda: editor.create("p", name),
        lambda: editor.create(name, "n"),
        lambda: editor.fork(context, name),
        lambda: editor.rename(context, "p", name),
        lambda: editor.rename(context, name, "n"),
        lambda: editor.describe(context, {"labels": [name]}),
    ):
        with pytest.raises(UsageError):
            change()
    assert names(store) == [("p", "n")]


def test_renaming_and_regrouping(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(2), "talk")
    other = conversation(store, dialogue(1), "other")
    editor.rename(context, "p", "renamed")
    assert names(store) == [("p", "other"), ("p", "renamed")]
    with pytest.raises(Conflict):
        editor.rename(context, "p", "other")
    editor.rename(context, "q", "other")
    assert store.catalogue.projects() == ["p", "q"]
    editor.rename(other, "p", "talk")
    length = store.files.heads.length
    editor.rename(other, "p", "talk")
    assert store.files.heads.length == length
    with pytest.raises(NotFound):
        editor.rename(77, "p", "x")
    assert history(store, context) == ["append"]


def test_a_name_goes_to_one_of_many(store: Store, editor: Editor) -> None:
    contexts = [conversation(store, [], f"c{number}") for number in range(8)]
    won: list[int] = []

    def rename(context: int) -> None:
        try:
            editor.rename(context, "p", "wanted")
            won.append(context)
        except Conflict:
            pass

    threads = [threading.Thread(target=rename, args=(context,)) for context in contexts]
    writer = store.writer
    with writer.commit_lock:
        for thread in threads:
            thread.start()
        # all but the first are committed together
        while len(writer.gathering.waiting) < len(threads) - 1:
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert len(won) == 1
    talk = store.library.find("p", "wanted")
    assert talk is not None
    assert talk.id == won[0]


def test_describing(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(1))
    editor.describe(context, {"title": "Logging in", "labels": ["bug", "später"], "pinned": True, "archived": False})
    known = store.library.conversation(context).metadata
    assert (known["labels"], known["pinned"]) == (["bug", "später"], True)
    assert "archived" not in known
    assert store.library.conversation(context).title == "Logging in"
    editor.describe(context, {"labels": None, "title": None, "pinned": None, "archived": None})
    assert store.library.conversation(context).metadata == {"project": "p", "name": "talk"}
    length = store.files.heads.length
    editor.describe(context, {"labels": None})
    editor.describe(context, {"labels": [], "pinned": False, "archived": False})
    editor.describe(context, {})
    assert store.files.heads.length == length


def test_labels_are_given_and_taken(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(1))
    editor.relabel(context, add=["bug", "später"])
    editor.relabel(context, add=["bug"])
    assert store.library.conversation(context).metadata["labels"] == ["bug", "später"]
    assert [talk.id for talk in store.catalogue.labelled("bug")] == [context]
    editor.relabel(context, add=["done"], remove=["bug"])
    assert (store.library.conversation(context).metadata["labels"], store.catalogue.labels()) == (
        ["später", "done"],
        ["done", "später"],
    )
    editor.relabel(context, remove=["später", "done", "never"])
    assert "labels" not in store.library.conversation(context).metadata
    with pytest.raises(UsageError):
        editor.relabel(context, add=["a/b"])


def test_labels_given_at_once_are_all_there(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(1))
    ours = [[f"{thread}-{number}" for number in range(20)] for thread in range(4)]

    def label(some: list[str]) -> None:
        for before, name in zip(["", *some], some, strict=False):
            Editor(store).relabel(context, add=[name], remove=[before])
            store.contexts.set_metadata(context, {"title": name})

    threads = [threading.Thread(target=label, args=(some,)) for some in ours]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(store.library.conversation(context).labels) == sorted(some[-1] for some in ours)


def test_labels_that_came_with_an_import_may_stay(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(1))
    store.contexts.set_metadata(context, {"labels": ["a/b", 7, "x\ny"]})
    assert store.catalogue.labels() == ["a/b", "x\ny"]
    editor.relabel(context, add=["bug"], remove=["x\ny"])
    assert store.library.conversation(context).metadata["labels"] == ["a/b", "bug"]
    editor.relabel(context, remove=["a/b"])
    assert store.catalogue.labels() == ["bug"]


@pytest.mark.parametrize(
    "changes",
    [
        {"title": ""},
        {"title": "two\nlines"},
        {"title": 5},
        {"title": "x" * 1001},
        {"labels": "bug"},
        {"labels": [5]},
        {"labels": ["bug", "bug"]},
        {"labels": ["a/b"]},
        {"labels": [str(number) for number in range(1001)]},
        {"pinned": 1},
        {"archived": "yes"},
        {"cursor": {}},
        {"name": "x"},
        {"trashed_ms": 5},
    ],
)
def test_descriptions_that_cannot_be(store: Store, editor: Editor, changes: dict[str, object]) -> None:
    context = conversation(store, dialogue(1))
    with pytest.raises(UsageError):
        editor.describe(context, {"pinned": True, **changes})
    assert "pinned" not in store.library.conversation(context).metadata


def test_forks(store: Store, editor: Editor) -> None:
    lines = dialogue(5)
    context = conversation(store, lines)
    editor.describe(context, {"title": "A talk", "labels": ["bug"], "pinned": True})
    turns, head = store.files.turns.count, store.writer.head(context).tip
    fork = editor.fork(context, "whole").context
    early = editor.fork(context, "early", at=2, project="q").context
    assert store.files.turns.count == turns
    assert shown(store, fork) == lines
    assert shown(store, early) == lines[:2]
    talk = store.library.conversation(fork)
    assert (talk.project, talk.name, talk.title, talk.events) == ("p", "whole", "A talk", 5)
    assert talk.metadata["labels"] == ["bug"]
    assert "pinned" not in talk.metadata
    assert talk.metadata["forked_from"] == {"context": context, "turn": head}
    assert store.library.conversation(early).project == "q"
    editor.edit(fork, {1: b"in the fork"})
    editor.edit(context, {5: DELETED})
    editor.append(early, [Append(said("On"), TYPE)])
    assert shown(store, fork) == [b"in the fork", *lines[1:]]
    assert shown(store, context) == [*lines[:4], None]
    assert shown(store, early) == [*lines[:2], said("On")]
    assert history(store, fork) == ["fork", "edit 00001"]
    with pytest.raises(Conflict):
        editor.fork(context, "whole")
    with pytest.raises(NotFound):
        editor.fork(context, "beyond", at=6)
    empty = editor.create("p", "empty").context
    assert editor.fork(empty, "also empty").turn == 0


def test_the_trash(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(3))
    editor.describe(context, {"labels": ["bug"]})
    before, day = store.library.conversation(context), store.catalogue.days("2026-03") or store.catalogue.days()
    editor.remove(context)
    length = store.files.heads.length
    editor.remove(context)
    assert store.files.heads.length == length
    assert names(store) == []
    assert (
        store.catalogue.projects(),
        len(store.catalogue.page()),
        store.catalogue.recent(5),
        store.catalogue.days(),
    ) == (
        [],
        0,
        [],
        [],
    )
    assert store.library.find("p", "talk") is None
    [trashed] = store.library.trash()
    assert (trashed.id, trashed.project, trashed.name, trashed.events) == (context, "p", "talk", 3)
    with pytest.raises(UsageError):
        editor.rename(context, "p", "else")
    editor.bring_back(context)
    assert msgspec.structs.replace(store.library.conversation(context), described_ms=before.described_ms) == before
    assert (store.library.trash(), names(store), bool(day)) == ([], [("p", "talk")], True)
    editor.bring_back(context)


def test_a_name_that_was_taken_while_in_the_trash(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(1))
    editor.remove(context)
    conversation(store, dialogue(2))
    with pytest.raises(Conflict):
        editor.bring_back(context)
    assert [talk.id for talk in store.library.trash()] == [context]
    editor.bring_back(context, name="talk again")
    assert names(store) == [("p", "talk"), ("p", "talk again")]


def test_the_trash_is_in_order(store: Store, editor: Editor) -> None:
    contexts = [conversation(store, dialogue(1), f"c{number}") for number in range(3)]
    for context in reversed(contexts):
        editor.remove(context)
    assert {talk.id for talk in store.library.trash()} == set(contexts)
    times = [talk.metadata["trashed_ms"] for talk in store.library.trash()]
    assert times == sorted(times, key=lambda time: -int(str(time)))


def test_the_log(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(3))
    editor.edit(context, {2: b"{}"})
    editor.edit(context, {3: DELETED})
    editor.restore(context, 1)
    log = version_log(store.catalogue.versions(context))
    assert [(line.version, line.action, line.event) for line in log] == [
        (1, "append", None),
        (2, "edit 00002", 2),
        (3, "delete 00003", 3),
        (4, "restore 1", None),
    ]
    assert all(isinstance(line, LogLine) and line.time.endswith("Z") for line in log)
