"""Texts that were drawn: kept in blocks, equal to what is drawn, and gone with what they are drawn from."""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from fusefs.daemon import operations
from fusefs.text.render import FileRenderer
from store import paths, texts
from store.content import zstd
from store.conversations.contexts import Append
from store.conversations.viewer import Viewer
from store.editing.editor import DELETED, Editor
from store.errors import ConvfsError
from store.events.conversation import EventRow
from store.events.event import Event, Kind
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.retention.pruner import delete
from store.search.line import Line
from store.service.call import Holder
from store.store import Store
from store.texts import BLOCK_BYTES
from tests.store.content.noise import noise

LONG = "many words, and more of them " * 400


@pytest.fixture
def root(memory_path: Path) -> Path:
    return memory_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    with Store.open(root, renderer=FileRenderer()) as store:
        yield store


def said(*texts: str) -> list[Append]:
    return [Append(json.dumps({"role": "user", "content": text}).encode(), "api.message.v1") for text in texts]


def talk(store: Store, *texts: str) -> int:
    context = store.contexts.create(metadata={"project": "p", "name": f"n{len(store.catalogue.every())}"}).context
    store.contexts.append_many(context, said(*texts))
    return context


def head(store: Store, context: int) -> int:
    found = store.catalogue.head(context)
    assert found is not None
    return found[0]


def shown(store: Store, context: int) -> list[EventRow]:
    return [row for row in store.records.rows(head(store, context)) if row.kind is not Kind.RECORD]


def fill(store: Store) -> None:
    while store.texts.step():
        pass


def drawn(store: Store, context: int) -> list[tuple[bytes, bytes]]:
    renderer = FileRenderer()
    rows = shown(store, context)
    events = [(row.number, store.records.event(row)) for row in rows]
    return [(renderer.file(number, event), renderer.section(number, event)) for number, event in events]


def told(store: Store, context: int) -> list[tuple[object, object]]:
    rows = shown(store, context)
    files = [text for _row, text in store.texts.files_of(rows)]
    sections = [text for _row, text in store.texts.sections_of(rows)]
    return list(zip(files, sections, strict=True))


def undrawn(store: Store, context: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many events of a conversation are told without being drawn."""
    asked: list[int] = []

    def events(rows: list[EventRow]) -> Iterator[tuple[EventRow, object]]:
        asked.extend(row.number for row in rows)
        return real(rows)

    real = store.viewer.events
    with monkeypatch.context() as patched:
        patched.setattr(store.viewer, "events", events)
        count = len([*store.texts.files_of(shown(store, context))])
    return count - len(asked)


def blocks(store: Store) -> int:
    [[count]] = store.texts.db.query("SELECT count(*) FROM blocks")
    assert isinstance(count, int)
    return count


def test_what_was_drawn_is_told_again_without_drawing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context = talk(store, "Which tea?", f"## Green\n{LONG}", *(f"{number} {LONG}" for number in range(60)))
    assert told(store, context) == drawn(store, context)
    assert undrawn(store, context, monkeypatch) == 0
    fill(store)
    assert blocks(store) > 1
    assert told(store, context) == drawn(store, context)
    assert undrawn(store, context, monkeypatch) == 62
    sections = [section for _file, section in drawn(store, context)]
    [(first, count)] = store.records.runs(head(store, context))
    store.texts.forget()
    before = store.activity
    pieces = store.texts.sections([[(first, count)], [], [(first + 1, 2), (first + 40, 1)], [(first + count, 3)]])
    found = [b"".join(of) for of in pieces]
    assert found == [b"".join(sections), b"", b"".join([*sections[1:3], sections[40]]), b""]
    assert store.activity != before
    store.texts.forget()
    assert told(store, context) == drawn(store, context)


def test_threads_that_read_blocks_serve_again_until_memory_is_given_back(store: Store) -> None:
    def threads() -> set[int | None]:
        return {thread.ident for thread in threading.enumerate() if thread.name.startswith("convfs-reading")}

    before = threads()
    context = talk(store, *(f"{number} {LONG}" for number in range(60)))
    fill(store)
    runs = store.records.runs(head(store, context))
    assert blocks(store) > 1
    whole = b"".join(section for _file, section in drawn(store, context))
    for _ in range(5):
        store.texts.forget()
        assert [b"".join(of) for of in store.texts.sections([runs])] == [whole]
    assert 0 < len(threads() - before) <= len(os.sched_getaffinity(0))
    store.texts.shrink()
    assert threads() <= before
    assert [b"".join(of) for of in store.texts.sections([runs])] == [whole]
    store.close()
    assert threads() <= before


def test_what_grows_fills_its_last_block(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context = talk(store, "one")
    for number in range(20):
        store.contexts.append_many(context, said(f"more of it, {number}"))
        fill(store)
        assert blocks(store) == 1
    assert undrawn(store, context, monkeypatch) == 21
    store.contexts.append_many(context, said(*(f"{LONG} {number}" for number in range(BLOCK_BYTES // len(LONG)))))
    fill(store)
    before = blocks(store)
    store.contexts.append_many(context, said(*(f"{LONG} {number}" for number in range(BLOCK_BYTES // len(LONG)))))
    fill(store)
    assert blocks(store) > before
    assert undrawn(store, context, monkeypatch) == len(shown(store, context))
    assert told(store, context) == drawn(store, context)


def test_an_edit_and_a_fork_draw_what_changed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context = talk(store, *(f"{number} {LONG}" for number in range(40)))
    fill(store)
    fork = Editor(store).fork(context, "aside", at=30).context
    store.contexts.append_many(fork, said("another way"))
    edited = json.dumps({"role": "user", "content": "shorter"}).encode()
    Editor(store).edit(context, {20: edited, 5: DELETED})
    assert undrawn(store, fork, monkeypatch) == 30
    fill(store)
    for one in (context, fork):
        assert told(store, one) == drawn(store, one)
        assert undrawn(store, one, monkeypatch) == len(shown(store, one))


def test_blocks_that_were_merged_tell_the_same_and_take_less(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(root, renderer=FileRenderer()) as store:
        contexts = [
            talk(store, *(f"{number} of {talk_}: {noise(400, number).decode()} {LONG}" for number in range(60)))
            for talk_ in range(6)
        ]
        with monkeypatch.context() as patched:
            patched.setattr(texts, "_MERGED_BYTES", 1 << 40)
            fill(store)
        apart, [[before]] = blocks(store), store.texts.db.query("SELECT sum(length(data)) FROM blocks")
        told_before = [told(store, context) for context in contexts]
        store.contexts.append_many(contexts[0], said("one more"))
        fill(store)
        [[after]] = store.texts.db.query("SELECT sum(length(data)) FROM blocks")
        assert blocks(store) < apart // 3
        assert after < before
        assert store.texts.db.query("PRAGMA freelist_count") == [(0,)]
        for context, known in zip(contexts, told_before, strict=True):
            assert told(store, context)[: len(known)] == known
            assert told(store, context) == drawn(store, context)
            assert undrawn(store, context, monkeypatch) == len(shown(store, context))
        known = store.texts.db.query("SELECT * FROM spans")
        assert not store.texts.step()
        assert store.texts.db.query("SELECT * FROM spans") == known
    with Store.open(root, renderer=FileRenderer()) as store:
        assert undrawn(store, contexts[3], monkeypatch) == len(shown(store, contexts[3]))
        assert told(store, contexts[3]) == drawn(store, contexts[3])


def test_a_redacted_secret_is_in_no_merged_block(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context, other = talk(store, "It is correct horse battery.", *([LONG] * 60)), talk(store, *([LONG] * 60))
    monkeypatch.setattr(texts, "_MERGED_BYTES", 1 << 16)
    fill(store)
    assert store.texts.db.number("merged")
    done = Redaction(store, Secrets([b"correct horse battery"])).run()
    assert prove(store, Secrets([b"correct horse battery"]), done.gone).found == []
    fill(store)
    for one in (context, other):
        assert not any(b"horse" in text for texts_ in drawn(store, one) for text in texts_)
        assert told(store, one) == drawn(store, one)


def test_the_oldest_go_where_there_is_no_room(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_LEAST_BYTES", 300_000)
    root.mkdir()
    (root / paths.SETTINGS).write_text("text_cache_share = 0.001\n")
    with Store.open(root, renderer=FileRenderer()) as store:
        said = [[noise(9000, number * 7 + seed).decode() for number in range(60)] for seed in (1, 2)]
        first, last = (talk(store, *some) for some in said)
        fill(store)
        [[size]] = store.texts.db.query("SELECT sum(length(data)) FROM blocks")
        assert 0 < size <= 300_000
        assert undrawn(store, first, monkeypatch) == 0
        assert undrawn(store, last, monkeypatch) > 0
        assert told(store, first) == drawn(store, first)
        assert told(store, last) == drawn(store, last)


def test_damage_is_drawn_over(root: Path) -> None:
    with Store.open(root, renderer=FileRenderer()) as store:
        context = talk(store, "Which tea?", LONG)
        fill(store)
    with closing(sqlite3.connect(root / paths.TEXTS)) as db:
        db.execute("UPDATE blocks SET data = substr(data, 1, 40) || x'0000' || substr(data, 43)")
        db.commit()
    with Store.open(root, renderer=FileRenderer()) as store:
        assert [content for _row, content in store.texts.contents_of(shown(store, context))] == [None, None]
        assert told(store, context) == drawn(store, context)
        assert [hit.row and hit.row.number for hit in store.search.run("tea")] == [1]


def test_reclaimed_turns_leave_nothing(store: Store) -> None:
    gone, stays = talk(store, "the password of the cellar"), talk(store, "tea")
    fill(store)
    assert blocks(store) == 2
    delete(store, gone, head(store, gone))
    for _step in store.collector.steps(grace_seconds=0, least_part=0, dry_run=False):
        pass
    fill(store)
    assert blocks(store) == 1
    assert told(store, stays) == drawn(store, stays)


def test_the_proof_looks_into_blocks(store: Store) -> None:
    secret = "correct horse battery"
    talk(store, f"It is {secret}.", *([LONG] * 4))
    fill(store)
    secrets = Secrets([secret.encode()])
    assert any(paths.TEXTS in where for where in prove(store, secrets, ()).found)


def test_a_redacted_secret_is_not_told(store: Store) -> None:
    context = talk(store, "It is correct horse battery.", *([LONG] * 4))
    fill(store)
    assert b"horse" in told(store, context)[0][0]  # type: ignore[operator]
    done = Redaction(store, Secrets([b"correct horse battery"])).run()
    assert prove(store, Secrets([b"correct horse battery"]), done.gone).found == []
    assert b"horse" not in told(store, context)[0][0]  # type: ignore[operator]
    fill(store)
    assert told(store, context) == drawn(store, context)


def test_contents_are_those_that_would_be_drawn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "BLOCK_BYTES", 40_000)
    talks = [
        talk(store, *(f"{number}: {noise(50 * number, number).decode()} ünd {LONG}" for number in range(40)), "last")
        for _talk in range(3)
    ]
    rows = [row for context in talks for row in shown(store, context)]
    assert {content for _row, content in store.texts.contents_of(rows)} == {None}
    fill(store)
    assert blocks(store) > 2 * 4
    renderer = FileRenderer()
    events = {row: store.records.event(row) for row in rows}
    expected = {
        row.turn: texts.Content(renderer.content(event), renderer.first_line(row.number, event))
        for row, event in events.items()
    }
    for some in (rows, rows[::-7], rows[5:6], []):
        told = [(row.turn, content) for row, content in store.texts.contents_of(some)]
        assert sorted(told) == sorted((row.turn, expected[row.turn]) for row in some)
    # one that would be drawn otherwise, one that is of nobody, and one whose number may yet change
    others = [
        structs.replace(rows[3], file_size=rows[3].file_size + 1),
        structs.replace(rows[4], turn=10**6),
        structs.replace(rows[5], unsure=True),
    ]
    told = {row.turn: content for row, content in store.texts.contents_of([*others, rows[6]])}
    assert told == {rows[3].turn: None, 10**6: None, rows[5].turn: None, rows[6].turn: expected[rows[6].turn]}


def test_a_block_is_read_only_as_far_as_its_contents_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "BLOCK_BYTES", 8 << 20)
    context = talk(store, *(f"{number} {noise(200, number).decode()} {LONG}" for number in range(200)))
    fill(store)
    assert blocks(store) == 1
    taken: list[int] = []
    real = zstd.reading

    @contextmanager
    def reading(frame: bytes, at_most: int) -> Iterator[Callable[[int], bytes]]:
        with real(frame, at_most) as read:

            def counted(size: int) -> bytes:
                data = read(size)
                taken.append(len(data))
                return data

            yield counted

    monkeypatch.setattr(zstd, "reading", reading)
    rows = shown(store, context)
    [(_row, content)] = store.texts.contents_of(rows[2:3])
    assert content is not None
    assert content.text.startswith("2 ")
    assert sum(taken) < 4 * rows[0].file_size


def test_a_search_reads_what_was_drawn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context = talk(store, "green tea", "black coffee", *(f"{number} tea leaves, and {LONG}" for number in range(30)))
    while store.search.step():
        pass
    row = shown(store, context)[1]
    line = Line(FileRenderer().first_line(2, store.records.event(row)), "black coffee")
    read: list[EventRow] = []
    real = store.viewer.events

    def events(rows: list[EventRow]) -> object:
        read.extend(rows)
        return real(rows)

    monkeypatch.setattr(store.viewer, "events", events)
    # each has the pieces of it, and none has it
    assert [*store.search.run("/leaves.*tea/")] == []
    assert len(read) == 30
    fill(store)
    read.clear()
    assert [*store.search.run("/leaves.*tea/")] == []
    assert read == []
    [hit] = store.search.run("coffee")
    assert (hit.conversation.id, hit.row.number) == (context, 2)
    assert hit.lines == (line,)
    assert [*store.search.run("tea kind:user")] != []
    assert read == []
    # only the record tells what model it is of
    assert [*store.search.run("coffee -model:opus")] == [hit]
    assert [row.number for row in read] == [2]


def test_an_expression_without_words_looks_at_no_record_that_does_not_say_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = talk(store, *(f"{number} {LONG}" + "!?" * (number in (7, 900)) for number in range(1000)))
    while store.search.step():
        pass
    fill(store)
    asked: list[int] = []
    real = store.search.reading.rows

    def rows(ids: Sequence[int]) -> object:
        asked.extend(ids)
        return real(ids)

    monkeypatch.setattr(store.search.reading, "rows", rows)
    turns = {row.number: row.turn for row in shown(store, context)}
    assert {hit.row.turn for hit in store.search.run(r"/\!\?/") if hit.row} == {turns[8], turns[901]}
    assert set(asked) == {turns[8], turns[901]}
    # some were not drawn yet: these are read
    store.texts.renew()
    assert {hit.row.turn for hit in store.search.run(r"/\!\?/") if hit.row} == {turns[8], turns[901]}
    assert set(asked) == set(turns.values())


def test_a_transcript_that_is_printed_is_not_drawn_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context = talk(store, "one thing", "another")
    before = Holder(store).call(operations.show(context))
    fill(store)

    def none(_viewer: Viewer, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, Event | ConvfsError]]:
        raise AssertionError(f"{len(rows)} events were drawn")

    monkeypatch.setattr(Viewer, "events", none)
    assert Holder(store).call(operations.show(context)) == before
    assert "another" in before
