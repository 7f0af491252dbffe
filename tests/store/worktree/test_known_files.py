"""Files as a conversation knew them: what follows from its events, filed, and put together again."""

import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from fusefs.text.resource_names import resource_paths
from store.conversations.contexts import Append
from store.editing.editor import Editor
from store.errors import DamageError
from store.ids import hash_bytes
from store.importing.importer import Importer
from store.retention.pruner import delete
from store.store import Store
from store.worktree.known_files import FileRow
from tests.store.worktree.test_changes import ROSES, Talk

BEDS = "/garden/beds.txt"
PATCH = "*** Begin Patch\n*** Update File: beds.txt\n*** Move to: plot.txt\n@@\n-rue\n+bay\n*** End Patch"


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store


def imported(store: Store, talk: Talk, directory: Path) -> None:
    session = directory / "s.jsonl"
    session.write_text("\n".join(talk.lines) + "\n")
    Importer(store).run([session])


def head(store: Store, context: int = 1) -> int:
    found = store.catalogue.head(context)
    assert found is not None
    return found[0]


def known(store: Store, context: int = 1) -> dict[str, str]:
    """Return the files of a conversation by their paths in ``resources/``, each put together from its events alone."""
    at = head(store, context)
    rows = store.known_files.rows(context, at)
    held = store.records.resources(at)
    there = {(row.turn, row.seq) for row in held}
    found: dict[str, str] = {}
    for path, row in resource_paths([*held, *(row for row in rows if (row.turn, row.seq) not in there)]).items():
        if isinstance(row, FileRow):
            store.known_files.forget()
            data = store.known_files.content(context, at, row, rows)
        else:
            data = store.records.resource(row)
        assert (len(data), hash_bytes(data)) == (row.size, row.hash)
        found[path.removeprefix("garden/")] = data.decode()
    return found


def test_each_edit_makes_a_new_state(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.read(BEDS, ROSES)
    talk.edit(BEDS, "mint", "basil")
    talk.call("MultiEdit", {"file_path": "beds.txt", "edits": [{"old_string": "leek\n", "new_string": ""}]})
    imported(store, talk, tmp_path)
    basil = ROSES.replace("mint", "basil")
    assert known(store) == {
        "beds@00002.txt": ROSES,
        "beds@00004.txt": basil,
        "beds.txt": basil.replace("leek\n", ""),
    }


def test_some_lines_are_no_whole(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.call("exec_command", {"cmd": "sed -n '4,5p' beds.txt"}, "sage\nmint\n")
    talk.edit(BEDS, "mint", "basil")
    talk.call("read", {"path": BEDS, "offset": 2, "limit": 1}, "thyme\n\n[6 more lines in file. Use offset=3]")
    imported(store, talk, tmp_path)
    assert known(store) == {"beds@00002.L4-5.txt": "sage\nmint", "beds@00006.L2-2.txt": "thyme"}


def test_pieces_with_an_edit_between_them_make_the_whole(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.read(BEDS, "roses\nthyme\n\nsage", 1, 9)
    talk.edit(BEDS, "thyme", "lilies\nphlox")
    talk.read(BEDS, "sage\nmint\nrue\ndill\nleek\n", 5, 10)
    imported(store, talk, tmp_path)
    found = known(store)
    assert found["beds.txt"] == ROSES.replace("thyme", "lilies\nphlox")
    assert sorted(found) == ["beds.txt", "beds@00002.L1-4.txt", "beds@00006.L5-10.txt"]


def test_what_is_written_moved_and_attached(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.write(BEDS, ROSES)
    talk.call("apply_patch", {"input": PATCH})
    talk.call("Write", {"file_path": "/garden/empty.txt", "content": ""})
    imported(store, talk, tmp_path)
    assert known(store) == {
        "beds@00002.txt": ROSES,
        "beds.txt": ROSES.replace("rue", "bay"),
        "plot.txt": ROSES.replace("rue", "bay"),
        "empty.txt": "",
    }


def test_what_the_record_of_an_edit_holds_is_known(store: Store, talk: Talk, tmp_path: Path) -> None:
    told = {"filePath": BEDS, "oldString": "mint", "newString": "basil", "originalFile": ROSES}
    talk.edit(BEDS, "mint", "basil", toolUseResult=told)
    talk.edit(BEDS, "rue", "bay", toolUseResult={**told, "originalFile": ROSES, "userModified": True})
    imported(store, talk, tmp_path)
    # what somebody made of the second edit is not told
    assert known(store) == {"beds@00002.txt": ROSES.replace("mint", "basil"), "beds.txt": ROSES}


def test_attached_lines_are_no_whole(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.write("/garden/else.txt", "")
    for file in (
        {"filePath": BEDS, "content": "roses\nthyme", "startLine": 1, "numLines": 2, "totalLines": 9},
        {"filePath": BEDS, "content": ROSES, "startLine": 1, "numLines": 9, "totalLines": 9},
    ):
        attachment = {"type": "file", "filename": BEDS, "content": {"type": "text", "file": file}}
        line = {"type": "attachment", "uuid": f"a{len(talk.lines)}", "sessionId": "s", "attachment": attachment}
        talk.lines.append(json.dumps(line))
    talk.edit(BEDS, "mint", "basil")
    imported(store, talk, tmp_path)
    assert known(store) == {
        "else.txt": "",
        "beds@00003.L1-2.txt": "roses\nthyme",
        "beds@00004.txt": ROSES,
        "beds.txt": ROSES.replace("mint", "basil"),
    }


def test_a_session_of_codex_reads_in_a_shell(store: Store, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"type": "session_meta", "payload": {"id": "0199a213-81c0-7800-8aa1-bbab2a035a53", "cwd": "/garden"}},
        said_in_codex("message", role="user", content=[{"type": "input_text", "text": "What grows?"}]),
    ]
    patch = "*** Begin Patch\n*** Update File: beds.txt\n@@\n sage\n-mint\n+basil\n*** End Patch"
    results = [(["bash", "-lc", "sed -n '4,5p' beds.txt"], "sage\nmint\n"), (["cat", "beds.txt"], ROSES)]
    for number, (command, output) in enumerate([*results, (["apply_patch", patch], "Success."), *results[:1]]):
        given = json.dumps({"command": command})
        lines.append(said_in_codex("function_call", name="shell", arguments=given, call_id=f"c{number}"))
        told = json.dumps({"output": output, "metadata": {"exit_code": 0}})
        lines.append(said_in_codex("function_call_output", call_id=f"c{number}", output=told))
    session = tmp_path / "rollout-2026-03-05T12-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"
    stamp = {"timestamp": "2026-03-05T12:00:00.000Z"}
    session.write_text("".join(f"{json.dumps(stamp | line)}\n" for line in lines))
    Importer(store).run([session])
    assert known(store) == {
        "beds@00010.L4-5.txt": "sage\nmint",
        "beds@00006.txt": ROSES,
        "beds.txt": ROSES.replace("mint", "basil"),
    }


def said_in_codex(what: str, **fields: object) -> dict[str, object]:
    return {"type": "response_item", "payload": {"type": what, **fields}}


def called(tool: str, **given: str) -> str:
    members = "".join(f"<{name}>{value}</{name}>\n" for name, value in given.items())
    return f"I will do that.\n\n<{tool}>\n{members}</{tool}>"


def brought(tool: str, path: str, said: str, *, apart: bool = False) -> list[str]:
    head = f"[{tool} for '{path}'] Result:"
    return [head, said] if apart else [f"{head}\n{said}"]


def test_calls_that_stand_in_texts(store: Store, tmp_path: Path) -> None:
    """Those of Cline and Roo, one by one and two at once; what failed, or nobody asked for, tells nothing."""
    diff = "\n<<<<<<< SEARCH\nmint\n=======\nbasil\n>>>>>>> REPLACE\n"
    args = "<file><path>[id].txt</path></file>"
    tagged = f"\n<read_file>\n<path>x</path>\n</read_file>\n{ROSES}"
    talk: list[tuple[str, list[str]]] = [
        ("user", ["<task>\nLook at the beds\n</task>", "<environment_details>\n# Time\n</environment_details>"]),
        ("assistant", [called("read_file", path="beds.txt")]),
        ("user", [*brought("read_file", "beds.txt", ROSES), "<environment_details>\n</environment_details>"]),
        ("assistant", [called("replace_in_file", path="beds.txt", diff=diff)]),
        ("user", brought("replace_in_file", "beds.txt", "The content was successfully saved.", apart=True)),
        ("assistant", [called("write_to_file", path="denied.txt", content="x")]),
        ("user", brought("write_to_file", "denied.txt", "The user denied this operation.")),
        ("assistant", [called("read_file", args=args) + called("write_to_file", path="tags.txt", content=tagged)]),
        ("user", [*brought("read_file", "[id].txt", "one", apart=True), *brought("write_to_file", "t.txt", "Saved")]),
        ("assistant", ["That is all."]),
        ("user", brought("read_file", "nobody.txt", "asked")),
    ]
    folder = tmp_path / "saoudrizwan.claude-dev" / "tasks" / "17"
    folder.mkdir(parents=True)
    messages = [{"role": role, "content": [{"type": "text", "text": one} for one in texts]} for role, texts in talk]
    (folder / "api_conversation_history.json").write_text(json.dumps(messages))
    (folder / "history_item.json").write_text(json.dumps({"workspace": "/garden", "task": "Look"}))
    assert Importer(store).run([folder]).errors == []
    assert known(store) == {
        "beds@00003.txt": ROSES,
        "beds.txt": ROSES.replace("mint", "basil"),
        "[id].txt": "one",
        "tags.txt": tagged.strip("\n"),
    }


def test_openhands_records_hold_both_states(store: Store) -> None:
    about = {"source": "agent", "tool_call_metadata": {"function_name": "str_replace_editor", "tool_call_id": "c"}}
    extras = {"path": BEDS, "old_content": ROSES, "new_content": ROSES.replace("mint", "basil")}
    diff = "--- a\n+++ b\n@@ -5 +5 @@\n-mint\n+basil"
    shown = "Here's the result of running `cat -n` on it:\n     1\troses\n     2\tthyme\n"
    records = [
        {"id": 1, "action": "edit", "args": {"path": BEDS, "start": 1, "end": -1}, **about},
        {"id": 2, "cause": 1, "observation": "edit", "content": diff, "extras": extras, **about},
        {"id": 3, "action": "read", "args": {"path": BEDS, "start": 0, "end": -1, "view_range": [1, 2]}, **about},
        {"id": 4, "cause": 3, "observation": "read", "content": shown, "extras": {"path": BEDS}, **about},
    ]
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    appends = [Append(json.dumps(one).encode(), "openhands.event.v1") for one in records]
    store.contexts.append_many(context, appends)
    assert known(store, context) == {
        "beds@00002-0.txt": ROSES,
        "beds.txt": ROSES.replace("mint", "basil"),
        "beds@00004.L1-2.txt": "roses\nthyme",
    }


def test_a_conversation_that_goes_on_is_not_begun_anew(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.read(BEDS, ROSES)
    imported(store, talk, tmp_path)
    assert list(known(store)) == ["beds.txt"]
    before = head(store)
    assert store.known_files.is_known(1, before)
    talk.edit(BEDS, "mint", "basil")
    imported(store, talk, tmp_path)
    assert not store.known_files.is_known(1, head(store))
    grown = known(store)
    assert grown == {"beds@00002.txt": ROSES, "beds.txt": ROSES.replace("mint", "basil")}
    # as it was then, it still has what it had
    assert [row.uri for row in store.known_files.rows(1, before)] == [f"file://{BEDS}"]
    rows = store.known_files.rows(1, head(store))
    while store.known_files.step():
        pass
    store.known_files.renew()
    store.known_files.forget()
    assert store.known_files.step()
    assert store.known_files.rows(1, head(store)) == rows


def test_a_short_conversation_is_gone_through_again_after_a_rest(store: Store, talk: Talk, tmp_path: Path) -> None:
    text = "".join(f"{number} roses\n" for number in range(50_000))
    talk.write(BEDS, text)
    imported(store, talk, tmp_path)
    tracemalloc.start()
    try:
        while store.known_files.step():
            pass
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        store.known_files.shrink()
        given_back = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # the content, and what is known of the file
    assert given_back > 1.9 * len(text)
    talk.edit(BEDS, "49999 roses", "mint")
    imported(store, talk, tmp_path)
    assert known(store)["beds.txt"] == text.replace("49999 roses", "mint")


def test_an_edited_event_changes_what_follows(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.write(BEDS, ROSES)
    talk.edit(BEDS, "mint", "basil")
    imported(store, talk, tmp_path)
    assert known(store)["beds.txt"] == ROSES.replace("mint", "basil")
    row = store.records.row(head(store), 1)
    assert row is not None
    [(_turn, content)] = store.contents.of_turns([store.turns.get(row.turn)])
    assert isinstance(content, bytes)
    payload = json.loads(content)
    payload["message"]["content"][0]["input"]["content"] = "only mint\n"
    Editor(store).edit(1, {1: json.dumps(payload).encode()})
    assert known(store) == {"beds@00002.txt": "only mint\n", "beds.txt": "only basil\n"}


def test_it_is_filed_in_the_background_and_kept(memory_path: Path, talk: Talk, tmp_path: Path) -> None:
    talk.write(BEDS, ROSES)
    root = memory_path / "kept"
    with Store.open(root, renderer=FileRenderer()) as store:
        imported(store, talk, tmp_path)
        assert not store.known_files.is_known(1, head(store))
        while store.known_files.step():
            pass
        assert store.known_files.is_known(1, head(store))
    with Store.open(root, renderer=FileRenderer()) as store:
        assert store.known_files.is_known(1, head(store))
        assert not store.known_files.step()
        assert known(store) == {"beds.txt": ROSES}
        assert [(context, row.number) for context, row in store.known_files.with_uri(f"file://{BEDS}")] == [(1, 2)]
        assert len(store.known_files.with_content(hash_bytes(ROSES.encode()))) == 1
        delete(store, 1, head(store))
        assert store.known_files.with_uri(f"file://{BEDS}") == []
        assert store.known_files.uris(9) == []


def test_content_that_cannot_be_had_again_is_damage(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.write(BEDS, ROSES)
    imported(store, talk, tmp_path)
    rows = store.known_files.rows(1, head(store))
    wrong = FileRow(*(getattr(rows[0], name) for name in rows[0].__struct_fields__[:7]), b"?" * 32, 1, 1)
    with pytest.raises(DamageError, match="event 2 can no longer be put together"):
        store.known_files.content(1, head(store), wrong, rows)
