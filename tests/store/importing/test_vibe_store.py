"""Folders of Mistral Vibe: two lists of one talk, in files that are named after what they hold."""

import json
import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.chain import Recorded
from store.editing.editor import Editor
from store.errors import UsageError
from store.events.event import DELETED, BlockEdit, Event, EventEdit, Kind, Replacement
from store.exporting.export import export
from store.formats.registry import FORMATS, format_named, lens_for
from store.importing.importer import Importer
from store.importing.likeness import MARK
from store.importing.walk import claim
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.store import Store
from tests.store.importing.tools import (
    ANSWERED,
    ASKED,
    CODE,
    ID,
    MORE,
    SEEN,
    THOUGHT,
    VIBE_ACTIONS,
    VIBE_ENTRIES,
    VIBE_MESSAGES,
    dump,
    text,
    vibe_entry,
    vibe_said,
    vibe_sent,
    vibe_store,
    write,
)

FOLDER = f".vibe/logs/session/unified/{ID}"
SUMMARY = "</previous_user_messages>\n<compaction_summary>\nThe login was read.\n</compaction_summary>"
PROGRAM = "const found = await tools.agents.spawn({message: 'Look into it, please'})\nreturn found"
RETURNED = "The program has found nothing at all."
COMPACTED = vibe_entry(4, "checkpoint", kind="compaction", message="Context compacted", details={"summaryLength": 19})
CALLED = {
    "type": "tool_call",
    "id": "c2",
    "name": "run_typescript",
    "arguments": {"type": "json", "raw": dump({"code": PROGRAM}), "value": {"code": PROGRAM}},
}
AFTER = [
    vibe_sent("user", text("You go on after a compaction."), source="injection"),
    vibe_sent("user", text(ASKED)),
    vibe_sent("user", text(SUMMARY), source="injection"),
    vibe_sent("user", text(MORE)),
    vibe_sent("assistant", CALLED),
    vibe_sent("tool", text(RETURNED), name="run_typescript", outcome="success", tool_call_id="c2"),
    vibe_sent("assistant", text("It is mended now.")),
]
LATER = [COMPACTED, vibe_said(5, "user", MORE), vibe_said(6, "assistant", "It is mended now.")]


@pytest.fixture
def home(memory_path: Path) -> Path:
    return memory_path / "home"


def bring(store: Store, home: Path, files: Mapping[str, object]) -> list[str]:
    """Have a home hold these files alone, import them, and return the problems."""
    shutil.rmtree(home, ignore_errors=True)
    write(home, files)
    return Importer(store).run([home], by_hand=False).errors


def events(store: Store) -> list[tuple[Kind, str]]:
    """Return kind and texts of each event of the only conversation."""
    [conversation] = store.library.conversations()
    found = [event for _row, event in store.viewer.events(store.records.rows(conversation.head))]
    return [
        (event.kind, "\n".join(block.text or "" for block in event.blocks).strip())
        for event in found
        if isinstance(event, Event)
    ]


def change(store: Store, changes: Mapping[str, str], gone: tuple[str, ...] = ()) -> None:
    """Change texts wherever they are shown, and delete the events with those that go."""
    [conversation] = store.library.conversations()
    edited: dict[int, Replacement] = {}
    for row, event in store.viewer.events(store.records.rows(conversation.head)):
        assert isinstance(event, Event)
        payload = store.contents.payload(row.turn)
        lens = lens_for(store.viewer.lens(store.turns.get(row.turn)).type_name)
        for block in event.blocks:
            if block.text in gone:
                edited[row.number] = DELETED
            elif block.text in changes and block.type == "text":
                made = BlockEdit(block.path, changes[block.text], block.name, "text", block.encoding)
                told = Recorded(row.tool, row.parent, store.contents.aliased)
                payload = lens.edit(payload, EventEdit((made,)), told)
                edited[row.number] = payload
    assert edited
    Editor(store).edit(conversation.id, edited)


def written(store: Store, out: Path) -> Path:
    """Export the only conversation and return its folder, in which each file is what the others say it is."""
    [conversation] = store.library.conversations()
    export(store, conversation, out, "native")
    folder = out / ID
    current = json.loads((folder / "CURRENT").read_bytes())
    generation = folder / "generations" / current["generation"]

    def digest(path: Path) -> str:
        data = path.read_bytes()
        assert data.endswith(b"\n")
        return sha256(data[:-1]).hexdigest()

    assert current["manifest_sha256"] == digest(generation / "manifest.json")
    manifest = json.loads((generation / "manifest.json").read_bytes())
    for name in ("checkpoint", "runtime_state", "projection_state"):
        assert manifest[name]["sha256"] == digest(generation / manifest[name]["path"])
        for chunk in manifest[name].get("chunks") or ():
            assert digest(folder / "chunks" / f"{chunk}.json") == chunk
    return folder


@pytest.mark.parametrize("is_edited", [False, True])
def test_what_was_redacted_is_exported_under_its_hashes(
    store: Store, home: Path, memory_path: Path, is_edited: bool
) -> None:
    secrets = Secrets([THOUGHT.encode()])
    bring(store, home, vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES))
    if is_edited:
        change(store, {ANSWERED: "It works."})
    done = Redaction(store, secrets).run()
    assert prove(store, secrets, done.gone).found == []
    folder = written(store, memory_path / "out")
    for chunk in (folder / "chunks").iterdir():
        assert sha256(chunk.read_bytes()[:-1]).hexdigest() == chunk.stem
    files = files_below(folder)
    assert not any(THOUGHT.encode() in data for data in files.values())
    assert any(MARK in data for data in files.values())
    with Store.open(memory_path / "other", renderer=FileRenderer()) as other:
        assert bring(other, home, {f"{FOLDER}/{name}": data.decode() for name, data in files.items()}) == []
        assert events(other) == events(store)


def listed(folder: Path, name: str) -> list[dict[str, object]]:
    """Return the elements of a list in an exported session."""
    generation = json.loads((folder / "CURRENT").read_bytes())["generation"]
    manifest = json.loads((folder / "generations" / generation / "manifest.json").read_bytes())
    chunks = [json.loads((folder / f"chunks/{chunk}.json").read_bytes()) for chunk in manifest[name]["chunks"]]
    return [one for chunk in chunks for one in chunk]


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_summary_takes_no_event_away_and_brings_none_twice(store: Store, home: Path) -> None:
    """And what its model alone was sent is shown where it was said: the summary, the code of a program."""
    assert bring(store, home, vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES)) == []
    before = events(store)
    kinds = [kind for kind, _text in before]
    assert kinds == [Kind.USER, Kind.REASONING, Kind.TOOL_CALL, Kind.ASSISTANT]
    assert bring(store, home, vibe_store(ID, [*VIBE_ENTRIES, *LATER], AFTER, generation=9)) == []
    now = events(store)
    assert now[: len(before)] == before
    assert now[len(before) :] == [
        (Kind.NOTE, "Context compacted"),
        (Kind.SYSTEM, "You go on after a compaction."),
        (Kind.SUMMARY, SUMMARY),
        (Kind.USER, MORE),
        (Kind.TOOL_CALL, PROGRAM),
        (Kind.TOOL_RESULT, RETURNED),
        (Kind.ASSISTANT, "It is mended now."),
    ]


def test_a_session_that_has_grown_is_exported_as_it_is_now(store: Store, home: Path, memory_path: Path) -> None:
    """Without the files of generations that have gone from it."""
    bring(store, home, vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES))
    bring(store, home, vibe_store(ID, [*VIBE_ENTRIES, *LATER], AFTER, generation=9))
    assert files_below(written(store, memory_path / "out")) == files_below(home / FOLDER)


def test_a_turn_that_goes_on_is_in_the_journal(store: Store, home: Path, memory_path: Path) -> None:
    running = vibe_entry(5, "effect", detail={"toolName": "x.bash", "input": {}}, state={"status": "running"})
    done = {**running, "state": {"status": "failed", "error": {"message": "It did not work."}, "outputText": ""}}
    changes = [
        {"op": "append_entry", "entry": vibe_said(4, "user", MORE)},
        {"op": "append_entry", "entry": running},
        {"op": "append_entry", "entry": vibe_said(6, "assistant", "Half an")},
        {"op": "remove_entry", "id": "message-6"},
        {"op": "replace_entry", "id": "effect-5", "entry": done},
        {"op": "set_envelope", "state": {"session": {"tokenUsage": {"inputTokens": 20, "outputTokens": 4}}}},
    ]
    journal = [{"payload": {"delta": [change]}, "type": "projection_delta"} for change in changes]
    files = vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES, journal)
    path = f"{FOLDER}/journal/{2:016}.jsonl"
    files[path] = f'{files[path]}{{"payload":{{"delta":[{{"op":"append'
    assert bring(store, home, files) == []
    assert events(store)[4:] == [(Kind.USER, MORE), (Kind.TOOL_CALL, "It did not work.")]
    change(store, {ANSWERED: "It returns."})
    with pytest.raises(UsageError, match="its last turn has not ended"):
        written(store, memory_path / "out")


def test_an_edit_is_in_both_lists(store: Store, home: Path, memory_path: Path) -> None:
    """In a call and its result, too: as arguments, as their text, and in the JSON that the model reads."""
    bring(store, home, vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES))
    change(store, {ASKED: "user", THOUGHT: "text", CODE: 'a "b" \\ é😀', ANSWERED: "It works."})
    folder = written(store, memory_path / "out")
    seen = {**SEEN, "content": 'a "b" \\ é😀'}
    sent = [one["message"] for one in listed(folder, "checkpoint")]
    before = [one["message"] for one in VIBE_MESSAGES]
    reasoning, call = before[1]["content"]
    assert sent == [
        {**before[0], "content": [text("user")]},
        {**before[1], "content": [{**reasoning, "content": [text("text")]}, call]},
        {**before[2], "content": [text(dump(seen))]},
        {**before[3], "content": [text("It works.")]},
    ]
    assert [one["id"] for one in listed(folder, "projection_state")] == [one["id"] for one in VIBE_ENTRIES]
    told = b"".join(files_below(folder / "generations").values()).decode()
    assert ANSWERED not in told
    assert '"preview":"user"' in told
    assert bring(store, home, {f"{FOLDER}/{name}": data.decode() for name, data in files_below(folder).items()}) == []


def test_what_is_in_messages_alone_is_changed_there(store: Store, home: Path, memory_path: Path) -> None:
    bring(store, home, vibe_store(ID, [*VIBE_ENTRIES, *LATER], AFTER))
    change(store, {PROGRAM: "await nothing", RETURNED: "Nothing.", SUMMARY: "In short: all is well."})
    sent = [one["message"]["content"][0] for one in listed(written(store, memory_path / "out"), "checkpoint")]  # type: ignore[index]
    assert sent[2] == text("In short: all is well.")
    given = {"type": "json", "raw": dump({"code": "await nothing"}), "value": {"code": "await nothing"}}
    assert sent[4] == {**CALLED, "arguments": given}
    assert sent[5] == text("Nothing.")


def test_what_is_deleted_goes_from_both_lists(store: Store, home: Path, memory_path: Path) -> None:
    """A call with what it brought; what its runtime knows of later turns, which are numbered anew, goes, too."""
    files = vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES)
    bring(store, home, files)
    change(store, {}, gone=(CODE, THOUGHT))
    folder = written(store, memory_path / "out")
    assert [one["id"] for one in listed(folder, "projection_state")] == ["message-0", "message-3"]
    assert listed(folder, "checkpoint") == [VIBE_MESSAGES[0], VIBE_MESSAGES[3]]
    runtime = json.loads((folder / "generations" / f"{1:016}" / "runtime-state.json").read_bytes())
    assert runtime["actions"] == VIBE_ACTIONS[1:]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_result_in_which_nothing_stands_stays_unless_its_call_goes(
    store: Store, home: Path, memory_path: Path, is_deleted: bool
) -> None:
    sent = [*VIBE_MESSAGES[:2], {**VIBE_MESSAGES[2], "message": {**VIBE_MESSAGES[2]["message"], "content": []}}]  # type: ignore[dict-item]  # a message is an object
    bring(store, home, vibe_store(ID, VIBE_ENTRIES, [*sent, VIBE_MESSAGES[3]]))
    if is_deleted:
        change(store, {}, gone=(CODE,))
    else:
        change(store, {CODE: "pass"})
    exported = listed(written(store, memory_path / "out"), "checkpoint")
    assert (sent[2] in exported, len(exported)) == ((False, 3) if is_deleted else (True, 4))


def test_any_of_its_files_is_of_the_session(home: Path) -> None:
    write(home, vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES))
    for path in (home / FOLDER, *(home / FOLDER).rglob("*.json"), *(home / FOLDER).rglob("*.jsonl")):
        source = claim(path, FORMATS)
        assert source is not None
        assert (source.format, source.path) == ("mistral-vibe-store", home / FOLDER)


def test_a_session_that_is_written_meanwhile_is_read_later(home: Path, memory_path: Path) -> None:
    """Its files would not fit together."""
    write(home, vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES))
    source = claim(home / FOLDER, FORMATS)
    assert source is not None
    write(home, vibe_store(ID, [*VIBE_ENTRIES, *LATER], AFTER, generation=9))
    with pytest.raises(UsageError, match="was written to while it was read"):
        format_named(source.format).rendition(source, memory_path)


def test_what_is_damaged_is_one_line_and_stops_nothing_else(store: Store, home: Path) -> None:
    files = vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES)
    chunk = next(name for name in files if "/chunks/" in name)
    current = json.loads(str(files[f"{FOLDER}/CURRENT"]))
    others = {
        "gone": {name: held for name, held in files.items() if name != chunk},
        "cut": {**files, chunk: str(files[chunk])[:40]},
        "elsewhere": {**files, f"{FOLDER}/CURRENT": dump({**current, "generation": "../../x"})},
        "no manifest": {name: held for name, held in files.items() if not name.endswith("manifest.json")},
    }
    for other in others.values():
        renamed = {name.replace(ID, f"{ID}x"): held for name, held in other.items()}
        [error] = bring(
            store,
            home,
            {
                **renamed,
                ".vibe/logs/session/s1/messages.jsonl": [
                    {"role": "user", "content": ASKED, "message_id": "m1"},
                ],
            },
        )
        assert f"{ID}x" in error
        assert "\n" not in error
    assert events(store) == [(Kind.USER, ASKED)]


def test_lists_within_their_documents(store: Store, home: Path, memory_path: Path) -> None:
    """As versions before the one with chunks wrote them."""
    files = vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES)
    generation = f"{FOLDER}/generations/{1:016}"
    manifest = json.loads(str(files[f"{generation}/manifest.json"]))
    for name, place, items in (
        ("checkpoint", ("context", "messages"), VIBE_MESSAGES),
        ("projection_state", ("snapshot", "history", "entries"), VIBE_ENTRIES),
    ):
        path = f"{generation}/{manifest[name]['path']}"
        document = json.loads(str(files[path]))
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = items
        files[path] = f"{dump(document)}\n"
        del manifest[name]["chunks"]
    files[f"{generation}/manifest.json"] = f"{dump(manifest)}\n"
    assert bring(store, home, files) == []
    assert len(events(store)) == len(VIBE_ENTRIES)
    change(store, {ANSWERED: "It works."})
    folder = written(store, memory_path / "out")
    document = json.loads((folder / "generations" / f"{1:016}" / "checkpoint.json").read_bytes())
    assert document["context"]["messages"][3]["message"]["content"] == [text("It works.")]
