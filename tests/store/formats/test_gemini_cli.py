import base64
import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind
from store.exporting.steps import steps_of
from store.formats.core.format import About, Part, Source
from store.formats.core.look import Look
from store.formats.gemini_cli.lens import GeminiCliLens
from store.formats.gemini_cli.session import GeminiCli, Thread, threads
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, check_text_edit, edit_of
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

GEMINI = GeminiCli()
LENS = GeminiCliLens()
ROOT = "/home/ada/shop"
HASH = hashlib.sha256(ROOT.encode()).hexdigest()
SESSION = "3739ef95-0000-4000-8000-000000000000"
TIME = "2026-01-16T18:34:01.000Z"
BEGINNING = {"sessionId": SESSION, "projectHash": HASH, "startTime": TIME, "lastUpdated": TIME}


def message(what: str, content: object, identifier: str = "m1", **fields: object) -> dict[str, object]:
    return {"id": identifier, "timestamp": TIME, "type": what, "content": content, **fields}


def call(returned: object, **fields: object) -> dict[str, object]:
    response = {"functionResponse": {"id": "c1", "name": "read_file", "response": returned}}
    common = {"id": "c1", "name": "read_file", "args": {"path": "a"}, "status": "success", "result": [response]}
    return {**common, **fields}


def document(*messages: dict[str, object], **after: object) -> bytes:
    return json.dumps(BEGINNING | {"messages": list(messages)} | after, indent=2, ensure_ascii=False).encode()


def lines(*records: dict[str, object] | bytes) -> bytes:
    spelled = (one if isinstance(one, bytes) else json.dumps(one, separators=(",", ":")).encode() for one in records)
    return b"".join(line + b"\n" for line in spelled)


def changed(**fields: object) -> dict[str, object]:
    return {"$set": fields}


def see(record: dict[str, object] | bytes, earlier: Earlier | None = None) -> Event:
    earlier = earlier or Earlier()
    payload = record if isinstance(record, bytes) else json.dumps(record).encode()
    event = LENS.view(payload, earlier)
    check(event)
    return earlier.add(event)


def texts(event: Event) -> list[tuple[str, str | None]]:
    return [(block.name, block.text) for block in event.blocks]


THOUGHT = {"subject": "Why", "description": "Because", "timestamp": TIME}
RECORDS: list[tuple[dict[str, object], Kind, list[tuple[str, str | None]]]] = [
    (message("user", "Fix it"), Kind.USER, [("", "Fix it")]),
    (message("user", [{"text": "Fix"}, {"text": " it"}]), Kind.USER, [("", "Fix"), ("", " it")]),
    (message("user", "Fix it", displayContent="Fix it"), Kind.USER, [("", "Fix it")]),
    (message("user", "Fix @a: x", displayContent="Fix @a"), Kind.USER, [("", "Fix @a: x"), ("display", "Fix @a")]),
    (message("user", "<session_context>\nToday"), Kind.SYSTEM, [("", "<session_context>\nToday")]),
    (message("gemini", "Done"), Kind.ASSISTANT, [("", "Done")]),
    (
        message("gemini", "Done", thoughts=[THOUGHT]),
        Kind.ASSISTANT,
        [("thinking", "Why"), ("thinking", "Because"), ("", "Done")],
    ),
    (message("gemini", "", thoughts=[THOUGHT]), Kind.REASONING, [("thinking", "Why"), ("thinking", "Because")]),
    (message("gemini", ""), Kind.RECORD, []),
    ({"id": "m", "timestamp": TIME, "type": "model", "parts": [{"text": "Ok"}]}, Kind.ASSISTANT, [("", "Ok")]),
    (message("info", "Cancelled."), Kind.NOTE, [("", "Cancelled.")]),
    (
        message("gemini", "Look", toolCalls=[call({"output": "x = 1\n"}, resultDisplay="Read 1 line")]),
        Kind.TOOL_CALL,
        [("", "Look"), ("arguments", '{\n  "path": "a"\n}'), ("result", "x = 1\n")],
    ),
    (
        message("gemini", "", toolCalls=[call({"error": "no\n"}, status="error"), call({"a": 1}, id="c2", args={})]),
        Kind.TOOL_CALL,
        [("arguments", '{\n  "path": "a"\n}'), ("result", "no\n"), ("call2.result", '{\n  "a": 1\n}')],
    ),
    (
        message("gemini", "", toolCalls=[call({}, result=None, resultDisplay="shown")]),
        Kind.TOOL_CALL,
        [("arguments", '{\n  "path": "a"\n}'), ("result", "shown")],
    ),
    (message("weather", "", wind="n"), Kind.NOTE, [("record", '{\n  "wind": "n"\n}')]),
    (dict(BEGINNING), Kind.RECORD, []),
    (changed(lastUpdated=TIME), Kind.RECORD, []),
    ({"$rewindTo": "m1"}, Kind.RECORD, []),
    ({"$patch": {"removeIds": ["m1"]}}, Kind.RECORD, []),
    (
        {"$patch": {"id": "m1", "content": "It was long, and is short."}},
        Kind.NOTE,
        [("record", '{\n  "$patch": {\n    "id": "m1",\n    "content": "It was long, and is short."\n  }\n}')],
    ),
]


@pytest.mark.parametrize(("record", "kind", "shown"), RECORDS)
def test_what_a_record_is_seen_as(record: dict[str, object], kind: Kind, shown: list[tuple[str, str | None]]) -> None:
    event = see(record)
    assert event.kind is kind
    assert texts(event) == shown


def test_heads_say_what_was_called_by_which_model_and_whether_it_failed() -> None:
    calls = [
        call({"output": "x"}, status="error"),
        call({"output": "y"}, id="c2", name="write_file", status="cancelled"),
    ]
    event = see(message("gemini", "", toolCalls=calls, model="flash"))
    assert event.tool == "read_file"
    assert event.header == {
        "model": "flash",
        "id": "c1",
        "status": "error",
        "is_error": True,
        "tool_2": "write_file",
        "id_2": "c2",
        "status_2": "cancelled",
        "is_error_2": True,
    }
    assert see(message("error", "Oh")).header == {"level": "error"}


def test_images_are_resources() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"an image, at least").decode()}}
    event = see(message("user", [{"text": "Look"}, part]))
    assert [resource.content for resource in event.resources] == [b"an image, at least"]


def test_an_earlier_state_of_a_message_is_not_shown() -> None:
    earlier = Earlier()
    newest = see(message("gemini", "Done", model="flash"), earlier)
    assert newest.kind is Kind.ASSISTANT
    assert see(message("gemini", "Do"), earlier).kind is Kind.RECORD
    assert see(message("gemini", "Do", "m2"), earlier).kind is Kind.ASSISTANT


@given(mutated([record for record, _, _ in RECORDS]))
def test_no_record_can_break_the_view(payload: bytes) -> None:
    check(LENS.view(payload, Earlier()))


def test_what_is_no_object_is_seen() -> None:
    assert see(b'["x"]').kind is Kind.RECORD
    assert texts(see(b'{"id":"m')) == [("", '{"id":"m')]


# -- editing


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_text_that_is_displayed_too_is_edited_in_both_places(text: str) -> None:
    payload = json.dumps(message("user", [{"text": "Fix"}], displayContent=[{"text": "Fix"}])).encode()
    places = check_text_edit(LENS, payload, Earlier(), see(payload), 0, text)
    assert places == ({("content", 0, "text"), ("displayContent", 0, "text")} if text != "Fix" else set())


def test_a_result_is_edited_where_it_is_displayed_too() -> None:
    payload = json.dumps(message("gemini", "", toolCalls=[call({"output": "a\nb\nc"}, resultDisplay="b\nc")])).encode()
    block = next(block for block in see(payload).blocks if block.name == "result")
    edited = LENS.edit(payload, edit_of(block, "a\nB\nc"), Earlier())
    assert json.loads(edited)["toolCalls"][0]["resultDisplay"] == "B\nc"
    assert len(changed_paths(payload, edited)) == 2


def test_fields_are_edited_where_they_stand() -> None:
    payload = json.dumps(message("gemini", "", toolCalls=[call({}), call({}, id="c2")], model="flash")).encode()
    edits = EventEdit(fields=(FieldEdit("model", "pro"), FieldEdit("tool_2", "other"), FieldEdit("tool", "one")))
    now = json.loads(LENS.edit(payload, edits, Earlier()))
    assert (now["model"], [one["name"] for one in now["toolCalls"]]) == ("pro", ["one", "other"])
    with pytest.raises(UsageError, match="holds"):
        LENS.edit(payload, EventEdit(fields=(FieldEdit("mood", "x"),)), Earlier())


def test_a_record_of_one_line_stays_one() -> None:
    with pytest.raises(UsageError, match="one line"):
        LENS.edit(b'{"id"', edit_of(see(b'{"id"').blocks[0], "a\nb"), Earlier())


@pytest.mark.parametrize(("kind", "what"), [(Kind.USER, "user"), (Kind.ASSISTANT, "gemini"), (Kind.NOTE, "info")])
def test_new_messages_are_laid_out_as_those_before(kind: Kind, what: str) -> None:
    for before in (b'{"id":"m","type":"user"}', b'{\n      "id": "m",\n      "type": "user"\n    }'):
        said = LENS.compose(kind, "Gut → so", before, 1_772_739_114_356)
        assert (b"\n" in said) == (b"\n" in before)
        assert json.loads(said)["type"] == what
        assert json.loads(said)["timestamp"] == "2026-03-05T19:31:54.356Z"
        event = see(said)
        assert (event.kind, texts(event)) == (kind, [("", "Gut → so")])
    with pytest.raises(UsageError, match="write user"):
        LENS.compose(Kind.CONFIG, "x", None, 0)
    with pytest.raises(UsageError, match="empty"):
        LENS.compose(Kind.USER, "", None, 0)


# -- files


def stored(folder: Path, content: bytes, name: str, project: str = HASH) -> Path:
    path = folder / ".gemini" / "tmp" / project / "chats" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def cut(data: bytes) -> list[bytes]:
    pieces, position = [], 0
    for span in GEMINI.spans(memoryview(data), 0):
        assert position <= span.start < span.end <= len(data)
        pieces.append(data[span.start : span.end])
        position = span.end
    return pieces


def parts(path: Path) -> list[Part]:
    data = memoryview(path.read_bytes())
    found = GEMINI.parts(Source("gemini-cli", path, path), data, list(GEMINI.spans(data, 0)))
    assert found is not None
    return list(found)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", document(message("user", "x"))),
        ("a.json", document()),
        ("a.json", json.dumps({"kind": "chat", **BEGINNING, "directories": ["/a"], "messages": []}).encode()),
        ("a.json", json.dumps({**BEGINNING, "messages": [message("user", "x")]}).encode()),
        ("a.jsonl", lines(BEGINNING | {"messages": []}, message("user", "x"))),
        ("a.json", b"\xef\xbb\xbf" + document(message("user", "x"))[:-40]),
        ("a.jsonl", lines(BEGINNING)),
        ("a.jsonl", lines(b'{"cut', BEGINNING, message("user", "x"))),
        ("a.jsonl", lines(message("user", "x"), changed(lastUpdated=TIME))),
    ],
)
def test_sessions_are_claimed_wherever_they_lie(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert GEMINI.claim(Look(path)) == Source("gemini-cli", path, path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b""),
        ("a.json", b'{"messages": [{"role": "user", "content": "x"}]}'),
        ("a.json", b'{"model": "m", "messages": []}'),
        ("a.jsonl", lines({"role": "user", "content": "x"})),
        ("a.jsonl", lines({"type": "user", "sessionId": "x", "uuid": "u", "message": {}})),
        ("a.txt", lines(BEGINNING)),
    ],
)
def test_what_other_tools_write_is_not_claimed(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert GEMINI.claim(Look(path)) is None


def test_empty_and_damaged_files_are_claimed_where_the_program_keeps_them(tmp_path: Path) -> None:
    for content in (b"", b"\0" * 50, document()[:30]):
        for name in ("session-a.json", "session-a.jsonl"):
            assert GEMINI.claim(Look(stored(tmp_path, content, name)))
    assert GEMINI.claim(Look(stored(tmp_path, b"[1]\n{}", "session-a.json"))) is None
    assert GEMINI.claim(Look(stored(tmp_path, b"", "other.json"))) is None
    assert GEMINI.claim(Look(tmp_path)) is None


def test_a_document_is_cut_into_its_messages() -> None:
    said = [message("user", 'Fix ]}["'), message("gemini", "Done", "m2", toolCalls=[call({"output": "x"})])]
    data = document(*said, summary="A fix")
    assert [json.loads(piece) for piece in cut(data)] == said
    assert GEMINI.parts(Source("gemini-cli", Path("x"), Path("x")), memoryview(data), []) is None


def test_lines_are_records_and_so_are_the_messages_that_replace_all() -> None:
    replacing = changed(messages=[message("user", "Summary", "m9"), message("gemini", "Ok", "m2")], lastUpdated=TIME)
    data = lines(BEGINNING, message("user", "x"), replacing, message("user", "y", "m3"), b'{"cut')
    found = cut(data)
    assert [json.loads(piece).get("id") for piece in found[:-1]] == [None, "m1", "m9", "m2", "m3"]
    assert found[-1] == b'{"cut'


def test_a_first_line_may_hold_no_messages_and_a_document_may_be_one_line() -> None:
    header = BEGINNING | {"messages": []}
    for data in (lines(header), lines(header, message("user", "x")), json.dumps(header).encode()):
        assert [json.loads(piece) for piece in cut(data)] == [json.loads(line) for line in data.splitlines()]
    said = message("user", "x")
    for data in (json.dumps(BEGINNING | {"messages": [said]}).encode(), lines(BEGINNING | {"messages": [said]})):
        assert [json.loads(piece) for piece in cut(data)] == [said]


def ids(*identifiers: str) -> list[dict[str, object]]:
    return [
        {"$rewindTo": one[1:]} if one.startswith("<") else {"id": one, "timestamp": TIME} if one else {}
        for one in identifiers
    ]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (ids("", "a", "b"), [Thread("", [0, 1, 2])]),
        (ids("a", "", "a", "b", "a"), [Thread("", [4, 1, 0, 3, 2])]),
        (ids("", "a", "b", "c", "<b", "d"), [Thread("", [0, 1, 4, 5]), Thread("b", [2, 3], 2)]),
        (ids("", "a", "b", "<gone", "c"), [Thread("", [0, 3, 4]), Thread("gone", [1, 2], 1)]),
        (ids("a", "b", "<b", "b"), [Thread("", [0, 2, 3]), Thread("b", [1], 1)]),
        (ids("<a"), [Thread("", [0])]),
    ],
)
def test_the_last_record_of_an_id_stands_where_the_first_one_did(
    records: list[dict[str, object]], expected: list[Thread]
) -> None:
    assert threads(records) == expected


@given(st.lists(st.sampled_from(["", "a", "b", "c", "<a", "<b", "<x"]), max_size=12))
def test_every_record_is_in_one_thread(identifiers: list[str]) -> None:
    found = threads(ids(*identifiers))
    assert sorted(at for thread in found for at in thread.records) == list(range(len(identifiers)))


def test_a_file_of_lines_is_a_conversation_and_what_was_taken_back_a_branch_of_it(tmp_path: Path) -> None:
    path = stored(
        tmp_path,
        lines(
            BEGINNING,
            message("user", "Fix the login"),
            message("gemini", "Do", "m2"),
            message("gemini", "Done", "m2"),
            {"$rewindTo": "m2"},
            changed(summary="Login fixed"),
        ),
        "session-2026-01-16T18-34-3739ef95.jsonl",
    )
    whole, back = parts(path)
    assert (whole.key, list(whole.records), whole.base) == (SESSION, [0, 1, 4, 5], -1)
    assert (back.key, list(back.records), back.base, back.shared) == (f"{SESSION}~m2", [3, 2], 0, 2)
    assert whole.about.title == "Login fixed"
    assert GEMINI.titles(lines(changed(summary="x")))


def test_a_session_is_called_by_its_summary_or_its_first_request(tmp_path: Path) -> None:
    injected, asked = message("user", "<session_context>\n"), message("user", "Fix the login\nplease", "m2")
    path = stored(tmp_path, document(injected, asked), "session-a.json")
    records = cut(path.read_bytes())
    source = Source("gemini-cli", path, path)
    expected = About(
        title="Fix the login", project=HASH[:8], started_ms=1768588441000, session_id=SESSION, placed=False
    )
    assert GEMINI.about(source, records) == expected
    path.write_bytes(document(injected, asked, summary="Login, fixed", kind="main"))
    assert GEMINI.about(source, records).title == "Login, fixed"


def test_projects_are_named_by_what_the_program_knows_of_them(tmp_path: Path) -> None:
    path = stored(tmp_path, document(message("user", "x")), "session-a.json")
    source = Source("gemini-cli", path, path)
    registry = tmp_path / ".gemini" / "projects.json"
    registry.write_text(json.dumps({"projects": {"/else": "else", ROOT: "shop-2"}}))
    said = GEMINI.about(source, [])
    assert (said.project, said.extra) == ("shop", {"cwd": ROOT})
    named = stored(tmp_path, lines(BEGINNING | {"projectHash": "x"}), "session-b.jsonl", "slug")
    assert GEMINI.about(Source("gemini-cli", named, named), [named.read_bytes()]).project == "slug"
    (named.parent.parent / ".project_root").write_text("/srv/till\n")
    assert GEMINI.about(Source("gemini-cli", named, named), [named.read_bytes()]).extra == {"cwd": "/srv/till"}


def test_subagents_say_whose_they_are(tmp_path: Path) -> None:
    path = stored(tmp_path, lines(BEGINNING | {"kind": "subagent"}), f"{SESSION}/agent-1.jsonl")
    said = GEMINI.about(Source("gemini-cli", path, path), [path.read_bytes()])
    assert (said.extra["agent"], said.extra["parent_session"]) == ("agent-1", SESSION)


def test_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("home", "moved"):
        os.makedirs(tmp_path / name / ".gemini" / "tmp")
    home, moved = tmp_path / "home", tmp_path / "moved"
    monkeypatch.delenv("GEMINI_CLI_HOME", raising=False)
    assert list(GEMINI.homes(home, tmp_path)) == [home / ".gemini" / "tmp"]
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GEMINI_CLI_HOME", str(moved))
    assert list(GEMINI.homes(home, tmp_path)) == [moved / ".gemini" / "tmp", home / ".gemini" / "tmp"]
    assert list(GEMINI.homes(tmp_path, tmp_path)) == []


def result_of(identifier: str, output: str) -> dict[str, object]:
    return {"functionResponse": {"id": identifier, "name": "read_file", "response": {"output": output}}}


def test_a_result_without_text_is_one() -> None:
    event = see(message("gemini", "I look.", toolCalls=[call({"output": ""})]))
    assert texts(event)[-1] == ("result", "")
    steps = list(steps_of(1, event))
    assert [step.kind for step in steps] == [Kind.ASSISTANT, Kind.TOOL_CALL, Kind.TOOL_RESULT]
    block = event.blocks[-1]
    payload = json.dumps(message("gemini", "I look.", toolCalls=[call({"output": ""})])).encode()
    edited = json.loads(LENS.edit(payload, edit_of(block, "There."), Earlier()))
    assert edited["toolCalls"][0]["result"][0]["functionResponse"]["response"] == {"output": "There."}
    # a call that was not answered is none
    assert texts(see(message("gemini", "", toolCalls=[{"id": "c2", "name": "read_file", "args": {}}]))) == []


def test_results_are_repeated_each_by_itself() -> None:
    earlier = Earlier()
    both = [{**call({"output": "a"}), "id": one, "result": [result_of(one, one)]} for one in ("c1", "c2")]
    assert see(message("gemini", "", toolCalls=both), earlier).kind is Kind.TOOL_CALL
    # as a program resumes: one message for each, and in another order
    for number, part in enumerate((["c1"], ["c2"], ["c2", "c1"])):
        again = message("user", [result_of(one, one) for one in part], f"r{number}")
        assert see(again, earlier).kind is Kind.RECORD
    # one that is new is shown, and what is repeated beside it is not
    event = see(message("user", [result_of("c1", "c1"), result_of("c3", "new")], "r9"), earlier)
    assert event.kind is Kind.TOOL_RESULT
    assert [block.text for block in event.blocks] == ["new"]
    assert event.header["id"] == "c3"
    assert see(message("user", [result_of("c3", "new")], "r10"), earlier).kind is Kind.RECORD
