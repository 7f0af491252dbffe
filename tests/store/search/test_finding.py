"""Searching, against looking at the files of all events."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.errors import ConvfsError, DamageError
from store.ids import Hash, turn_of
from store.search.search import Search
from store.store import Store
from tests.model import unreadable_packs
from tests.store.editing.records import TYPE, called, conversation, returned, said
from tests.store.search.looking import looked, searched

WORDS = ("the", "lock", "file", "of", "a", "daemon", "Was", "not", "removed", "ÄRGER", "über-all", "straße", "東京都")


def text(chance: random.Random) -> str:
    lines = (" ".join(chance.choices(WORDS, k=chance.randrange(12))) for _ in range(chance.randrange(1, 5)))
    return "\n".join(lines)


def records(chance: random.Random, count: int) -> list[bytes]:
    found: list[bytes] = []
    for number in range(count):
        call = f"c{number}"
        found += chance.choice(
            [
                [said(text(chance))],
                [called("Read", call), returned(text(chance) * chance.choice([1, 40]), call)],
            ]
        )
    return found


@pytest.mark.parametrize("edits", ["branch", "overlay"])
@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_there_is_found_and_nothing_else(memory_path: Path, edits: str, seed: int) -> None:
    chance = random.Random(seed)
    (memory_path / "store").mkdir()
    (memory_path / "store" / "convfs.toml").write_text(f'edits = "{edits}"\n')
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        search = store.search
        contexts = [conversation(store, records(chance, 6), f"talk{number}") for number in range(4)]
        for _step in range(40):
            context = chance.choice(contexts)
            what = chance.randrange(7)
            length = store.catalogue.entry(context).records
            if what == 0:
                store.contexts.append_many(context, [Append(payload, TYPE) for payload in records(chance, 2)])
            elif what == 1:
                changes = {chance.randrange(length) + 1: chance.choice([said(text(chance)), DELETED])}
                Editor(store).edit(context, changes)
            elif what == 2 and len(contexts) < 9:
                at = turn_of(chance.choice(store.records.rows(store.writer.head(context).tip)).turn)
                name = f"talk{len(contexts)}"
                contexts.append(store.contexts.fork(context, at, metadata={"project": "q", "name": name}).context)
            elif what == 3:
                search.step()
            else:
                line = chance.choice(text(chance).split("\n"))
                start = chance.randrange(len(line) + 1)
                part = line[start : start + chance.randrange(1, 9)].strip()
                if part and '"' not in part:
                    expected = looked(store, part, ignore_case=part == part.lower())
                    assert searched(search, f'"{part}"') == expected


def test_filters_say_where_to_look(store: Store, search: Search) -> None:
    shop = conversation(store, [said("a bolt"), called("Read", "c1"), returned("a bolt\n" * 300, "c1")], "one")
    store.contexts.create(metadata={"project": "mill", "name": "two", "labels": ["Bug", "old"]})
    store.contexts.append_many(shop + 1, [Append(said("no bolt here"), TYPE), Append(said("nor there"), TYPE)])
    for _ in range(2):
        assert searched(search, "bolt").keys() == {"one/1", "one/3", "two/1"}
        assert searched(search, "bolt project:P").keys() == {"one/1", "one/3"}
        assert searched(search, "bolt -project:p").keys() == {"two/1"}
        assert searched(search, "bolt label:bug").keys() == {"two/1"}
        assert searched(search, "label:bug").keys() == {"two/1", "two/2"}
        assert searched(search, "bolt -label:bug").keys() == {"one/1", "one/3"}
        assert searched(search, "bolt role:user").keys() == {"one/1", "two/1"}
        assert searched(search, "bolt role:tool").keys() == {"one/3"}
        assert searched(search, "bolt tool:read").keys() == {"one/3"}
        assert searched(search, "tool:read").keys() == {"one/2", "one/3"}
        assert searched(search, "bolt uri:c1.PY").keys() == {"one/3"}
        assert searched(search, "bolt -uri:c1.py").keys() == {"one/1", "two/1"}
        assert searched(search, "bolt -here").keys() == {"one/1", "one/3"}
        assert searched(search, "bolt after:1").keys() == {"one/1", "one/3", "two/1"}
        assert searched(search, "bolt before:1") == {}
        assert searched(search, "bolt project:nowhere") == {}
        while search.step():
            pass


def test_filters_of_conversations(store: Store, search: Search) -> None:
    told: dict[str, dict[str, object]] = {
        "one": {"title": "Log in", "format": "codex", "branch": "main"},
        "two": {"title": "Log out", "format": "claude-code", "branch": "fix/login", "parent_session": "s"},
        "three": {"title": "", "pinned": True, "forked_from": {"context": 1}},
    }
    for name, metadata in told.items():
        context = store.contexts.create(metadata={"project": "p", "name": name, **metadata}).context
        store.contexts.append_many(context, [Append(said(f"a bolt of {name}"), TYPE)])
    for _ in range(2):
        assert searched(search, "title:log").keys() == {"one/1", "two/1"}
        assert searched(search, 'bolt title:"LOG IN"').keys() == {"one/1"}
        assert searched(search, "bolt -title:log").keys() == {"three/1"}
        assert searched(search, "format:c*").keys() == {"one/1", "two/1"}
        assert searched(search, "bolt format:codex").keys() == {"one/1"}
        assert searched(search, "branch:fix/*").keys() == {"two/1"}
        assert searched(search, "is:subagent").keys() == {"two/1"}
        assert searched(search, "bolt -is:subagent").keys() == {"one/1", "three/1"}
        assert searched(search, "is:pinned is:fork").keys() == {"three/1"}
        assert searched(search, "is:archived") == {}
        assert searched(search, "bolt branch:main OR is:fork").keys() == {"one/1", "three/1"}
        assert searched(search, "branch:main OR three").keys() == {"one/1", "three/1"}
        assert searched(search, "one OR two -is:subagent").keys() == {"one/1"}
        while search.step():
            pass


def test_one_of_several(store: Store, search: Search) -> None:
    texts = ["a lock\na key", "a key", "a bolt\nand a lock", "nothing"]
    conversation(store, [*(said(text) for text in texts), called("Read", "c"), returned("a bolt", "c")])
    for _ in range(2):
        assert searched(search, "key OR bolt").keys() == {"talk/1", "talk/2", "talk/3", "talk/6"}
        found = searched(search, "lock key OR bolt")
        assert {place: len(lines) for place, lines in found.items()} == {"talk/1": 2, "talk/3": 2}
        assert searched(search, "lock OR nothing key OR nothing").keys() == {"talk/1", "talk/4"}
        assert searched(search, "/k.y/ OR tool:Read -nothing").keys() == {"talk/1", "talk/2", "talk/5", "talk/6"}
        assert searched(search, "bolt -lock OR role:tool").keys() == {"talk/6"}
        assert searched(search, "key OR after:2999").keys() == {"talk/1", "talk/2"}
        assert searched(search, "key OR lock before:1") == {}
        while search.step():
            pass


def test_titles_and_labels_are_found(store: Store, search: Search) -> None:
    made: dict[str, dict[str, object]] = {
        "set": {"title": 'The "old" lock'},
        "asked": {"title": "Where is the lock", "naming": {"title": 2}},
        "gone": {"title": "A lock that is gone", "naming": {"title": 2}},
        "labelled": {"title": "Other", "labels": ["door", "lock"]},
        "removed": {"title": "A lock", "trashed_ms": 5},
    }
    for name, metadata in made.items():
        context = store.contexts.create(metadata={"project": "p", "name": name, **metadata}).context
        store.contexts.append_many(context, [Append(said("Where is the lock" if name == "asked" else "x"), TYPE)])

    def found(query: str) -> list[tuple[str, int | None, list[tuple[int, str]]]]:
        return [
            (hit.conversation.name, hit.row and hit.row.number, [(line.number, line.text) for line in hit.lines])
            for hit in search.run(query)
        ]

    for _ in range(2):
        assert found("lock") == [
            ("labelled", None, [(5, '    "lock"')]),
            ("set", None, [(2, '  "title": "The \\"old\\" lock",')]),
            ("asked", 1, [(5, "Where is the lock")]),
            ("gone", None, [(2, '  "title": "A lock that is gone",')]),
        ]
        assert [name for name, *_ in found("old OR door")] == ["labelled", "set"]
        assert found("lock role:user")[0][0] == "asked"
        assert found("lock label:door") == [("labelled", None, [(5, '    "lock"')])]
        assert [name for name, *_ in found("lock -old")] == ["labelled", "asked", "gone"]
        assert found("title:old") == [("set", 1, [])]
        assert found("trashed OR labels OR title") == []
        assert len(list(search.run("lock", 2))) == 2
        while search.step():
            pass


def test_the_best_comes_first(store: Store, search: Search) -> None:
    records = [
        said("bye by reset"),
        said("it was connection\n of a reset"),
        said("connections were reset"),
        said("reset my connection"),
        called("Read", "c"),
        returned("connection reset", "c"),
        said("connection reset by it"),
    ]
    conversation(store, records)
    for _ in range(2):
        assert list(searched(search, "connection reset")) == ["talk/7", "talk/4", "talk/2", "talk/3", "talk/6"]
        assert [hit.row.number for hit in search.run("reset", 2)] == [7, 4]
        while search.step():
            pass


def test_what_forks_share_is_told_of_each_after_what_is_not(store: Store, search: Search) -> None:
    context = conversation(store, [said("a lock"), said("another lock")])
    for number in range(5):
        store.contexts.fork(context, 1, metadata={"project": "p", "name": f"fork{number}"})
    while search.step():
        pass
    hits = [(hit.conversation.name, hit.row.number) for hit in search.run("lock")]
    assert len(hits) == 7
    assert {number for _name, number in hits[:2]} == {1, 2}
    assert set(hits) == {("talk", 1), ("talk", 2), *((f"fork{number}", 1) for number in range(5))}
    store.contexts.set_metadata(context, {"trashed_ms": 1})
    assert {hit.conversation.name for hit in search.run("lock")} == {f"fork{number}" for number in range(5)}


@pytest.mark.parametrize("filed", [False, True])
def test_texts_of_all_sorts(store: Store, search: Search, filed: bool) -> None:
    texts = {
        "nul": "before\0after the nul",
        "half": "half a pair \ud800 here",
        "right": "\u202e\u05e9\u05dc\u05d5\u05dd, مرحبا بالعالم",
        "wide": "東京都庁舎の中で",
        "emoji": "family \U0001f468\u200d\U0001f469\u200d\U0001f467 here",
        "long": "x" * 3_000_000 + "needle" + "y" * 100,
        "fence": "````block text\nnot a block",
        "returns": "one\r\ntwo\rthree\x0bfour\x85five\u2028six",
        "odd": "\ufffe\uffff\ufeff end",
    }
    for name, said_text in texts.items():
        conversation(store, [said(said_text)], name)
    while filed and search.step():
        pass
    for part, name in (
        ("e\0a", "nul"),
        ("the nul", "nul"),
        ("\ufffd here", "half"),
        ("\u05e9\u05dc\u05d5\u05dd", "right"),
        ("حبا بال", "right"),
        ("京都庁", "wide"),
        ("庁", "wide"),
        ("\u200d\U0001f469\u200d", "emoji"),
        ("xneedley", "long"),
        ("````block", "fence"),
        ("two\rthree", "returns"),
        ("five\u2028six", "returns"),
        ("\uffff\ufeff", "odd"),
    ):
        assert searched(search, f'"{part}"') == looked(store, part, ignore_case=True) != {}, part
        assert [hit.conversation.name for hit in search.run(f'"{part}"')] == [name]
    (hit,) = search.run("/five.six/")
    assert hit.lines[0].text == "two\rthree\x0bfour\x85five\u2028six"


def test_a_damaged_event_is_left_out_and_found_when_it_is_back(store: Store, search: Search) -> None:
    context = conversation(store, [said("a lock"), said("another lock"), said("the third lock")])
    store.checkpointer.flush()
    list(store.records.rows(store.writer.head(context).tip))
    digest = store.contexts.last(context, 2)[0].payload_hash
    sound = store.blobs.blobs

    def damaged(digests: Sequence[Hash]) -> dict[Hash, bytes | ConvfsError]:
        return {one: DamageError("it is damaged") if one == digest else found for one, found in sound(digests).items()}

    store.blobs.blobs = damaged  # type: ignore[method-assign]
    while search.step():
        pass
    assert searched(search, "lock").keys() == {"talk/1", "talk/3"}
    store.blobs.blobs = sound  # type: ignore[method-assign]
    assert searched(search, "lock").keys() == {"talk/1", "talk/2", "talk/3"}


def test_what_is_appended_while_somebody_reads_hits_is_not_told_twice(store: Store, search: Search) -> None:
    context = conversation(store, [said(f"lock {number}") for number in range(700)])
    while search.step():
        pass
    hits = search.run("lock")
    first = [next(hits).row.number for _ in range(30)]
    store.contexts.append_many(context, [Append(said(f"lock {number}"), TYPE) for number in range(100)])
    while search.step():
        pass
    found = first + [hit.row.number for hit in hits]
    assert sorted(found) == list(range(1, 701))
    assert len(list(search.run("lock"))) == 800


def test_what_could_not_be_read_for_a_moment_is_filed_later(
    store: Store, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = "c1"
    conversation(store, [said("a lock"), called("Read", call), returned("the lock is read", call), said("locked")])
    store.checkpointer.flush()
    store.blobs.forget()
    with unreadable_packs(monkeypatch):
        while search.step():
            pass
    store.blobs.forget()
    assert searched(search, "lock") == looked(store, "lock", ignore_case=True)
    search._again = 0.0
    while search.step():
        pass
    assert search.unfiled == 0
    assert searched(search, "lock") == looked(store, "lock", ignore_case=True)
    assert len(searched(search, "tool:Read")) == 2
