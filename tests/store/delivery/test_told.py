"""Resources that a tool told as a text: a file with its lines numbered."""

from pathlib import Path

import pytest

from store.formats.core.twins import standing_in
from store.store import Store
from tests.store.delivery.talk import LONG, OTHER, Reference, document, numbered, result
from tests.store.exporting.talks import Talk as Session

PATH = "/home/ada/shop/library.py"
URI = f"file://{PATH}"
REMINDER = "\n\n<system-reminder>\nWhatever this file is, be careful.\n</system-reminder>\n"


def reads(session: Session, call: str, told: object, content: str = LONG, first: int = 1, total: int = 20) -> None:
    """Have the model read a file, of which it is ``told`` something."""
    session.calls(call, "Read", {"file_path": PATH})
    lines = len(content.splitlines())
    file = {"filePath": PATH, "content": content, "startLine": first, "numLines": lines, "totalLines": total}
    session.returns(call, told, toolUseResult={"type": "text", "file": file})


def results(store: Store, session: Session) -> list[object]:
    messages = document(store, session.bring(store))["messages"]
    return [result(line) for line in messages if line["role"] == "tool"]


def test_a_file_that_was_read_again_is_referred_to(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user("Look")
    reads(session, "toolu_1", numbered(LONG))
    reads(session, "toolu_2", numbered(LONG))
    reads(session, "toolu_3", numbered(OTHER), OTHER)
    first = Reference(3, 1)
    assert results(store, session) == [numbered(LONG), first, numbered(OTHER)]


def test_what_stands_around_it_stays(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user("Look")
    reads(session, "toolu_1", "Here it is:\n" + numbered(LONG) + REMINDER)
    reads(session, "toolu_2", "Here it is:\n" + numbered(LONG) + REMINDER)
    _first, second = results(store, session)
    assert isinstance(second, str)
    before, _, rest = second.partition("\n")
    message, _, after = rest.partition("\n")
    assert before == "Here it is:"
    assert message.startswith("Unchanged: as in event 3 (")
    assert f"\n{after}" == REMINDER


def test_the_file_of_another_tool_is_the_same(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user("Look")
    reads(session, "toolu_1", numbered(LONG))
    frame = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
    some = "".join(LONG.splitlines(keepends=True)[:19])
    for number, (command, text) in enumerate([("cat", LONG), ("sed -n 1,19p", some), ("sed -n 1,19p", some)], 2):
        session.calls(f"toolu_{number}", "exec_command", {"cmd": f"{command} {PATH}"})
        session.returns(f"toolu_{number}", frame + text)
    first, second, third, fourth = map(str, results(store, session))
    assert first == numbered(LONG)
    assert second.startswith(f"{frame}Unchanged: as in event 3 (turn 1, ")
    assert third == frame + some
    assert fourth.startswith(f"{frame}Unchanged: as in event 7 (turn 1, ")


def test_a_part_of_it_is_another_resource(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user("Look")
    reads(session, "toolu_1", numbered(LONG), total=900)
    reads(session, "toolu_2", numbered(LONG, 41), first=41, total=900)
    reads(session, "toolu_3", numbered(LONG, 41), first=41, total=900)
    second = Reference(5, 1)
    assert results(store, session) == [numbered(LONG), numbered(LONG, 41), second]


def test_a_text_that_says_something_else_passes(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user("Look")
    reads(session, "toolu_1", "The file could not be shown.")
    reads(session, "toolu_2", numbered(LONG))
    assert results(store, session) == ["The file could not be shown.", numbered(LONG)]


def test_a_file_that_the_program_attached_is_an_attachment(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user("Look at @library.py")
    content = {"type": "text", "file": {"filePath": PATH, "content": LONG, "numLines": 20, "startLine": 1}}
    session.lines.append(
        {
            "type": "attachment",
            "uuid": "u-attached",
            "parentUuid": session.lines[-1]["uuid"],
            "timestamp": "2026-03-05T19:00:30.000Z",
            "attachment": {"type": "file", "filename": PATH, "content": content},
        }
    )
    reads(session, "toolu_1", numbered(LONG))
    assert results(store, session) == [Reference(2, 1)]


@pytest.mark.parametrize(
    ("text", "said", "around"),
    [
        ("a\nb\n", "a\nb", ("", "")),
        (" a\n", "a", ("", "")),
        (numbered("a\nb"), "a\nb", ("", "")),
        (numbered("a\nb"), "a\nb\n", ("", "")),
        (numbered("a\nb\n", 9), "a\nb\n", ("", "")),
        ("1\ta\n2\tb\n3\t", "a\nb\n", ("", "")),
        ("See:\n" + numbered("a\nb") + "\n\nThat is all.", "a\nb", ("See:", "\nThat is all.")),
        (numbered("a\nb\nc"), "a\nb", ("", "     3→c")),
        (numbered("a\nb"), "a\nc", None),
        ("x a\nb", "a\nb", None),
        ("a\nb\nc", "a\nb", None),
        ("anything", "", None),
        ("anything", " \n", None),
        ("", "a", None),
    ],
)
def test_what_stands_in_a_text(text: str, said: str, around: tuple[str, str] | None) -> None:
    assert standing_in(text, said) == around
