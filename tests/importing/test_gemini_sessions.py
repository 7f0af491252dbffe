"""Sessions of Gemini CLI: lines that replace earlier ones, as they grow, edited and exported."""

import json
from pathlib import Path

from store.conversations.chain import Recorded
from store.editing.editor import DELETED, Editor
from store.events.conversation import Conversation
from store.events.edit import BlockEdit, EventEdit
from store.events.event import Kind
from store.formats.gemini_cli.lens import GeminiCliLens
from store.store import Append, Store
from tests.formats.test_gemini_cli import BEGINNING, call, changed, document, lines, message, stored
from tests.importing.sessions import exported, imported

ASKED = message("user", [{"text": "Fix it"}])
ANSWERS = [
    message("gemini", "", "m2"),
    message("gemini", "Look", "m2", tokens={"total": 1}),
    message("gemini", "Look", "m2", tokens={"total": 1}, toolCalls=[call({"output": "x"})]),
]
DONE = message("gemini", "Done", "m3")
NAME = "session-2026-01-16T18-34-3739ef95.jsonl"


def shown(store: Store, conversation: Conversation) -> list[tuple[int, Kind]]:
    return [(row.number, row.kind) for row in store.rows(conversation.head) if row.kind is not Kind.RECORD]


def test_a_message_is_shown_once_where_it_first_stood_however_often_it_is_replaced(
    store: Store, tmp_path: Path
) -> None:
    written: list[dict[str, object]] = [BEGINNING, ASKED]
    path = stored(tmp_path, lines(*written), NAME)
    imported(store, path)
    [conversation] = store.conversations()
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
        [conversation] = store.conversations()
        assert shown(store, conversation) == now
        with exported(store, conversation) as files:
            assert files == {NAME: lines(*written)}


def test_an_edit_is_exported_as_the_last_line_of_its_message(store: Store, tmp_path: Path) -> None:
    data = lines(BEGINNING, ASKED, *ANSWERS, DONE)
    imported(store, stored(tmp_path, data, NAME))
    [conversation] = store.conversations()
    row = store.rows(conversation.head)[2]
    payload = store.payload(row.turn)
    edit = EventEdit((BlockEdit(("content",), "See"),))
    edited = GeminiCliLens().edit(payload, edit, Recorded(row.tool, row.parent, store.aliased))
    Editor(store).edit(conversation.id, {3: edited})
    with exported(store, store.conversation(conversation.id)) as files:
        assert files[NAME] == lines(BEGINNING, ASKED, *ANSWERS[:2], ANSWERS[2] | {"content": "See"}, DONE)


def test_a_message_is_deleted_with_all_its_earlier_states(store: Store, tmp_path: Path) -> None:
    imported(store, stored(tmp_path, lines(BEGINNING, ASKED, *ANSWERS, DONE), NAME))
    [conversation] = store.conversations()
    Editor(store).edit(conversation.id, {3: DELETED})
    with exported(store, store.conversation(conversation.id)) as files:
        assert files[NAME] == lines(BEGINNING, ASKED, DONE)


def test_what_was_taken_back_is_a_conversation_of_its_own(store: Store, tmp_path: Path) -> None:
    data = lines(BEGINNING, ASKED, *ANSWERS, {"$rewindTo": "m2"}, DONE)
    imported(store, stored(tmp_path, data, NAME))
    first, second = sorted(store.conversations(), key=lambda one: one.id)
    kinds = {tuple(kind for _, kind in shown(store, one)) for one in (first, second)}
    assert kinds == {(Kind.USER, Kind.ASSISTANT), (Kind.USER, Kind.TOOL_CALL)}
    for one in (first, second):
        with exported(store, one) as files:
            assert files[NAME] == data


def test_messages_that_replace_all_are_edited_within_their_line(store: Store, tmp_path: Path) -> None:
    replacing = changed(messages=[message("user", "Summary", "m9"), DONE], lastUpdated="x")
    data = lines(BEGINNING, ASKED, replacing)
    imported(store, stored(tmp_path, data, NAME))
    [conversation] = store.conversations()
    assert shown(store, conversation) == [(2, Kind.USER), (3, Kind.USER), (4, Kind.ASSISTANT)]
    rows = store.rows(conversation.head)
    Editor(store).edit(conversation.id, {3: store.payload(rows[2].turn).replace(b"Summary", b"Short")})
    with exported(store, store.conversation(conversation.id)) as files:
        assert files[NAME] == data.replace(b"Summary", b"Short")


def test_documents_are_edited_and_written_to(store: Store, tmp_path: Path) -> None:
    path = stored(tmp_path, document(ASKED, summary="x"), "session-a.json")
    imported(store, path)
    [conversation] = store.conversations()
    last = store.payload(store.rows(conversation.head)[0].turn)
    new = GeminiCliLens().compose(Kind.USER, "Thanks", last, 0)
    turn = store.turn(store.rows(conversation.head)[0].turn)
    Editor(store).append(
        conversation.id, [Append(new, store.type_name(turn.type_tag), turn.encoding, turn.type_version)]
    )
    with exported(store, store.conversation(conversation.id)) as files:
        said = json.loads(files["session-a.json"])
    assert [one["content"] for one in said["messages"]] == [[{"text": "Fix it"}], [{"text": "Thanks"}]]
    assert said["summary"] == "x"
