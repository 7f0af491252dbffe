"""Records as they were measured: when they are, by whom, and what it is that they say."""

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer, render_event
from store.conversations import viewer as viewer_module
from store.conversations.branch import length
from store.conversations.contexts import Append
from store.conversations.turns import Contents
from store.disk.file_header import Damage
from store.disk.turn_format import Turn
from store.errors import ConvfsError, DamageError, NotFound
from store.events.conversation import EventRow, Sizes
from store.events.event import Event, Kind
from store.importing.importer import Importer
from store.index.database import DERIVED_FROM_RENDERER
from store.store import Store
from tests.model import findings
from tests.store.importing.sessions import line, session

TYPE = "claude-code.line.v1"


class Lengths:
    """Measures by simple rules, and counts how often it does."""

    def __init__(self, version: int, factor: int = 1) -> None:
        self.version = version
        self.factor = factor
        self.measured = 0

    def measure(self, number: int, event: Event, format: str, payload_size: int) -> Sizes:
        self.measured += 1
        return Sizes(self.factor * number, self.factor * len(event.blocks), self.factor * payload_size)


def lines(count: int) -> list[bytes]:
    """Return records that refer to each other: calls, results, and to what precedes them."""
    made = []
    for number in range(count):
        content: object = f"text {number}"
        if number % 4 == 1:
            content = [{"type": "tool_use", "id": f"t{number}", "name": f"Tool{number}", "input": {"path": "/a.py"}}]
        elif number % 4 == 2:
            content = [{"type": "tool_result", "tool_use_id": f"t{number - 1}", "content": f"result {number} " * 90}]
        role = "assistant" if number % 2 else "user"
        fields: dict[str, object] = {"message": {"role": role, "content": content}}
        if number % 7 == 6:
            fields["parentUuid"] = f"u{number - 4}"
        made.append(line("", number, **fields))
    return made


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store


def tables(store: Store) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: store.files.index.db.query(f"SELECT * FROM {table} ORDER BY 1, 2") for table in DERIVED_FROM_RENDERER
    }


def said(rows: list[EventRow]) -> list[tuple[object, ...]]:
    """Return everything that rows say but which turns they are of."""
    return [
        (
            row.number,
            row.kind,
            row.tool,
            row.parent,
            row.time_ms,
            row.file_size,
            row.section_size,
            row.json_size,
            row.payload_size,
        )
        for row in rows
    ]


def test_rows_of_what_was_appended_equal_those_of_an_import(store: Store, tmp_path: Path) -> None:
    payloads = lines(40)
    Importer(store).run([session(tmp_path, b"".join(payload + b"\n" for payload in payloads))])
    [imported] = store.library.conversations()
    in_one, one_by_one = store.contexts.create().context, store.contexts.create().context
    store.contexts.append_many(in_one, [Append(payload, TYPE) for payload in payloads])
    for payload in payloads:
        # measured as they come, and in between not at all
        store.contexts.append(one_by_one, payload, TYPE)
        if len(payload) % 3:
            list(store.records.rows(store.writer.head(one_by_one).turn))
    expected = said(list(store.records.rows(imported.head)))
    assert {tool for _, _, tool, *_ in expected} >= {"Tool1", "Tool37"}
    assert {parent for _, _, _, parent, *_ in expected} >= {0, 3}
    for context in (in_one, one_by_one):
        rows = list(store.records.rows(store.writer.head(context).turn))
        assert said(rows) == expected
        assert [row.turn for row in rows] == [turn.turn_id for turn in store.contexts.last(context, 100)]
        appended = store.library.conversation(context)
        assert appended.events == imported.events
        assert (appended.transcript_size, appended.json_size) == (imported.transcript_size, imported.json_size)


def test_rows_say_what_is_drawn(store: Store) -> None:
    context = store.contexts.create().context
    store.contexts.append_many(context, [Append(payload, TYPE) for payload in [*lines(9), b"no json", b"\xff\0", b""]])
    head = store.writer.head(context).turn
    events = list(store.viewer.events(store.records.rows(head)))
    assert [row for row, _ in events] == list(store.records.rows(head))
    for row, event in events:
        assert isinstance(event, Event)
        assert store.records.event(row) == event
        assert store.records.row(head, row.number) == row
        assert event.kind is row.kind
        if row.kind is not Kind.RECORD:
            assert len(render_event(row.number, event)) == row.file_size
    assert store.records.row(head, 0) is None
    assert store.records.row(head, 13) is None


def test_a_branch_shares_the_rows_of_what_it_shares(memory_path: Path) -> None:
    renderer = Lengths(1)
    with Store.open(memory_path / "store", renderer=renderer) as store:
        context = store.contexts.create().context
        turns = store.contexts.append_many(context, [Append(payload, TYPE) for payload in lines(20)])
        rows = store.records.rows(turns[-1].turn_id)
        assert renderer.measured == 0
        assert len(list(rows)) == renderer.measured == 20
        fork = store.contexts.fork(context, turns[9].turn_id).context
        store.contexts.append(fork, line("other", 10), TYPE)
        branch = store.records.rows(store.writer.head(fork).turn)
        assert list(branch[:10]) == list(rows[:10])
        assert renderer.measured == 21
        assert branch[10].number == 11


def test_a_branch_that_grows_is_measured_where_it_grew(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = Lengths(1)
    with Store.open(memory_path / "store", renderer=renderer) as store:
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(payload, TYPE) for payload in lines(300)])
        first = list(store.records.rows(store.writer.head(context).turn))
        asked: list[int] = []
        real = store.views.rows
        monkeypatch.setattr(store.views, "rows", lambda runs, number: asked.append(length(runs)) or real(runs, number))
        for number in range(300, 305):
            store.contexts.append(context, line("more", number), TYPE)
            rows = store.records.rows(store.writer.head(context).turn)
            assert rows[-1].number == len(rows) == number + 1
        assert renderer.measured == 305
        # twice the new one, and the one before it, which it may refer to
        assert asked == [1] * 15
        assert rows[:300] == first


def test_another_renderer_measures_anew_and_the_same_one_does_not(memory_path: Path) -> None:
    first = Lengths(1)
    with Store.open(memory_path / "store", renderer=first) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        store.contexts.append_many(context, [Append(payload, TYPE) for payload in lines(10)])
        conversation = store.library.conversation(context)
        assert first.measured == 10
    same = Lengths(1)
    with Store.open(memory_path / "store", renderer=same) as store:
        assert store.library.conversation(context) == conversation
        assert same.measured == 0
    with Store.open(memory_path / "store") as store:
        # without a renderer nothing is measured, and nothing forgotten
        assert store.writer.head(context).depth == 9
        assert findings(store) == []
        with pytest.raises(ConvfsError, match="without a renderer"):
            list(store.records.rows(store.contexts.append(context, b"more", TYPE).turn_id))
    other = Lengths(2, factor=3)
    with Store.open(memory_path / "store", renderer=other) as store:
        changed = store.library.conversation(context)
        assert other.measured == 11
        assert [row.file_size for row in store.records.rows(changed.head)] == [3 * number for number in range(1, 12)]
        assert changed.json_size == 3 * (sum(map(len, lines(10))) + 4)


def test_rows_made_anew_are_the_same(store: Store, tmp_path: Path) -> None:
    Importer(store).run([session(tmp_path, b"".join(payload + b"\n" for payload in lines(30)))])
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    store.contexts.append_many(context, [Append(payload, TYPE) for payload in lines(12)])
    store.library.conversations()
    grown = tables(store)
    store.close()
    with Store.open(store.root, renderer=FileRenderer(), reindex=True) as again:
        assert tables(again) != grown
        again.library.conversations()
        assert tables(again) == grown


def test_resources(store: Store) -> None:
    context = store.contexts.create().context
    result = {"type": "text", "file": {"filePath": "/home/ada/a.py", "content": "print()\n", "numLines": 1}}
    call = [{"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/home/ada/a.py"}}]
    answer = [{"type": "tool_result", "tool_use_id": "t", "content": "     1\tprint()\n"}]
    payloads = [
        line("", 1, message={"role": "assistant", "content": call}),
        line("", 2, message={"role": "user", "content": answer}, toolUseResult=result),
    ]
    store.contexts.append_many(context, [Append(payload, TYPE) for payload in payloads])
    head = store.writer.head(context).turn
    [resource] = store.records.resources(head)
    assert (resource.number, resource.uri) == (2, "file:///home/ada/a.py")
    assert store.records.resource(resource) == b"print()\n"
    assert resource.size == 8
    fork = store.contexts.fork(context).context
    assert store.records.resources(store.writer.head(fork).turn) == [resource]
    with pytest.raises(NotFound):
        store.records.resource(type(resource)(resource.turn, 2, 5, "file:///x", "", 1, 0, b""))


def test_text_that_is_no_unicode(store: Store) -> None:
    """JSON may hold half of a surrogate pair; SQLite and UTF-8 cannot."""
    context = store.contexts.create().context
    call = '{"type":"tool_use","id":"\\ud800","name":"Ba\\udfffsh","input":{"file_path":"/\\ud83d"}}'
    text = '{"type":"assistant","message":{"role":"assistant","content":[' + call + ']},"uuid":"\\udc00"}'
    result = '{"type":"tool_result","tool_use_id":"\\ud800","content":"\\ud800 text"}'
    answer = '{"type":"user","message":{"content":[' + result + ']},"toolUseResult":{"filePath":"/\\ud83d"}}'
    store.contexts.append_many(context, [Append(text.encode(), TYPE), Append(answer.encode(), TYPE)])
    head = store.writer.head(context).turn
    rows = store.records.rows(head)
    assert [row.kind for row in rows] == [Kind.TOOL_CALL, Kind.TOOL_RESULT]
    for row, event in store.viewer.events(rows):
        assert isinstance(event, Event)
        assert len(render_event(row.number, event)) == row.file_size
    store.records.resources(head)


def test_numbers_that_do_not_fit(store: Store) -> None:
    context = store.contexts.create().context
    for value in (10**18, -1, 1 << 63, 10**30, 1.5e300):
        store.contexts.append(
            context, b'{"type":"user","timestamp":%s,"message":{"content":"x"}}' % json.dumps(value).encode(), TYPE
        )
        store.contexts.append(
            context, b'{"type":"user","timestamp":"9999999-01-01T00:00:00Z","message":{"content":"x"}}', TYPE
        )
    assert len(store.records.rows(store.writer.head(context).turn)) == 10


# -- damage --------------------------------------------------------------------------------------------------------


def damage_payload(store: Store, turn: int) -> None:
    """Damage the record that holds a turn's payload; it must have been packed alone."""
    digest = store.turns.get(turn).payload_hash
    [(pack, offset, _)] = store.files.index.locate([digest])[digest]
    path = store.files.packs.path(pack)
    data = bytearray(path.read_bytes())
    data[offset + 50] ^= 1
    path.write_bytes(data)


def test_a_damaged_payload_is_the_trouble_of_its_own_record(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        for payload in lines(6):
            store.contexts.append(context, payload, TYPE)
            store.checkpointer.flush()
        damage_payload(store, store.contexts.last(context, 3)[0].turn_id)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        conversation = store.library.find("p", "n")
        assert conversation is not None
        rows = store.records.rows(conversation.head)
        assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
        seen = [event for _row, event in store.viewer.events(rows)]
        assert [isinstance(event, DamageError) for event in seen] == [False, False, False, True, False, False]
        with pytest.raises(DamageError):
            store.records.event(rows[3])


def test_a_damaged_turn_is_the_trouble_of_its_own_conversation(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        for name in ("one", "two"):
            context = store.contexts.create(metadata={"project": "p", "name": name}).context
            turns = store.contexts.append_many(context, [Append(payload, TYPE) for payload in lines(3)])
        store.checkpointer.flush()
        path = store.root / "turns" / "turns.log"
        data = bytearray(path.read_bytes())
        data[32 + 80 * (turns[1].turn_id - 1) + 30] ^= 1
        path.write_bytes(data)
        assert [conversation.name for conversation in store.library.conversations("p")] == ["one", "two"]
        first, second = store.library.conversations()
        assert len(store.records.rows(first.head)) == 3
        with pytest.raises(DamageError):
            list(store.records.rows(second.head))
        assert not any(isinstance(record, Damage) for _, _, record in store.files.packs.scan())


def test_payloads_too_large_to_be_parsed_are_shown_as_a_note(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer_module, "LARGEST_VIEWED", 1000)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(line("x" * 2000), TYPE), Append(line("small", 1), TYPE)])
        rows = store.records.rows(store.writer.head(context).turn)
        assert rows[0].kind is Kind.NOTE
        assert rows[0].payload_size > 2000
        event = store.records.event(rows[0])
        assert "too large to show" in str(event.header["note"])
        assert len(render_event(1, event)) == rows[0].file_size
        # what it defined, nobody knows
        assert rows[1].parent == -1


def test_threads_that_ask_at_once_measure_once(memory_path: Path) -> None:
    renderer = Lengths(1)
    with Store.open(memory_path / "store", renderer=renderer) as store:
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(payload, TYPE) for payload in lines(60)])
        head = store.writer.head(context).turn
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(len([*store.records.rows(head)]))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [60] * 8
        assert renderer.measured == 60


def test_who_waits_for_what_is_far_away_holds_up_no_other_conversation(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [store.contexts.create().context for _ in range(2)]
    for context in contexts:
        store.contexts.append_many(context, [Append(payload, TYPE) for payload in lines(3)])
    far, near = (store.writer.head(context).turn for context in contexts)
    asked, comes = threading.Event(), threading.Event()
    of_turns = Contents.of_turns

    def fetching(contents: Contents, turns: Sequence[Turn]) -> object:
        if any(turn.turn_id == far for turn in turns):
            asked.set()
            assert comes.wait(60)
        return of_turns(contents, turns)

    monkeypatch.setattr(Contents, "of_turns", fetching)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda head=head: found.append(len([*store.records.rows(head)])), daemon=True)
        for head in (far, near)
    ]
    threads[0].start()
    assert asked.wait(60)
    threads[1].start()
    threads[1].join(30)
    try:
        assert found == [3]
    finally:
        comes.set()
        for thread in threads:
            thread.join()
    assert found == [3, 3]
