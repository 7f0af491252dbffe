"""Sessions of Gemini CLI: lines that replace earlier ones, as they grow, edited and exported."""

import json
import os
from pathlib import Path

import pytest

from store.conversations.chain import Recorded
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor, with_echoes
from store.events.conversation import Conversation
from store.events.event import BlockEdit, EventEdit, Kind
from store.exporting.dialogue import Dialogue, Losses
from store.formats.gemini_cli.lens import GeminiCliLens
from store.store import Store
from tests.store.formats.test_gemini_cli import BEGINNING, call, changed, document, lines, message, stored
from tests.store.importing.sessions import exported, imported

ASKED = message("user", [{"text": "Fix it"}])
ANSWERS = [
    message("gemini", "", "m2"),
    message("gemini", "Look", "m2", tokens={"total": 1}),
    message("gemini", "Look", "m2", tokens={"total": 1}, toolCalls=[call({"output": "x"})]),
]
DONE = message("gemini", "Done", "m3")
NAME = "session-2026-01-16T18-34-3739ef95.jsonl"


def shown(store: Store, conversation: Conversation) -> list[tuple[int, Kind]]:
    return [(row.number, row.kind) for row in store.records.rows(conversation.head) if row.kind is not Kind.RECORD]


def test_a_message_is_shown_once_where_it_first_stood_however_often_it_is_replaced(
    store: Store, tmp_path: Path
) -> None:
    written: list[dict[str, object]] = [BEGINNING, ASKED]
    path = stored(tmp_path, lines(*written), NAME)
    imported(store, path)
    [conversation] = store.library.conversations()
    assert shown(store, conversation) == [(2, Kind.USER)]
    expected = [
        [(2, Kind.USER)],
        [(2, Kind.USER), (3, Kind.ASSISTANT)],
        [(2, Kind.USER), (3, Kind.TOOL_CALL)],
        [(2, Kind.USER), (3, Kind.TOOL_CALL)],
        [(2, Kind.USER), (3, Kind.TOOL_CALL), (7, Kind.ASSISTANT)],
    ]
    for record, now in zip([*ANSWERS, changed(lastUpdated="x"), DONE], expected, strict=True):
        written.append(record)
        path.write_bytes(lines(*written))
        imported(store, path)
        [conversation] = store.library.conversations()
        assert shown(store, conversation) == now
        with exported(store, conversation) as files:
            assert files == {NAME: lines(*written)}


def test_an_edit_is_exported_as_the_last_line_of_its_message(store: Store, tmp_path: Path) -> None:
    data = lines(BEGINNING, ASKED, *ANSWERS, DONE)
    imported(store, stored(tmp_path, data, NAME))
    [conversation] = store.library.conversations()
    row = store.records.rows(conversation.head)[2]
    payload = store.contents.payload(row.turn)
    edit = EventEdit((BlockEdit(("content",), "See"),))
    edited = GeminiCliLens().edit(payload, edit, Recorded(row.tool, row.parent, store.contents.aliased))
    Editor(store).edit(conversation.id, {3: edited})
    with exported(store, store.library.conversation(conversation.id)) as files:
        assert files[NAME] == lines(BEGINNING, ASKED, *ANSWERS[:2], ANSWERS[2] | {"content": "See"}, DONE)


def test_a_message_is_deleted_with_all_its_earlier_states(store: Store, tmp_path: Path) -> None:
    imported(store, stored(tmp_path, lines(BEGINNING, ASKED, *ANSWERS, DONE), NAME))
    [conversation] = store.library.conversations()
    Editor(store).edit(conversation.id, {3: DELETED})
    with exported(store, store.library.conversation(conversation.id)) as files:
        assert files[NAME] == lines(BEGINNING, ASKED, DONE)


def test_what_was_taken_back_is_a_conversation_of_its_own(store: Store, tmp_path: Path) -> None:
    data = lines(BEGINNING, ASKED, *ANSWERS, {"$rewindTo": "m2"}, DONE)
    imported(store, stored(tmp_path, data, NAME))
    first, second = sorted(store.library.conversations(), key=lambda one: one.id)
    kinds = {tuple(kind for _, kind in shown(store, one)) for one in (first, second)}
    assert kinds == {(Kind.USER, Kind.ASSISTANT), (Kind.USER, Kind.TOOL_CALL)}
    for one in (first, second):
        with exported(store, one) as files:
            assert files[NAME] == data


def test_messages_that_replace_all_are_edited_within_their_line(store: Store, tmp_path: Path) -> None:
    replacing = changed(messages=[message("user", "Summary", "m9"), DONE], lastUpdated="x")
    data = lines(BEGINNING, ASKED, replacing)
    imported(store, stored(tmp_path, data, NAME))
    [conversation] = store.library.conversations()
    assert shown(store, conversation) == [(2, Kind.USER), (3, Kind.USER), (4, Kind.ASSISTANT)]
    rows = store.records.rows(conversation.head)
    Editor(store).edit(conversation.id, {3: store.contents.payload(rows[2].turn).replace(b"Summary", b"Short")})
    with exported(store, store.library.conversation(conversation.id)) as files:
        assert files[NAME] == data.replace(b"Summary", b"Short")


def test_documents_are_edited_and_written_to(store: Store, tmp_path: Path) -> None:
    path = stored(tmp_path, document(ASKED, summary="x"), "session-a.json")
    imported(store, path)
    [conversation] = store.library.conversations()
    last = store.contents.payload(store.records.rows(conversation.head)[0].turn)
    new = GeminiCliLens().compose(Kind.USER, "Thanks", last, 0)
    turn = store.turns.get(store.records.rows(conversation.head)[0].turn)
    Editor(store).append(
        conversation.id, [Append(new, store.contents.type_name(turn.type_tag), turn.encoding, turn.type_version)]
    )
    with exported(store, store.library.conversation(conversation.id)) as files:
        said = json.loads(files["session-a.json"])
    assert [one["content"] for one in said["messages"]] == [[{"text": "Fix it"}], [{"text": "Thanks"}]]
    assert said["summary"] == "x"


def test_a_long_document_that_is_written_anew_is_no_lines(store: Store, tmp_path: Path) -> None:
    """Of what has grown, only the end is read: that of a document begins with the rest of its list."""
    long = [message("user", [{"text": f"{number} " + "said at length " * 200}], f"l{number}") for number in range(3)]
    path = stored(tmp_path, document(*long[:2]), "session-a.json")
    assert imported(store, path).imported == 1
    os.utime(path, (2e9, 2e9))
    assert imported(store, path).unchanged == 1
    path.write_bytes(document(*long, summary="x"))
    assert imported(store, path).grown == 1
    [conversation] = store.library.conversations()
    assert len(store.records.rows(conversation.head)) == 3
    with exported(store, conversation) as files:
        assert files["session-a.json"] == path.read_bytes()


# -- two files of one id -------------------------------------------------------------------------------------------

CONTEXT = message("user", [{"text": "<session_context>\nWe are setting up the context"}], "d0")
STUB = "session-2026-01-17T09-00-3739ef95.jsonl"


def at(time: str, record: dict[str, object]) -> dict[str, object]:
    """Return a record as it is written again when a session is resumed."""
    return {key: time if key in ("lastUpdated", "startTime", "timestamp") else value for key, value in record.items()}


def resumed_session() -> bytes:
    """Return a session that was resumed: what was said is repeated in one line, results in messages of their own."""
    answer = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "x"}}}
    asked = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "a"}}}
    repeated = [
        CONTEXT,
        ASKED,
        message("gemini", [{"text": "Look"}, asked], "m2"),
        message("user", [answer], "m4"),
        DONE,
    ]
    return lines(
        BEGINNING | {"kind": "main"},
        changed(messages=[CONTEXT]),
        ASKED,
        *ANSWERS,
        message("user", [answer], "m4"),
        DONE,
        changed(sessionId=BEGINNING["sessionId"]),
        changed(messages=repeated),
        message("user", [{"text": "Thanks"}], "m5"),
    )


def stub() -> bytes:
    """Return what is left in a file of its own when a session is resumed."""
    later = "2026-01-17T09:00:00.000Z"
    return lines(at(later, BEGINNING | {"kind": "main"}), changed(messages=[at(later, CONTEXT)]))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("is_edited", [False, True])
def test_a_file_of_the_same_id_stands_beside_the_session(
    store: Store, tmp_path: Path, order: tuple[int, int], is_edited: bool
) -> None:
    contents = {NAME: resumed_session(), STUB: stub()}
    names = [list(contents)[at] for at in order]
    imported(store, stored(tmp_path, contents[names[0]], names[0]))
    [first] = store.library.conversations()
    before = shown(store, first)
    said = contents[names[0]]
    if is_edited:
        row = next(row for row in store.records.rows(first.head) if row.kind is Kind.SYSTEM)
        Editor(store).edit(
            first.id, {row.number: store.contents.payload(row.turn).replace(b"setting up", b"looking at")}
        )
        # of what is said twice, the last counts
        said = b"looking at".join(said.rsplit(b"setting up", 1))
    imported(store, stored(tmp_path, contents[names[1]], names[1]))
    assert len(store.library.conversations()) == 2
    known = {one.source.rpartition("/")[2]: one for one in store.library.conversations()}
    assert shown(store, known[names[0]]) == before
    for name, one in known.items():
        with exported(store, one) as files:
            assert files == {name: said if name == names[0] else contents[name]}
    # what is new in either is new in its own conversation
    for name, content in contents.items():
        path = stored(tmp_path, content + lines(message("user", [{"text": f"More in {name}"}], f"new {name}")), name)
        report = imported(store, path)
        assert (report.imported, report.grown) == (0, 1)
    now = {one.source.rpartition("/")[2]: one for one in store.library.conversations()}
    assert {name: one.id for name, one in now.items()} == {name: one.id for name, one in known.items()}


def test_a_file_that_goes_on_from_another_extends_it(store: Store, tmp_path: Path) -> None:
    first = stored(tmp_path / "a", lines(BEGINNING, ASKED, *ANSWERS), NAME)
    imported(store, first)
    [before] = store.library.conversations()
    # a copy that was written to since; and after that the old file is there still, and is an older state
    longer = stored(tmp_path / "b", lines(BEGINNING, ASKED, *ANSWERS, DONE), NAME)
    report = imported(store, longer)
    assert (report.imported, report.grown) == (0, 1)
    [now] = store.library.conversations()
    assert now.id == before.id
    first.touch()
    assert imported(store, first).imported == 0
    with exported(store, store.library.conversation(now.id)) as files:
        assert files == {NAME: longer.read_bytes()}
    # both go on, each for itself
    first.write_bytes(lines(BEGINNING, ASKED, *ANSWERS, message("gemini", "Otherwise", "m9")))
    assert imported(store, first).imported == 1
    assert {len(shown(store, one)) for one in store.library.conversations()} == {3}
    assert len(store.library.conversations()) == 2


def test_a_session_whose_file_has_moved_is_the_session(store: Store, tmp_path: Path) -> None:
    first = stored(tmp_path / "a", lines(BEGINNING, ASKED, *ANSWERS, DONE), NAME)
    imported(store, first)
    [before] = store.library.conversations()
    other = tmp_path / "b" / NAME
    other.parent.mkdir()
    first.rename(other)
    imported(store, other)
    [now] = store.library.conversations()
    assert now.id == before.id


# -- messages within a line ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("deleted", range(2, 10))
def test_no_line_is_broken_by_what_is_deleted_in_it(store: Store, tmp_path: Path, deleted: int) -> None:
    data = resumed_session()
    imported(store, stored(tmp_path, data, NAME))
    [conversation] = store.library.conversations()
    Editor(store).edit(conversation.id, {deleted: DELETED})
    with exported(store, store.library.conversation(conversation.id)) as files:
        written = [json.loads(line) for line in files[NAME].splitlines()]
    gone = json.loads(store.contents.payload(store.records.rows(conversation.head)[deleted - 1].turn)).get("id")
    expected: list[dict[str, object]] = []
    for record in map(json.loads, data.splitlines()):
        if "messages" in (said := record.get("$set", {})):
            said["messages"] = [one for one in said["messages"] if one["id"] != gone]
        if gone is None or record.get("id") != gone:
            expected.append(record)
    if gone is not None:
        assert written == expected


@pytest.mark.parametrize("last", [1, 9])
def test_what_is_added_behind_a_message_within_a_line_stands_with_it(store: Store, tmp_path: Path, last: int) -> None:
    data = b"".join(resumed_session().splitlines(keepends=True)[: last + 1])
    imported(store, stored(tmp_path, data, NAME))
    [conversation] = store.library.conversations()
    turn = store.turns.get(store.records.rows(conversation.head)[-1].turn)
    new = GeminiCliLens().compose(Kind.USER, "More", store.contents.payload(turn.turn_id), 0)
    Editor(store).append(
        conversation.id, [Append(new, store.contents.type_name(turn.type_tag), turn.encoding, turn.type_version)]
    )
    with exported(store, store.library.conversation(conversation.id)) as files:
        written = [json.loads(line) for line in files[NAME].splitlines()]
    before = [json.loads(line) for line in data.splitlines()]
    assert written[:-1] == before[:-1]
    messages = written[-1]["$set"]["messages"]
    assert messages[:-1] == before[-1]["$set"]["messages"]
    assert messages[-1]["content"] == [{"text": "More"}]


# -- calls that are said again -------------------------------------------------------------------------------------

RETURNED = [
    {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "x"}}},
    {"functionResponse": {"id": "c2", "name": "run", "response": {"output": "y"}}},
]
"""Calls that are made at once have all their results each."""
CALLED = [
    {"id": "c1", "name": "read_file", "args": {"path": "a"}, "status": "success", "result": RETURNED},
    {"id": "c2", "name": "run", "args": {"command": "ls"}, "status": "success", "result": RETURNED},
]
PARTS = [
    {"text": "Look"},
    {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "a"}}},
    {"functionCall": {"id": "c2", "name": "run", "args": {"command": "ls"}}},
]
RESUMED = lines(
    BEGINNING | {"kind": "main"},
    changed(messages=[CONTEXT]),
    ASKED,
    message("gemini", "Look", "m2", toolCalls=CALLED),
    message("user", RETURNED, "m4"),
    DONE,
    changed(sessionId=BEGINNING["sessionId"]),
    changed(
        messages=[
            CONTEXT,
            ASKED,
            message("gemini", PARTS, "m2", toolCalls=CALLED),
            message("user", RETURNED, "m2_response"),
            message("user", RETURNED, "m4"),
            DONE,
        ]
    ),
    message("user", [{"text": "Thanks"}], "m5"),
)


def test_a_call_and_its_result_are_shown_once_in_a_session_that_was_resumed(store: Store, tmp_path: Path) -> None:
    imported(store, stored(tmp_path, RESUMED, NAME))
    [conversation] = store.library.conversations()
    kinds = [kind for _number, kind in shown(store, conversation)]
    assert kinds == [Kind.SYSTEM, Kind.USER, Kind.TOOL_CALL, Kind.ASSISTANT, Kind.USER]
    losses = Losses()
    calls = [step for step in Dialogue(store.library, conversation, losses).steps() if step.kind is Kind.TOOL_CALL]
    assert [(step.kind, step.tool, step.arguments) for step in calls] == [
        (Kind.TOOL_CALL, "read_file", {"path": "a"}),
        (Kind.TOOL_CALL, "run", {"command": "ls"}),
    ]
    results = [step for step in Dialogue(store.library, conversation, losses).steps() if step.kind is Kind.TOOL_RESULT]
    assert [step.text for step in results] == ["x", "y"]
    assert losses.all() == ()


def test_a_result_that_was_edited_says_the_same_wherever_it_is_repeated(store: Store, tmp_path: Path) -> None:
    imported(store, stored(tmp_path, RESUMED, NAME))
    [conversation] = store.library.conversations()
    row = next(row for row in store.records.rows(conversation.head) if row.kind is Kind.TOOL_CALL)
    before = Recorded(row.tool, row.parent, store.contents.aliased)
    payload = store.contents.payload(row.turn)
    event = GeminiCliLens().view(payload, before)
    blocks = {block.name: block for block in event.blocks}
    edits = (
        BlockEdit(blocks["result"].path, "EDITED"),
        BlockEdit(blocks["call2.arguments"].path, '{\n  "command": "pwd"\n}', type="json"),
    )
    edited = GeminiCliLens().edit(payload, EventEdit(edits), before)
    rows = store.records.rows(conversation.head)
    every = with_echoes(store, lambda number: rows[number - 1], len(rows), {row.number: edited})
    Editor(store).edit(conversation.id, every)
    with exported(store, store.library.conversation(conversation.id)) as files:
        messages = json.loads(files[NAME].splitlines()[-2])["$set"]["messages"]
    [asked] = [one for one in messages if one["type"] == "gemini" and one.get("toolCalls")]
    assert asked["content"][2]["functionCall"]["args"] == asked["toolCalls"][1]["args"] == {"command": "pwd"}
    outputs = [part["functionResponse"]["response"]["output"] for one in asked["toolCalls"] for part in one["result"]]
    assert outputs == ["EDITED", "y", "EDITED", "y"]
    repeated = [one for one in messages if "functionResponse" in json.dumps(one["content"])]
    assert len(repeated) == 2
    assert all(one["content"][0]["functionResponse"]["response"] == {"output": "EDITED"} for one in repeated)


def test_the_results_of_a_call_go_with_it(store: Store, tmp_path: Path) -> None:
    imported(store, stored(tmp_path, RESUMED, NAME))
    [conversation] = store.library.conversations()
    row = next(row for row in store.records.rows(conversation.head) if row.kind is Kind.TOOL_CALL)
    Editor(store).edit(conversation.id, {row.number: DELETED})
    with exported(store, store.library.conversation(conversation.id)) as files:
        assert b"functionResponse" not in files[NAME]
        assert [json.loads(line) for line in files[NAME].splitlines()]


def test_results_of_their_own_are_shown(store: Store, tmp_path: Path) -> None:
    answer = {"functionResponse": {"id": "c9", "name": "read_file", "response": {"output": "other"}}}
    data = lines(BEGINNING, ASKED, *ANSWERS, message("user", [answer], "m7"), message("user", [answer], "m8"))
    imported(store, stored(tmp_path, data, NAME))
    [conversation] = store.library.conversations()
    assert [kind for _number, kind in shown(store, conversation)] == [Kind.USER, Kind.TOOL_CALL, Kind.TOOL_RESULT]


def test_what_is_said_again_when_a_session_is_resumed_is_not_missing(store: Store, tmp_path: Path) -> None:
    talk = [
        message(
            "user" if number % 2 else "gemini",
            [{"text": f"This is what somebody said as number {number}"}],
            f"m{number}",
        )
        for number in range(1, 9)
    ]
    path = stored(tmp_path, lines(BEGINNING, *talk), NAME)
    assert imported(store, path).warnings == []
    path.write_bytes(lines(BEGINNING, *talk, changed(messages=talk), message("user", [{"text": "Thanks"}], "m9")))
    assert imported(store, path).warnings == []
