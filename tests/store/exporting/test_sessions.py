"""Conversations as sessions of other tools: what both can say comes back, and the tool can go on with it."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fusefs.text.render import FileRenderer
from store.editing.keeper import Keeper
from store.events.event import Kind
from store.exporting.event_json import shown_events
from store.exporting.export import export, names
from store.importing.reading import essence
from store.store import Store
from tests.store.exporting.talks import Talk, brought_back, lines_of, lost, said, shop, shown
from tests.store.importing.sessions import by_source, event, imported, jp

TALK = [
    {"type": "turn_start", "timestamp": "2026-03-05 19:31:54.3"},
    event(text="Fix it") | {"resources": [{"uri": "file:///a.rs", "mimeType": "text/x-rust", "text": "fn a() {}"}]},
    {"type": "chat_response", "timestamp": "2026-03-05 19:31:55.3", "reasoning": "Hm."},
    {"type": "tool_call_request", "timestamp": "2026-03-05 19:31:56.3", "id": "c1", "name": "fs.read"}
    | {"arguments": {"path": "YS5ycw==", "all": True}},
    {"type": "inquiry_request", "timestamp": "2026-03-05 19:31:57.3", "id": "q", "question": {"text": "Sure?"}},
    {"type": "inquiry_response", "timestamp": "2026-03-05 19:31:58.3", "id": "q", "answer": "Yes."},
    {"type": "tool_call_response", "timestamp": "2026-03-05 19:31:59.3", "id": "c1", "content": "fn a() {}\n"}
    | {"is_error": True},
    {"type": "chat_response", "timestamp": "2026-03-05 19:32:00.3", "message": "Done."},
]


def test_claude_code_becomes_codex_and_comes_back(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    done = export(store, conversation, tmp_path / "out", "codex")
    (path,) = done.files
    assert path.relative_to(tmp_path / "out").parts[:4] == ("sessions", "2026", "03", "05")
    assert path.name.startswith("rollout-2026-03-05T19-00-00-")
    assert lost(done) == {
        "a thought: it is shown, but not given to the model": (2,),
        "that a call failed, but for what its result says": (7,),
    }
    lines = lines_of(done)
    assert lines[0]["type"] == "session_meta"
    assert lines[0]["payload"]["cwd"] == "/home/ada/shop"
    assert path.stem.endswith(lines[0]["payload"]["id"])
    before = said(store, conversation)
    with brought_back(tmp_path, path) as (other, again):
        assert again.format == "codex"
        assert again.project == "shop"
        # its first line is one of configuration
        assert said(other, again)[1:] == before
        times = [row.time_ms for row in other.records.rows(again.head) if row.kind is Kind.USER]
        assert times == [row.time_ms for row in store.records.rows(conversation.head) if row.kind is Kind.USER]


def test_jp_becomes_claude_code(store: Store, tmp_path: Path) -> None:
    folder = jp(tmp_path, TALK)
    imported(store, folder)
    done = export(store, by_source(store, folder), tmp_path / "out", "claude-code")
    (path,) = done.files
    assert path.parent == tmp_path / "out/projects/-"
    assert set(lost(done)) == {
        "the directory that was worked in, which is not known: / is said",
        "a change of the configuration",
        "a thought that Anthropic did not sign",
        "the name of the tool 'fs.read': it is called fs_read",
        "a question of the tool",
        "an answer to a question of the tool",
    }
    with brought_back(tmp_path, path) as (other, again):
        assert again.title == "Fix the login"
        assert said(other, again) == [
            ("user", "", ["Fix it", "file:///a.rs\n\nfn a() {}"]),
            ("tool_call", "fs_read", ['{\n  "path": "a.rs",\n  "all": true\n}']),
            ("tool_result", "fs_read", ["fn a() {}\n"]),
            ("assistant", "", ["Done."]),
        ]
        assert shown(other, again)[2]["header"]["is_error"] is True


def test_claude_code_becomes_pi_and_comes_back(store: Store, tmp_path: Path) -> None:
    talk = shop(tmp_path)
    talk.user("Mind the tests.", isMeta=True)
    talk.user("It was about a login.", isCompactSummary=True)
    conversation = talk.bring(store)
    done = export(store, conversation, tmp_path / "out", "pi")
    (path,) = done.files
    assert path.parent == tmp_path / "out/sessions/--home-ada-shop--"
    assert lost(done) == {}
    with brought_back(tmp_path, path) as (other, again):
        assert (again.format, again.project, again.title) == ("pi", "shop", conversation.title)
        # what a model said at once is one line here
        kinds = [kind for kind, _tool, _content in said(other, again)]
        assert kinds == [
            "user",
            *(["tool_call", "tool_result"] * 2),
            *("assistant", "user", "assistant", "system", "summary"),
        ]
        told = [text for _kind, _tool, texts in said(other, again) for text in texts]
        assert told == [text for _kind, _tool, texts in said(store, conversation) for text in texts]


def test_claude_code_becomes_oh_my_pi_and_comes_back(store: Store, tmp_path: Path) -> None:
    image = bytes(range(256)) * 8
    talk = shop(tmp_path)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(image).decode()}
    small = source | {"data": base64.b64encode(image[:600]).decode()}
    talk.user([{"type": "image", "source": source}, {"type": "image", "source": small}])
    conversation = talk.bring(store)
    done = export(store, conversation, tmp_path / "out", "oh-my-pi")
    blob = tmp_path / "out" / "blobs" / hashlib.sha256(image).hexdigest()
    path = next(file for file in done.files if file != blob)
    assert set(done.files) == {path, blob}
    assert blob.read_bytes() == image
    first = path.read_bytes().split(b"\n")[0]
    assert (len(first), json.loads(first)["title"]) == (255, conversation.title)
    assert small["data"].encode() in path.read_bytes()
    assert export(store, conversation, tmp_path / "again", "oh-my-pi").files[0].name == path.name
    with brought_back(tmp_path, path) as (other, again):
        assert (again.format, again.project, again.title) == ("pi", "shop", conversation.title)
        told = [text for _kind, _tool, texts in said(other, again) for text in texts]
        assert told == [text for _kind, _tool, texts in said(store, conversation) for text in texts]
        # as that program's own, it is the same file
        own, _blob = export(other, again, tmp_path / "own", "oh-my-pi").files
        assert own.read_bytes() == path.read_bytes()


def test_claude_code_becomes_gemini_cli_and_comes_back(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    done = export(store, conversation, tmp_path / "out", "gemini-cli")
    path, marker = done.files
    assert path.parent == tmp_path / "out/tmp/shop/chats"
    assert path.name.startswith("session-2026-03-05T19-00-")
    assert marker == tmp_path / "out/tmp/shop/.project_root"
    assert marker.read_text() == "/home/ada/shop"
    # another one goes beside it
    second = shop(tmp_path / "second")
    second.lines[0]["timestamp"] = "2026-03-05T18:00:00.000Z"
    assert export(store, second.bring(store), tmp_path / "out", "gemini-cli").files[0].parent == path.parent
    assert lost(done) == {}
    with brought_back(tmp_path, path) as (other, again):
        assert (again.format, again.project, again.title) == ("gemini-cli", "shop", conversation.title)
        told = [(kind, tool) for kind, tool, _content in said(other, again)]
        assert told == [
            ("user", ""),
            ("tool_call", "Read"),
            ("tool_call", "Bash"),
            ("assistant", ""),
            ("user", ""),
            ("assistant", ""),
        ]
        texts = [repr(text) for _kind, _tool, texts in said(other, again) for text in texts if text]
        before = [repr(text) for _kind, _tool, texts in said(store, conversation) for text in texts]
        assert sorted(texts) == sorted(before)


def check_claude_code(lines: list[dict[str, Any]]) -> None:
    """Check what the program looks for when it takes a session up again."""
    parent = None
    for line in lines:
        if line["type"] == "custom-title":
            continue
        assert line["parentUuid"] == parent
        parent = line["uuid"]
        assert line["message"]["role"] == line["type"]
        assert {"sessionId", "cwd", "version", "timestamp", "isSidechain", "userType"} <= line.keys()
    assert len({line["uuid"] for line in lines if "uuid" in line}) == len([line for line in lines if "uuid" in line])


def test_lines_of_claude_code_are_linked(store: Store, tmp_path: Path) -> None:
    folder = jp(tmp_path, TALK)
    imported(store, folder)
    done = export(store, by_source(store, folder), tmp_path / "out", "claude-code")
    lines = lines_of(done)
    check_claude_code(lines)
    assert {line["sessionId"] for line in lines} == {done.files[0].stem}


@pytest.mark.parametrize("form", ["codex", "claude-code", "pi", "oh-my-pi", "gemini-cli"])
def test_the_same_again_each_time(store: Store, tmp_path: Path, form: str) -> None:
    folder = jp(tmp_path, TALK)
    imported(store, folder)
    conversation = by_source(store, folder)
    first = export(store, conversation, tmp_path / "a", form)
    second = export(store, conversation, tmp_path / "b", form)
    lines, again = lines_of(first), lines_of(second)
    # Gemini CLI is told that a session is fresh, else it deletes it
    assert (lines[0].pop("lastUpdated", "") != again[0].pop("lastUpdated", "")) is (form == "gemini-cli")
    assert lines == again
    relative = [path.relative_to(tmp_path / "a") for path in first.files]
    assert relative == [path.relative_to(tmp_path / "b") for path in second.files]
    assert names(store, conversation, form) == relative


def test_a_thought_that_was_signed_goes_along(store: Store, tmp_path: Path) -> None:
    thought = {"type": "chat_response", "timestamp": "2026-03-05 19:31:55.3", "reasoning": "Hm."}
    signed = thought | {"metadata": {"anthropic_thinking_signature": "c2lnbmVk"}}
    folder = jp(tmp_path, [event(), signed])
    imported(store, folder)
    lines = lines_of(export(store, by_source(store, folder), tmp_path / "out", "claude-code"))
    (part,) = lines[1]["message"]["content"]
    assert part == {"type": "thinking", "thinking": "Hm.", "signature": "signed"}


def test_a_talk_of_the_tool_itself_is_its_own_file(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    talk.line("user", "inner", isSidechain=True, parent=None)
    conversation = talk.bring(store)
    done = export(store, conversation, tmp_path / "out", "claude-code")
    (path,) = done.files
    assert path.relative_to(tmp_path / "out") == Path("projects/-home-ada-shop") / f"{talk.name}.jsonl"
    assert path.read_bytes() == Path(conversation.source).read_bytes()
    assert done.lost == ()


@pytest.mark.parametrize("form", ["claude-code", "codex", "pi", "gemini-cli"])
def test_a_fork_becomes_a_session_that_its_tool_finds(store: Store, tmp_path: Path, form: str) -> None:
    """It has an id of its own, in its lines and in its name, and lies where the tool works."""
    (first,) = export(store, shop(tmp_path).bring(store), tmp_path / "first", form).files[:1]
    imported(store, first)
    conversation = by_source(store, first)
    at = next(row.number for row, shown in shown_events(store, conversation) if "That, too." in str(shown))
    fork = Keeper(store).fork(conversation.id, "aside", at=at - 1).context
    (path,) = export(store, store.library.conversation(fork), tmp_path / "out", form).files[:1]
    if form != "codex":  # whose folders are days
        assert path.relative_to(tmp_path / "out").parent == first.relative_to(tmp_path / "first").parent
    own, theirs = (id_in(one.read_bytes()) for one in (path, first))
    assert own != theirs
    assert own[:8] in path.name
    with brought_back(tmp_path, path) as (other, again):
        told = str(said(other, again))
        assert "And this?" in told
        assert "That, too." not in told


PARENTS = {"claude-code": "forkedFrom", "codex": "forked_from_id", "pi": "parentSession"}
"""By format: the member by which a session names the one that it is a fork of."""


@pytest.mark.parametrize("native", [False, True], ids=["as-the-tool", "native"])
@pytest.mark.parametrize("form", [*PARENTS])
def test_a_fork_is_its_parents_lines_and_names_it(store: Store, tmp_path: Path, form: str, native: bool) -> None:
    (first,) = export(store, shop(tmp_path).bring(store), tmp_path / "first", form).files[:1]
    imported(store, first)
    conversation = by_source(store, first)
    at = next(row.number for row, shown in shown_events(store, conversation) if "That, too." in str(shown))
    Keeper(store).fork(conversation.id, "aside", at=at - 1)
    fork = store.library.find("shop", "aside")
    assert fork is not None
    deeper = Keeper(store).fork(fork.id, "deeper").context
    folder = tmp_path / "out"
    (path,) = export(store, fork, folder, "native" if native else form).files
    (child,) = export(store, store.library.conversation(deeper), folder, "native" if native else form).files
    (again,) = export(store, fork, tmp_path / "again", form).files
    assert again.read_bytes() == path.read_bytes()
    sessions = [id_in(one.read_bytes()) for one in (first, path, child)]
    assert len({*sessions}) == 3
    assert [session in one.name for session, one in zip(sessions, (first, path, child), strict=True)] == [True] * 3
    for above, own, parent in ((first, path, sessions[0]), (path, child, sessions[1])):
        lines = own.read_text().splitlines()
        said = [line for line in lines if PARENTS[form] in line]
        assert said
        assert all(parent in line for line in said)
        # the rest is as it was
        theirs = above.read_text().splitlines()
        if form == "claude-code":
            theirs, lines = ([essence(line.encode(), OF_A_COPY) for line in some] for some in (theirs, lines))
        else:
            # the first line is about the session
            theirs, lines = theirs[1:], lines[1:]
        assert lines == theirs[: len(lines)]
    with Store.open(tmp_path / "other", renderer=FileRenderer()) as other:
        imported(other, first)
        imported(other, path)
        branch = by_source(other, path)
        assert branch.metadata["forked_from"]["context"] == by_source(other, first).id
        assert branch.metadata["session"] == sessions[1]


def test_a_fork_in_the_middle_of_a_call_is_one_that_models_take(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    at = next(row.number for row in store.records.rows(conversation.head) if row.kind is Kind.TOOL_CALL)
    fork = Keeper(store).fork(conversation.id, "aside", at=at).context
    done = export(store, store.library.conversation(fork), tmp_path / "out", "claude-code")
    check_claude_code(lines_of(done))
    assert "no result of this call was recorded" in done.files[0].read_text()
    assert f'"forkedFrom":{{"sessionId":"{conversation.metadata["session"]}"' in done.files[0].read_text()


OF_A_COPY = frozenset(("sessionId", "forkedFrom"))


def id_in(content: bytes) -> str:
    """Return the id that the lines of a session have, all the same one."""
    lines = [json.loads(line) for line in content.splitlines()]
    if lines[0].get("type") == "session_meta":
        return str(lines[0]["payload"]["id"])
    if lines[0].get("type") == "session":
        return str(lines[0]["id"])
    (found,) = {line["sessionId"] for line in lines if "sessionId" in line}
    return str(found)


def test_one_of_many_in_a_file_becomes_that_file(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "tmp/shop/chats"
    folder.mkdir(parents=True)
    lines = [{"sessionId": "s", "projectHash": "h", "startTime": "2026-03-05T19:00:00.000Z", "kind": "main"}]
    for number, text in enumerate(("One", "Two", "Three")):
        said = {"id": f"m{number}", "timestamp": f"2026-03-05T19:00:0{number}.000Z", "type": "user", "content": text}
        lines.append(said)
    lines.insert(3, {"$rewindTo": "m1"})
    path = folder / "session-2026-03-05T19-00-s.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    imported(store, path)
    conversation = next(one for one in store.library.conversations() if one.format == "gemini-cli")
    done = export(store, conversation, tmp_path / "out", "gemini-cli")
    assert done.files[0].read_bytes() == path.read_bytes()
