"""Results that are JSON in a text, in a mount: read, found and edited as texts of lines."""

import json
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import NAME, Talk
from tests.fusefs.tree.mounting import user
from tests.store.editing.records import called, returned

REPORT = '{"agent":  "Explore", "report": "Two places:\\n- \\"shop/login.py\\"\\n- shop/views.py"}'
LINES = [user("Where?", 1), called("Task", "c1", "t2").decode(), returned(REPORT, "c1", "r3").decode()]


@pytest.fixture
def lines() -> list[str]:
    return LINES


@pytest.fixture
def event(talk: Talk) -> Path:
    return talk.events / "00003-result-Task.md"


def record(talk: Talk) -> str:
    return (talk.root / ".records" / "00003.json").read_text()


def test_its_lines_are_lines(talk: Talk, event: Path) -> None:
    assert event.read_text().endswith(
        '\n````block json result\n{\n  "agent": "Explore"\n}\n````\n\n'
        '````block text result.report\nTwo places:\n- "shop/login.py"\n- shop/views.py\n````\n'
    )
    assert '\n`result.report`\n\n```\nTwo places:\n- "shop/login.py"\n' in talk.transcript
    (line,) = talk.shell("grep -rn '^- \"shop/login.py\"$' .").splitlines()
    name, number, _text = line.split(":", 2)
    hits = (talk.mount.root / "search" / '"shop%2Flogin.py"' / "hits.txt").read_text()
    assert f'{name.removeprefix("./")}:{number}:- "shop/login.py"\n' in hits


def test_it_is_edited_there_and_the_bytes_around_stay(talk: Talk, event: Path) -> None:
    before = record(talk)
    talk.shell(f"sed -i 's/^- shop.views.py$/- shop\\/forms.py\\n- none/' {event.name}")
    assert talk.new_versions == 1
    changed = REPORT.replace("views.py", "forms.py\\n- none")
    # in the tool's own copy, too
    assert record(talk) == before.replace(json.dumps(REPORT)[1:-1], json.dumps(changed)[1:-1])
    assert before.count(json.dumps(REPORT)[1:-1]) == 2
    assert (talk.root / "resources" / "src" / "c1.py").read_text() == changed
    assert "- none" in event.read_text()
    event.write_text("Nothing was found\n")
    assert event.read_text() == "Nothing was found\n"
    assert '"content": "Nothing was found"' in record(talk)
    assert talk.new_versions == 2


def test_it_is_edited_in_the_transcript(talk: Talk) -> None:
    before = record(talk)
    path = talk.mount.root / "transcripts" / "project" / f"{NAME}.md"
    path.write_text(path.read_text().replace("- shop/views.py\n", "- shop/forms.py\n- none\n"))
    changed = REPORT.replace("views.py", "forms.py\\n- none")
    assert record(talk) == before.replace(json.dumps(REPORT)[1:-1], json.dumps(changed)[1:-1])
    assert talk.new_versions == 1
    assert talk.errors == ""


def test_as_a_resource_it_is_what_the_tool_returned(talk: Talk, event: Path) -> None:
    resource = talk.root / "resources" / "src" / "c1.py"
    assert resource.read_text() == REPORT
    resource.write_text(REPORT.replace("Explore", "Plan"))
    assert '"agent": "Plan"' in event.read_text()
    found = json.loads((talk.root / "events.json").read_text())
    assert found[2]["message"]["content"][0]["content"].keys() == {"$blob", "size"}
