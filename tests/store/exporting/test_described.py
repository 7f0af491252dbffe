"""Conversations as sessions of the tools that a page describes: exported as X and imported as X, they say the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from store.errors import UsageError
from store.events.conversation import Conversation
from store.events.event import Kind
from store.exporting.described import described
from store.exporting.dialogue import Dialogue, Losses, arguments_object, pieces_of
from store.exporting.export import export, names
from store.formats.declared import description
from store.formats.registry import learn, pages
from store.store import Store
from tests.store.exporting.talks import Talk, brought_back, image, lines_of, lost, shop
from tests.store.formats.test_declared import PAGE
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES, imported

WRITTEN = {one.name: target for one in pages() if (target := described(one)) is not None}
FAILED = "that a call failed, but for what its result says"
TIMELESS = {"grok-build", "kimi-cli", "mistral-vibe", "continue", "cline-tasks"}
"""Those whose messages have no time."""

each = pytest.mark.parametrize("form", [*WRITTEN])


def rich(folder: Path) -> Talk:
    """Return a talk with what is hard to tell: calls at once, an image alone, no text, what looks like a template."""
    talk = shop(folder)
    talk.user([image()])
    talk.thinks("Two at once\n\nare faster.")
    talk.calls("toolu_3", "Read", {"file_path": "é ✓.py"})
    talk.calls("toolu_4", "Bash", {})
    talk.returns("toolu_4", "")
    talk.returns("toolu_3", "no such\nfile", failed=True)
    talk.says("$text is $last.uuid\n\n```py\nx\n```")
    talk.says("And one more.")
    talk.user("$title {session} 🙂")
    talk.user("It was about a login.", isCompactSummary=True)
    talk.says("Right.")
    return talk


def told(store: Store, conversation: Conversation, *, images: bool, failures: bool, thoughts: bool = True) -> list[Any]:
    """Return what is said in a conversation, as far as every tool can tell it: steps that belong together as one."""
    found: list[Any] = []
    losses = Losses()
    for step in Dialogue(store.library, conversation, losses).steps():
        kind = Kind.USER if step.kind is Kind.SUMMARY else step.kind
        pieces = pieces_of(step, losses)
        texts = [piece.text for piece in pieces if piece.text]
        if kind is Kind.TOOL_CALL:
            found.append((kind, step.tool, arguments_object(step.arguments)))
        elif kind is Kind.TOOL_RESULT:
            found.append((kind, step.tool, "\n\n".join(texts), step.failed if failures else None))
        elif kind is Kind.REASONING:
            found += [(kind, step.text)] if thoughts else []
        elif kind in (Kind.USER, Kind.ASSISTANT):
            shown = [piece.data for piece in pieces if piece.data] if images and kind is Kind.USER else []
            if kind is Kind.ASSISTANT and found and found[-1][0] is kind:
                found[-1] = (kind, f"{found[-1][1]}\n\n{texts[0]}", [])
            elif texts or shown:
                found.append((kind, "\n\n".join(texts), shown))
    return found


@each
def test_it_says_the_same_when_it_is_read_back(store: Store, tmp_path: Path, form: str) -> None:
    conversation = rich(tmp_path).bring(store)
    out = tmp_path / "out" / "sessions"
    done = export(store, conversation, out, form)
    images, failures = bool(WRITTEN[form].write_as.image), FAILED not in lost(done)
    assert lost(done).keys() <= {"an image", FAILED}
    assert (7 in lost(done)["an image"], 9 in lost(done)["an image"]) == (True, not images)
    before = told(store, conversation, images=images, failures=failures)
    assert len(before) == (20 if images else 19)
    with brought_back(tmp_path, done.files[0]) as (other, again):
        assert told(other, again, images=images, failures=failures) == before
        assert again.format == form
        assert again.title == conversation.title
        assert form == "kimi-cli" or again.metadata["cwd"] == "/home/ada/shop"
        assert {row.kind for row in other.records.rows(again.head)} <= {
            *(Kind.USER, Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.RECORD)
        }
        both = ((store, conversation), (other, again))
        times = [[row.time_ms for row in one.records.rows(of.head) if row.kind is Kind.USER] for one, of in both]
        assert form in TIMELESS or times[0][:2] == times[1][:2]
        # as its own it is the same file again, where the tool looks for it
        own = tmp_path / "own"
        files = export(other, again, own, form).files
        assert [path.read_bytes() for path in files] == [path.read_bytes() for path in done.files]
        # what tells where it was held lies elsewhere
        wanted = [path.relative_to(out) for path in done.files]
        assert form == "kimi-cli" or [path.relative_to(own) for path in files] == wanted
        # and what was in another tool's is in this one's, and the other way round
        back = export(other, again, tmp_path / "back", "claude-code")
        with brought_back(tmp_path / "back", back.files[0]) as (third, last):
            plain = {"images": images, "failures": failures, "thoughts": False}
            assert told(third, last, **plain) == told(store, conversation, **plain)


@pytest.mark.parametrize("form", ["claude-code", "codex", "pi", "oh-my-pi", "gemini-cli", "opencode"])
def test_so_it_does_in_the_forms_that_no_page_describes(store: Store, tmp_path: Path, form: str) -> None:
    # in an export of opencode, an output without text is read as none
    conversation = (shop if form == "opencode" else rich)(tmp_path).bring(store)
    done = export(store, conversation, tmp_path / "out", form)
    left = " ".join(lost(done))
    # a failure stands in what is exported for opencode, and is read as the text of an error
    plain = {"images": 9 not in lost(done).get("an image", ()), "failures": FAILED not in left and form != "opencode"}
    plain["thoughts"] = "a thought" not in left
    with brought_back(tmp_path, done.files[0]) as (other, again):
        assert told(other, again, **plain) == told(store, conversation, **plain)


@each
def test_the_same_again_each_time(store: Store, tmp_path: Path, form: str) -> None:
    conversation = rich(tmp_path).bring(store)
    written = [export(store, conversation, tmp_path / folder, form) for folder in ("first", "second")]
    first, second = ([path.read_bytes() for path in done.files] for done in written)
    assert first == second
    assert [path.relative_to(tmp_path / "first") for path in written[0].files] == names(store, conversation, form)


@each
def test_real_sessions_say_the_same(store: Store, tmp_path: Path, form: str) -> None:
    if not SAMPLES.is_dir():
        pytest.skip(NO_SAMPLES)
    imported(store, *(SAMPLES / "claude-code" / name for name in ("fixtures_synthetic",)))
    imported(store, *sorted((SAMPLES / "codex").glob("agent-sessions*"))[:3])
    conversations = [one for one in store.library.conversations() if one.events]
    assert len(conversations) > 5
    for conversation in conversations:
        done = export(store, conversation, tmp_path / f"{conversation.id}", form)
        before = told(store, conversation, images=False, failures=False)
        if before:
            with brought_back(tmp_path / f"{conversation.id}", done.files[0]) as (other, again):
                assert told(other, again, images=False, failures=False) == before, conversation.source


def test_models_take_what_is_said_at_once_as_one_message(store: Store, tmp_path: Path) -> None:
    conversation = rich(tmp_path).bring(store)
    lines = lines_of(export(store, conversation, tmp_path / "out", "qwen-code"))
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
    assert {line["sessionId"] for line in lines} == {lines[0]["sessionId"]}
    parts = [[next(iter(part)) for part in line["message"]["parts"]] for line in lines[1:]]
    assert parts[8:11] == [["inlineData"], ["text", "functionCall", "functionCall"], ["functionResponse"] * 2]
    assert lines[10]["message"]["parts"][0] == {"text": "Two at once\n\nare faster.", "thought": True}
    vibe = lines_of(export(store, conversation, tmp_path / "vibe", "mistral-vibe"))
    assert [one["role"] for one in vibe[-7:]] == ["assistant", "tool", "tool", "assistant", "user", "user", "assistant"]
    assert (len(vibe[-7]["tool_calls"]), vibe[-4]["content"].count("\n\n")) == (2, 2)


def test_what_comes_later_in_an_answer_is_in_it(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("1")
    talk.says("1")
    talk.says("1")
    talk.thinks("2")
    talk.thinks("2")
    talk.calls("toolu_1", "Read", {})
    talk.returns("toolu_1", "x")
    conversation = talk.bring(store)
    [_asked, said] = json.loads(export(store, conversation, tmp_path, "continue").files[0].read_bytes())["history"]
    assert (said["message"]["content"], said["reasoning"]["text"]) == ("1\n\n1", "2\n\n2")
    assert [call["id"] for call in said["message"]["toolCalls"]] == ["toolu_1"]
    for form in WRITTEN:
        done = export(store, conversation, tmp_path / form, form)
        plain = {"images": False, "failures": False, "thoughts": False}
        with brought_back(tmp_path / form, done.files[0]) as (other, again):
            assert told(other, again, **plain) == told(store, conversation, **plain)


def test_what_is_added_leaves_all_else_as_it_is(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user([{"type": "text", "text": "See."}, image()])
    [_head, asked] = lines_of(export(store, talk.bring(store), tmp_path / "out", "kimi-code"))
    assert [part["type"] for part in asked["message"].pop("content")] == ["text", "image_url"]
    assert asked["message"] == {"role": "user", "toolCalls": [], "origin": {"kind": "user"}}


def test_a_session_tells_where_it_lies_once_it_is_where_its_tool_looks(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINE_SESSION_DATA_DIR", str(tmp_path / "kept"))
    main, beside = export(store, shop(tmp_path).bring(store), tmp_path / "out", "cline").files
    told = json.loads(beside.read_bytes())["messages_path"]
    assert Path(told) == tmp_path / "kept" / main.relative_to(tmp_path / "out")


def test_results_of_cline_name_their_tools(store: Store, tmp_path: Path) -> None:
    main, _beside = export(store, shop(tmp_path).bring(store), tmp_path / "out", "cline").files
    parts = [part for message in json.loads(main.read_bytes())["messages"] for part in message["content"]]
    called = {part["id"]: part["name"] for part in parts if part["type"] == "tool_use"}
    # it refuses all of a session in which one does not
    assert {part["tool_use_id"]: part["name"] for part in parts if part["type"] == "tool_result"} == called


def test_a_note_between_a_call_and_its_result_is_lost_alone(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go.")
    talk.calls("toolu_1", "Read", {"file_path": "a"})
    talk.line("system", "", subtype="informational", content="so")
    talk.returns("toolu_1", "x")
    talk.says("Done.")
    conversation = talk.bring(store)
    done = export(store, conversation, tmp_path / "out", "continue")
    assert lost(done) == {"a note of the tool": (3,)}
    [_asked, called, _said] = json.loads(done.files[0].read_bytes())["history"]
    assert called["toolCallStates"][0]["output"][0]["content"] == "x"


def test_a_page_of_ones_own_can_say_it(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    with pytest.raises(UsageError, match="no format chat-lines"):
        export(store, conversation, tmp_path / "out", "chat-lines")
    folder = tmp_path / "store" / "formats"
    folder.mkdir(exist_ok=True)
    (folder / "chat-lines.toml").write_text(PAGE)
    assert learn(folder) == []
    done = export(store, conversation, tmp_path / "out", "chat-lines")
    [path] = done.files
    assert path.parent == tmp_path / "out" / "-home-ada-shop"
    assert lost(done) == {"a thought": (2,), "the result of a call": (5, 7), "an image": (9,)}
    first, *said = lines_of(done)
    assert first == {"chatlines": 1, "title": conversation.title, "at": "2026-03-05T19:00:00.250Z"}
    assert said[2] == {
        "at": "2026-03-05T19:00:03.250Z", "from": "model", "calls": "Read", "id": "toolu_1",
        "with": {"file_path": "/home/ada/shop/login.py", "limit": 20},
    }
    with brought_back(tmp_path, path) as (other, again):
        kinds = [row.kind.name.lower() for row in other.records.rows(again.head)]
        assert kinds == [
            *("record", "user", "assistant", "tool_call", "tool_call", "assistant", "user", "assistant"),
        ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('file = "{slug}', 'file = "{nosuch}', "in paths of .*: 'nosuch'"),
        ('file = "{slug}', 'file = "{slug', "in paths of"),
        ("[write.records.call]", "[write.records.nosuch]", "no kind 'nosuch'"),
        ("[new.assistant]", "[new.note]", "needs the records of user and assistant"),
        ("[record]", '[database]\nsessions = "s"\n[record]', "no session is written"),
    ],
)
def test_a_page_that_cannot_be_written_by_is_refused(old: str, new: str, told: str) -> None:
    assert old in PAGE
    page = PAGE.replace(old, new)
    if "[database]" in new:
        page = f'container = "database"\n{page}'
    with pytest.raises(UsageError, match=told):
        description.read(page, "page.toml")
