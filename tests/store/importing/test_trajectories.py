"""Files that a tool writes anew as they grow: what is new is added, and each edit goes back alone."""

import json
import uuid
from pathlib import Path

import pytest

from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.events.event import Event, Kind
from store.formats.aider import Aider
from store.formats.core.format import Format
from store.formats.registry import lens_for
from store.store import Store
from tests.store.importing.sessions import by_source, exported, imported, native, payloads

ASKED = {"role": "user", "content": "Why does the login fail?"}
TOLD = {"role": "assistant", "content": "It returns nothing."}
MORE = {"role": "user", "content": "Fix it."}


def write(path: Path, value: object, indent: int | None = 2) -> Path:
    path.write_text(json.dumps(value, indent=indent))
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_that_is_written_anew_grows(store: Store, tmp_path: Path, indent: int | None) -> None:
    path = write(tmp_path / "talk.json", {"model": "m", "messages": [ASKED, TOLD], "max_tokens": 9}, indent)
    imported(store, path)
    first = by_source(store, path)
    write(path, {"model": "m", "messages": [ASKED, TOLD, MORE], "max_tokens": 10}, indent)
    report = imported(store, path)
    assert (report.imported, report.grown, report.records) == (0, 1, 1)
    assert native(store, path) == path.read_bytes()
    assert by_source(store, path).id == first.id
    assert [json.loads(payload) for payload in payloads(store, path)] == [ASKED, TOLD, MORE]
    assert imported(store, path).unchanged == 1


def test_a_message_that_is_added_by_hand_stands_in_the_array(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "talk.json", {"messages": [ASKED, TOLD], "max_tokens": 9})
    imported(store, path)
    lens = lens_for("api.message.v1")
    written = lens.compose(Kind.USER, "Fix it.", payloads(store, path)[-1], 0)
    Editor(store).append(by_source(store, path).id, [Append(written, "api.message.v1")])
    assert native(store, path).decode() == json.dumps({"messages": [ASKED, TOLD, MORE], "max_tokens": 9}, indent=2)


@pytest.mark.parametrize("deleted", [{1}, {2}, {3}, {1, 2}, {2, 3}, {1, 2, 3}])
def test_what_stands_around_deleted_messages_stays(store: Store, tmp_path: Path, deleted: set[int]) -> None:
    value = {"system": "Be brief.", "messages": [ASKED, TOLD, MORE], "max_tokens": 9}
    path = write(tmp_path / "talk.json", value)
    imported(store, path)
    Editor(store).edit(by_source(store, path).id, dict.fromkeys({number + 1 for number in deleted}, DELETED))
    left = [message for number, message in enumerate((ASKED, TOLD, MORE), 1) if number not in deleted]
    assert json.loads(native(store, path)) == value | {"messages": left}


RUN = {
    "environment": "main",
    "trajectory": [{"action": "ls", "observation": "a.py", "response": "I look.", "thought": "I look."}],
    "history": [
        {"role": "system", "content": "You are.", "agent": "a"},
        {"role": "user", "content": "Go", "agent": "a"},
        {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c", "function": {"name": "ls"}}]},
        {"role": "tool", "content": "a.py", "tool_call_ids": ["c"]},
    ],
    "info": {"exit_status": "submitted"},
}


@pytest.mark.parametrize(
    ("deleted", "left"), [({2}, [1, 2, 3]), ({5}, [0, 1, 2]), ({3, 6}, [0, 2, 3]), ({2, 3, 4}, []), ({6}, [0, 1, 2, 3])]
)
def test_a_trajectory_without_some_messages_is_one_still(
    store: Store, tmp_path: Path, deleted: set[int], left: list[int]
) -> None:
    path = write(tmp_path / "run.traj", RUN)
    imported(store, path)
    Editor(store).edit(by_source(store, path).id, dict.fromkeys(deleted, DELETED))
    history = [dict(message) for at, message in enumerate(RUN["history"]) if at in left]  # type: ignore[arg-type]
    if left == [0, 1, 2]:
        del history[-1]["tool_calls"]
    gone = {"info": None} if 6 in deleted else {}
    assert json.loads(native(store, path)) == RUN | gone | {"history": history}


def recorded(messages: list[object], answer: str) -> dict[str, object]:
    request = {"method": "POST", "content": {"messages": messages}}
    return {"request": request, "response": {"content": {"choices": [{"message": {"content": answer}}]}}}


def test_a_recording_that_grows_stays_one_conversation(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "cassette.json"
    first, second = recorded([ASKED], "It returns nothing."), recorded([ASKED, MORE], "Done.")
    third = recorded([ASKED, MORE, {"role": "user", "content": "Thanks"}], "Good.")
    for interactions, events in (([first], 2), ([first, second], 4), ([first, second, third], 6)):
        write(path, {"interactions": interactions})
        imported(store, path)
        (conversation,) = store.library.conversations()
        assert conversation.events == events
        with exported(store, conversation) as files:
            assert files == {path.name: path.read_bytes()}
    # what was answered to the first request, and what the second one asks
    Editor(store).edit(conversation.id, {2: DELETED, 3: DELETED})
    with exported(store, store.library.conversation(conversation.id)) as files:
        left = json.loads(files[path.name])["interactions"]
    assert left[0] == recorded([ASKED], "") | {"response": {"content": None}}
    assert left[1] == recorded([ASKED], "Done.")


def test_lines_of_fine_tuning_are_conversations_each(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "tuning.jsonl"
    lines = [{"messages": [ASKED, TOLD]}, {"messages": [MORE]}, {"messages": [ASKED, MORE]}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    imported(store, path)
    assert sorted(conversation.records for conversation in store.library.conversations()) == [1, 2, 2]
    (one,) = (conversation for conversation in store.library.conversations() if conversation.records == 1)
    Editor(store).edit(one.id, {1: b'{"role": "user", "content": "Mend it."}'})
    with exported(store, store.library.conversation(one.id)) as files:
        assert files == {
            path.name: path.read_bytes().replace(
                b'[{"role": "user", "content": "Fix', b'[{"role": "user", "content": "Mend'
            )
        }
    with path.open("a") as file:
        file.write(json.dumps({"messages": [TOLD]}) + "\n")
    assert imported(store, path).imported == 1
    assert len(store.library.conversations()) == 4


def test_a_line_of_messages_with_content_that_comes_later(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "app" / "conversations" / "c-1" / "messages.jsonl"
    path.parent.mkdir(parents=True)
    line = {"role": "user", "content": [{"type": "text", "content_id": "sha256:abcd"}]}
    path.write_text(json.dumps(line) + "\n")
    (warning,) = imported(store, path).warnings
    assert warning.endswith(f"there is no content sha256:abcd beside {path.parent}; the conversation refers to it")

    def shown() -> str:
        conversation = by_source(store, path)
        ((_row, event),) = store.viewer.events(store.records.rows(conversation.head))
        assert isinstance(event, Event)
        return event.blocks[0].text or ""

    assert shown() == "[content sha256:abcd: not in the store]"
    assert native(store, path) == path.read_bytes()
    content = tmp_path / "app" / "content" / "sha256:abcd" / "data"
    content.parent.mkdir(parents=True)
    content.write_text("It was here all the time.\n")
    assert imported(store, path).warnings == []
    assert shown() == "It was here all the time.\n"


HISTORY = (
    "\n# aider chat started at 2026-03-05 19:31:54\n\n> Aider v0.86.1  \n> Main model: m  \n\n#### Fix the login  \n"
    "#### now  \n\nIt returns nothing.\n\n```py\nx = 1\n```\n\n> Tokens: 3k sent  \n>  \n> ^C again to exit  \n\n"
)


AGAIN = HISTORY.replace("19:31:54", "20:01:02").replace("Fix the login", "Add a test")


@pytest.mark.parametrize("step", [1, 7, 40])
def test_a_history_that_grows_is_as_if_it_had_come_at_once(store: Store, tmp_path: Path, step: int) -> None:
    """Whatever of a line is there when it is imported. Each run of aider is a conversation."""
    path = tmp_path / "shop" / ".aider.chat.history.md"
    path.parent.mkdir()
    whole = HISTORY + AGAIN
    for end in range(1, len(whole) + step, step):
        path.write_text(whole[:end])
        imported(store, path)
        if store.catalogue.page():
            assert native(store, path) == path.read_bytes()
    talks = {
        entry.title: [store.contents.payload(turn.turn_id).decode() for turn in store.turns.path_to_root(entry.head)]
        for entry in store.catalogue.page()
    }
    assert talks == {
        title: [
            f"# aider chat started at 2026-03-05 {time}",
            "> Aider v0.86.1  \n> Main model: m  ",
            f"#### {title}  \n#### now  ",
            "It returns nothing.\n\n```py\nx = 1\n```",
            "> Tokens: 3k sent  \n>  \n> ^C again to exit  ",
        ]
        for title, time in (("Fix the login", "19:31:54"), ("Add a test", "20:01:02"))
    }


def test_a_history_that_was_one_conversation_goes_on_as_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(HISTORY)
    with monkeypatch.context() as before:
        # as it was before runs were told apart
        before.setattr(Aider, "parts", Format.parts)
        imported(store, path)
    path.write_text(HISTORY + AGAIN)
    assert imported(store, path).grown == 1
    assert [entry.records for entry in store.catalogue.page()] == [10]
    assert native(store, path) == path.read_bytes()


LEFT = ("e0", "e1", "e3", "new", "e4")


def events_folder(folder: Path, name: str, count: int) -> Path:
    """Write a folder with an event a file, and return it; ``name`` is what a number is filled into."""
    kept = folder / "sessions" / "s-1" / "events"
    kept.mkdir(parents=True)
    for number in range(count):
        write(kept / name.format(number), numbered(number))
    return kept


def numbered(number: int) -> dict[str, object]:
    stamp = f"2026-03-05T19:31:{number:02}"
    said = {"content": f"Message {number}"}
    return {"id": number, "timestamp": stamp, "source": "user", "action": "message", "args": said}


def test_a_folder_of_events_grows_by_files(store: Store, tmp_path: Path) -> None:
    kept = events_folder(tmp_path, "{}.json", 9)
    imported(store, tmp_path)
    for number in range(9, 12):
        write(kept / f"{number}.json", numbered(number))
    assert imported(store, tmp_path).records == 3
    assert [json.loads(payload)["id"] for payload in payloads(store, kept)] == list(range(12))
    with exported(store, by_source(store, kept)) as files:
        assert files == {f"events/{path.name}": path.read_bytes() for path in kept.iterdir()}
    assert imported(store, tmp_path).unchanged == 1


def test_events_that_a_server_keeps_are_in_the_order_of_their_times(store: Store, tmp_path: Path) -> None:
    kept = tmp_path / "v1_conversations" / ("5e" * 16)
    kept.mkdir(parents=True)

    def served(number: int) -> Path:
        key = uuid.uuid5(uuid.NAMESPACE_URL, str(number))
        return write(kept / f"{key.hex}.json", numbered(number) | {"id": str(key)})

    written = [served(number) for number in (5, 0, 3, 1, 4)]
    (kept / "notes.json").write_text("{}")
    imported(store, tmp_path)
    # one comes late
    written.append(served(2))
    imported(store, tmp_path)
    conversation = by_source(store, kept)
    times = [f"2026-03-05T19:31:0{number}" for number in range(6)]
    assert [json.loads(payload)["timestamp"] for payload in payloads(store, kept)] == times
    with exported(store, conversation) as files:
        assert files == {f"{kept.name}/{path.name}": path.read_bytes() for path in written}
    assert imported(store, tmp_path).unchanged == 1
    added = Append(json.dumps(numbered(9) | {"id": str(uuid.UUID(int=9))}).encode(), "openhands.event.v1")
    Editor(store).append(conversation.id, [added])
    with exported(store, store.library.conversation(conversation.id)) as files:
        assert files.keys() == {f"{kept.name}/{name}" for name in (*(path.name for path in written), f"{9:032}.json")}


def test_a_session_of_openhands_has_the_title_that_lies_beside(store: Store, tmp_path: Path) -> None:
    kept = events_folder(tmp_path, "event-{0:05}-e{0}.json", 2)
    write(kept.with_name("meta.json"), {"id": "s-1", "title": "Fix the login", "agent": {"llm": {"model": "m"}}})
    imported(store, tmp_path)
    assert by_source(store, kept).title == "Fix the login"


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("{0}.json", ["0.json", "1.json", "3.json", "4.json", "5.json"]),
        ("event-{0:05}-e{0}.json", [f"event-0000{number}-{key}.json" for number, key in enumerate(LEFT)]),
    ],
)
def test_events_in_files_count_up_after_an_edit(store: Store, tmp_path: Path, name: str, names: list[str]) -> None:
    kept = events_folder(tmp_path, name, 6)
    imported(store, tmp_path)
    conversation = by_source(store, kept)
    added = Append(json.dumps(numbered(9) | {"id": "new"}).encode(), "openhands.event.v1")
    Editor(store).edit(conversation.id, {6: DELETED})
    Editor(store).rewrite(conversation.id, [1, 2, 4, added, 5])
    with exported(store, store.library.conversation(conversation.id)) as files:
        assert list(files) == [f"events/{name}" for name in names]
        assert [json.loads(content)["id"] for content in files.values()] == [0, 1, 3, "new", 4]


def test_a_fork_of_events_in_files_has_no_more_files(store: Store, tmp_path: Path) -> None:
    kept = events_folder(tmp_path, "event-{0:05}-e{0}.json", 6)
    imported(store, tmp_path)
    conversation = by_source(store, kept)
    fork = Editor(store).fork(conversation.id, "aside", at=3)
    with exported(store, store.library.conversation(fork.context)) as files:
        assert files == {f"aside/{path.name}": path.read_bytes() for path in sorted(kept.iterdir())[:3]}
