import json

import pytest

from store.formats.codex.lens import CodexLens
from tests.store.formats.rollouts import event, item, message, output, spelled

LENS = CodexLens()
Records = list[dict[str, object]]


def echoed(
    old: dict[str, object], new: dict[str, object], before: Records | None = None, after: Records | None = None
) -> dict[int, dict[str, object]]:
    """Return what becomes of the records before (0, -1, …, the nearest first) and after (1, 2, …) an edited one."""
    back = [(-at, spelled(record)) for at, record in enumerate(before or [])]
    ahead = [(at, spelled(record)) for at, record in enumerate(after or [], 1)]
    return {
        number: json.loads(record) for number, record in LENS.echoes(spelled(old), spelled(new), back, ahead).items()
    }


def test_a_request() -> None:
    told = [event("agent_message", message="Fix it"), event("user_message", message="Fix it", images=[])]
    again = event("user_message", message="Fix it")
    found = echoed(message("user", "Fix it"), message("user", "Fix → that"), [again], [*told, again])
    assert found == {2: event("user_message", message="Fix → that", images=[])}
    assert echoed(message("user", "Fix", " it"), message("user", "Fix", " all"), [], [again]) == {
        1: event("user_message", message="Fix all")
    }


def test_an_answer_and_the_end_of_its_turn() -> None:
    near, far = event("agent_message", message="Done", phase="x"), event("agent_message", message="Done")
    end = event("task_complete", last_agent_message="Done")
    found = echoed(message("assistant", "Done"), message("assistant", "Not yet"), [near, far], [far, end, end])
    assert found == {
        0: event("agent_message", message="Not yet", phase="x"),
        2: event("task_complete", last_agent_message="Not yet"),
    }
    assert echoed(message("assistant", "Done"), message("assistant", "No"), [], [far]) == {
        1: event("agent_message", message="No")
    }


def test_each_text_of_a_summary() -> None:
    def thought(*texts: str) -> dict[str, object]:
        return item("reasoning", summary=[{"type": "summary_text", "text": text} for text in texts])

    events = [event("agent_reasoning", text="Two"), event("agent_reasoning", text="One")]
    assert echoed(thought("One", "Two"), thought("One", "2"), events) == {0: event("agent_reasoning", text="2")}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Exit code: 0\nOutput:\na\nb\n", "Exit code: 0\nOutput:\na\nB\n"),
        (
            json.dumps({"output": "a\nb\n", "metadata": {}}, separators=(",", ":")),
            json.dumps({"output": "a\nB\n", "metadata": {}}, separators=(",", ":")),
        ),
    ],
)
def test_an_output_of_a_command(old: str, new: str) -> None:
    def ended(text: str, call: str = "c1") -> dict[str, object]:
        return event("exec_command_end", call_id=call, stdout=text, stderr="", aggregated_output=text)

    found = echoed(output(old), output(new), [ended("a\nb\n", "c2"), ended("a\nb\n")])
    assert found == {-1: ended("a\nB\n")}


def test_an_item_that_an_event_stands_for() -> None:
    old, new = event("user_message", message="Fix it"), event("user_message", message="Fix all")
    assert echoed(old, new, [], [message("user", "Fix it")]) == {1: message("user", "Fix all")}


def test_what_says_something_else_stays() -> None:
    others = [
        event("user_message", message="Thanks"),
        event("token_count"),
        item("ghost_snapshot"),
        message("user", "x"),
    ]
    assert echoed(message("user", "Fix it"), message("user", "Fix all"), others, others) == {}
    assert (
        echoed(message("user", "Fix it"), message("user", "Fix it"), [], [event("user_message", message="Fix it")])
        == {}
    )
    assert LENS.echoes(b"{", b"}", [], []) == {}
