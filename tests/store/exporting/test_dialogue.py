"""Messages that a model may be sent: calls and results together, one branch, and a note of all that is left out."""

from pathlib import Path

import pytest

from store.events.event import Block, Event, Kind
from store.exporting.dialogue import Dialogue, Loss, Losses
from store.exporting.steps import joined, steps_of
from store.formats.core.blocks import argument_blocks
from store.store import Store
from tests.store.exporting.talks import Talk, shop


def sent(store: Store, talk: Talk) -> tuple[list[tuple[str, str]], dict[str, tuple[int, ...]]]:
    """Return each step's kind, with its text or the id of its call, and what was lost."""
    losses = Losses()
    steps = list(Dialogue(store.library, talk.bring(store), losses).steps())
    told = [(step.kind.name.lower(), f"{step.id} {step.text}".strip() if step.id else step.text) for step in steps]
    return told, {loss.what: loss.events for loss in losses.all()}


def test_results_follow_their_calls(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    talk.calls("a", "Read", {})
    talk.calls("b", "Read", {})
    talk.user("Wait, one more thing")
    talk.returns("b", "B")
    talk.returns("a", "A")
    talk.says("Done")
    told, lost = sent(store, talk)
    assert told == [
        ("user", "Go"),
        ("tool_call", "a"),
        ("tool_call", "b"),
        ("tool_result", "a A"),
        ("tool_result", "b B"),
        ("user", "Wait, one more thing"),
        ("assistant", "Done"),
    ]
    assert lost == {}


def test_what_came_of_a_call_may_stand_beside_it() -> None:
    blocks = (
        Block("text", "Look:"),
        *argument_blocks({"path": "a"}, (), "arguments"),
        Block("text", "A", name="result"),
        *argument_blocks({"path": "b"}, (), "call2.arguments"),
        Block("text", "no such file", name="call2.error"),
    )
    header: dict[str, str | int | float | bool] = {"id": "x", "tool_2": "read", "id_2": "y", "is_error_2": True}
    steps = list(steps_of(1, Event(Kind.TOOL_CALL, "read", header, blocks)))
    assert [(step.kind, step.id, step.tool, step.text, step.failed) for step in steps] == [
        (Kind.ASSISTANT, "", "", "Look:", False),
        (Kind.TOOL_CALL, "x", "read", "", False),
        (Kind.TOOL_CALL, "y", "read", "", False),
        (Kind.TOOL_RESULT, "x", "read", "A", False),
        (Kind.TOOL_RESULT, "y", "read", "no such file", True),
    ]
    assert [step.arguments for step in steps[1:3]] == [{"path": "a"}, {"path": "b"}]


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_goes(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    talk.returns("nowhere", "what?")
    talk.calls("a", "Read", {})
    talk.user("Stop")
    told, lost = sent(store, talk)
    assert told == [
        ("user", "Go"),
        ("tool_call", "a"),
        ("tool_result", "a [no result of this call was recorded]"),
        ("user", "Stop"),
    ]
    assert lost.pop("a result without its call") == (2,)
    ((what, events),) = lost.items()
    assert "a call without a result" in what
    assert events == (3,)


def test_an_id_that_comes_twice_is_told_apart(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    for text in ("first", "second"):
        talk.calls("a|b", "Read", {})
        talk.returns("a|b", text)
    told, lost = sent(store, talk)
    assert told[1:] == [
        ("tool_call", "a_b"),
        ("tool_result", "a_b first"),
        ("tool_call", "a_b_"),
        ("tool_result", "a_b_ second"),
    ]
    assert lost == {}


def test_only_the_branch_that_goes_on(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    first = talk.user("Go")
    talk.says("left")
    talk.user("left, too")
    talk.says("taken", parent=first)
    talk.user("On")
    told, lost = sent(store, talk)
    assert [text for _kind, text in told] == ["Go", "taken", "On"]
    assert lost == {"a branch that the conversation did not go on from": (2, 3)}


def test_results_of_calls_at_once_are_no_branch(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    a = talk.calls("a", "Read", {})
    b = talk.calls("b", "Read", {})
    talk.returns("a", "A", parent=a)
    talk.returns("b", "B", parent=b)
    talk.says("Done")
    told, lost = sent(store, talk)
    assert told[1:-1] == [("tool_call", "a"), ("tool_call", "b"), ("tool_result", "a A"), ("tool_result", "b B")]
    assert lost == {}


def test_subagents_within_are_left_out_but_not_of_their_own(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    talk.user("inner", isSidechain=True, parent=None)
    talk.says("inner, too", isSidechain=True)
    talk.says("Done", parent="u0")
    told, lost = sent(store, talk)
    assert [text for _kind, text in told] == ["Go", "Done"]
    assert lost == {"what a subagent did within the conversation": (2, 3)}

    agent = Talk(tmp_path, "agent-1234")
    agent.user("inner", isSidechain=True, agentId="1234")
    agent.says("inner, too", isSidechain=True, agentId="1234")
    assert sent(store, agent) == ([("user", "inner"), ("assistant", "inner, too")], {})


def test_what_stands_before_everything_is_the_prompt(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Be brief.", isMeta=True)
    talk.user("Go")
    talk.user("Still be brief.", isMeta=True)
    dialogue = Dialogue(store.library, talk.bring(store), Losses())
    assert dialogue.prompt == "Be brief."
    assert [(step.kind, step.text) for step in dialogue.steps()] == [
        (Kind.USER, "Go"),
        (Kind.SYSTEM, "Still be brief."),
    ]


def test_a_line_of_several_parts_is_several_steps(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    parts = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Both."},
        {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "x"}},
        {"type": "tool_use", "id": "b", "name": "Bash", "input": {}},
    ]
    talk.line("assistant", parts)
    results = [{"type": "tool_result", "tool_use_id": name, "content": name.upper()} for name in "ab"]
    talk.line("user", results)
    losses = Losses()
    steps = list(Dialogue(store.library, talk.bring(store), losses).steps())[1:]
    assert [(step.kind.name, step.tool, step.id, step.text) for step in steps] == [
        ("REASONING", "", "", "Hm."),
        ("ASSISTANT", "", "", "Both."),
        ("TOOL_CALL", "Read", "a", ""),
        ("TOOL_CALL", "Bash", "b", ""),
        ("TOOL_RESULT", "Read", "a", "A"),
        ("TOOL_RESULT", "Bash", "b", "B"),
    ]
    assert steps[0].signature == "c2ln"
    assert [step.arguments for step in steps[2:4]] == [{"path": "x"}, {}]
    assert losses.all() == ()


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1, "b": None, "c": [True, 1.5, "plain"]},
        {"text": "two\nlines", "rest": {"deep": ['say "x"', {"$block": "not one"}]}},
        {"a.b": "x\ny", "c[0]": "x\ny", "ü ß": "\\", "": "x\ny"},
        ["one\ntwo", {"k": "three\nfour"}],
        "a text\nalone",
    ],
)
def test_arguments_come_back_from_their_blocks(value: object) -> None:
    assert joined(argument_blocks(value, ("input",), "arguments"), "arguments") == value


def test_a_call_whose_input_has_a_name_of_its_own() -> None:
    event = Event(Kind.TOOL_CALL, "apply_patch", {"id": "a"}, (Block("text", "*** Begin", name="input"),))
    (step,) = steps_of(1, event)
    assert (step.tool, step.id, step.arguments) == ("apply_patch", "a", {"input": "*** Begin"})


def test_a_thought_with_a_heading_is_one_thought() -> None:
    blocks = (Block("text", "On files", name="subject"), Block("text", "Which?", name="thinking"))
    thought, call = steps_of(1, Event(Kind.TOOL_CALL, "read", {"id": "a"}, blocks))
    assert (thought.kind, thought.text) == (Kind.REASONING, "On files\n\nWhich?")
    assert (call.kind, call.arguments) == (Kind.TOOL_CALL, {})


def test_losses_are_told_in_a_line_each() -> None:
    losses = Losses()
    losses.add("a thought", 3)
    losses.add("the title")
    losses.add("a thought", 4, 4)
    assert [loss.line() for loss in losses.all()] == ["a thought (2 events: 3, 4)", "the title"]
    assert Loss("x", tuple(range(1, 12))).line() == "x (11 events: 1, 2, 3, 4, 5, 6, 7, 8, …)"
    assert Loss("x", (7,)).line() == "x (event 7)"


def test_a_whole_talk(store: Store, tmp_path: Path) -> None:
    told, lost = sent(store, shop(tmp_path))
    kinds = [kind for kind, _text in told]
    assert kinds == [
        "user",
        "reasoning",
        "assistant",
        *(["tool_call", "tool_result"] * 2),
        "assistant",
        "user",
        "assistant",
    ]
    assert lost == {}
