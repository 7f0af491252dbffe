"""The past of a conversation: ``log``, ``restore``, ``fork``, with a daemon and without one."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.fusefs.cli.mounted import mounted_if
from tests.fusefs.cli.user import User
from tests.fusefs.tree.mounting import until


@pytest.fixture(params=["alone", "mounted"])
def here(user: User, request: pytest.FixtureRequest) -> Iterator[User]:
    """A user with one conversation of three events; the second one's store is mounted."""
    user.session("garden", "one", "What to plant?", "Roses.", "And then?")
    user.run("import")
    with mounted_if(user, request.param == "mounted"):
        yield user


def test_people_see_local_times_and_programs_utc(user: User) -> None:
    user.session("garden", "one", "What to plant?")
    user.run("import")
    utc = json.loads(user.run("log", "1", "--json"))[0]["time"]
    updated = json.loads(user.run("ls", "--json"))[0]["updated"]
    for zone, hours in (("UTC", 0), ("XST-13", 13)):
        user.environment["TZ"] = zone
        shown, listed = user.run("log", "1").splitlines()[1], user.run("ls").splitlines()[1]
        then, day = (datetime.fromisoformat(time) + timedelta(hours=hours) for time in (utc, updated))
        assert then.strftime("%Y-%m-%d %H:%M:%S") in shown
        assert day.strftime("%Y-%m-%d") in listed
    assert json.loads(user.run("log", "1", "--json"))[0]["time"] == utc


def test_log_fork_and_restore(here: User) -> None:
    assert [line["action"] for line in json.loads(here.run("log", "1", "--json"))] == ["import"]
    name = json.loads(here.run("ls", "--json"))[0]
    forked = here.run("fork", f"{name['project']}/{name['name']}@2", "other").strip()
    assert forked == f"{name['project']}/other"
    assert json.loads(here.run("show", forked, "--json"))["events"][-1]["event"] == 2
    assert "And then?" in here.run("show", "1")
    assert "other" in here.fails("fork", "1", "other")
    assert "99" in here.fails("fork", "1@99", "further")
    assert "nothing" not in here.run("log", forked)
    mounted = here.environment.get("MOUNTED")
    if mounted:
        events = Path(mounted, "conversations", name["project"], name["name"], "events")
        first = next(events.glob("00001-*"))
        first.write_text("What not to plant?\n")
        assert [line["action"] for line in json.loads(here.run("log", "1", "--json"))] == ["import", "edit 00001"]
        assert here.run("log", "1").splitlines()[2].endswith("edit 00001")
        here.run("restore", "1", "1")
        until(lambda: "What to plant?" in first.read_text())
        assert len(json.loads(here.run("log", "1", "--json"))) == 3
        second = next((events.parent / ".versions").glob("0002-*-edit-00001"))
        here.run("restore", str(second.parent.parent), str(second))
        until(lambda: "What not to plant?" in first.read_text())
    assert "7" in here.fails("restore", "1", "7")
    assert here.fails("restore", "1", "0", code=2)
