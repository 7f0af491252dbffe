"""``convfs redact``: with a daemon and without one; and that nothing is left on a disk."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.cli.mounted import mounted_if
from tests.fusefs.cli.user import User
from tests.fusefs.tree.mounting import until

SECRET = 'tr0ub4dor&3 "x"'


def given(user: User, text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that reads ``text``."""
    command = [sys.executable, "-m", "fusefs.cli", "redact", *arguments]
    return subprocess.run(
        command,
        input=text,
        env=user.environment,
        cwd=user.home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(params=["alone", "mounted"])
def here(user: User, request: pytest.FixtureRequest) -> Iterator[User]:
    """A user with two conversations, one of them with a secret; the second one's store is mounted."""
    user.session("garden", "one", "What to plant?", f"Roses, with {SECRET}.")
    user.session("garden", "two", "What else?", "Lilies.")
    user.run("import")
    with mounted_if(user, request.param == "mounted"):
        yield user
    assert "sound" in user.run("fsck")


def test_a_text_that_is_read(here: User) -> None:
    mounted = here.environment.get("MOUNTED")
    events = Path(mounted, "conversations") if mounted else None
    if events:
        assert any(SECRET in event.read_text() for event in events.rglob("events/*.md"))
    said = given(here, f"{SECRET}\n", "--stdin", "--dry-run")
    assert (said.returncode, said.stderr) == (0, "")
    assert "In 1 events of 1 conversations" in said.stdout
    assert said.stdout.splitlines()[1].endswith("-what-to-plant@2")
    assert "Nothing was redacted" in said.stdout
    refused = given(here, SECRET, "--stdin")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    done = given(here, f"{SECRET}\n", "--stdin", "--yes")
    assert done.returncode == 0
    assert "nothing left" in done.stdout
    assert SECRET not in done.stdout + done.stderr
    # what it was imported from is not in the store
    [warning] = done.stderr.splitlines()
    assert ".claude/projects/-home-ada-garden/one.jsonl still holds it" in warning
    shown = [here.run("show", str(line["id"])) for line in here.list()]
    assert sum("Roses, with [redacted]." in text for text in shown) == 1
    if events:
        until(lambda: not any(SECRET in event.read_text() for event in events.rglob("events/*.md")))
        assert any("Roses, with [redacted]." in event.read_text() for event in events.rglob("events/*.md"))
    assert "No match in the store" in given(here, SECRET, "--stdin", "--yes").stdout
    [actions] = [log for line in here.list() if len(log := here.run("log", str(line["id"])).splitlines()) > 2]
    assert actions[-1].endswith("redact")
    here.session("garden", "one", "More?")
    assert "1 grown" in here.run("import")
    assert "No match in the store" in given(here, SECRET, "--stdin", "--yes").stdout


def test_patterns_kinds_and_events(here: User) -> None:
    key = "sk-ant-" + "".join("api0" for _ in range(8)) + "Z9x"
    here.session("garden", "two", f"export ANTHROPIC_API_KEY={key}", "Yes.")
    here.run("import")
    found = json.loads(here.run("redact", "--secrets", "--dry-run", "--json"))
    assert [match["kind"] for match in found["found"]["matches"]] == ["anthropic"]
    assert key not in json.dumps(found)
    assert found["redacted"] is None
    done = json.loads(here.convfs("redact", "--secrets", "--yes", "--json").stdout)["redacted"]
    assert (done["events"], done["proof"]["found"]) == (1, [])
    done = json.loads(here.convfs("redact", "--pattern", r"Lil\w+", "--yes", "--json").stdout)["redacted"]
    assert (done["events"], done["proof"]["found"]) == (1, [])
    one = next(line for line in here.list() if "plant" in line["title"])
    said = here.convfs("redact", "--event", f"{one['id']}@2", "--yes").stdout
    assert "nothing left" in said
    assert "Roses" not in here.run("show", str(one["id"]))


def test_wrong_usage(user: User) -> None:
    user.session("garden", "one", "What to plant?", "Roses.")
    user.run("import")
    assert "nothing is named" in user.fails("redact")
    assert "is no pattern" in user.fails("redact", "--pattern", "(")
    assert "write CONV@N" in user.fails("redact", "--event", "3")
    for empty in (("--stdin",), ("--lines",)):
        said = given(user, "\n", *empty, "--yes")
        assert (said.returncode, "standard input is empty" in said.stderr) == (1, True)
    short = given(user, "abc", "--stdin", "--yes")
    assert (short.returncode, "3 bytes are too few" in short.stderr) == (1, True)
    assert given(user, "Roses\nplant\n", "--lines", "--yes").returncode == 0
    shown = user.run("show", "1")
    assert "Roses" not in shown
    assert "What to [redacted]?" in shown
