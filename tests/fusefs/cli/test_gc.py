"""``convfs gc``: with a daemon and without one."""

import json
from collections.abc import Iterator

import pytest

from tests.fusefs.cli.mounted import mounted_if
from tests.fusefs.cli.user import User


@pytest.fixture(params=["alone", "mounted"])
def here(user: User, request: pytest.FixtureRequest) -> Iterator[User]:
    """A user with a few conversations; the second one's store is mounted."""
    for number in range(12):
        text = " ".join(f"Rose {number * plant} grows {plant * plant} high." for plant in range(200))
        user.session("garden", f"s{number}", f"What to plant in month {number}?", text)
    user.run("import")
    # a daemon would do it first
    (user.store / "convfs.toml").write_text("[gc]\nbackground = false\n")
    with mounted_if(user, request.param == "mounted"):
        yield user
    assert "sound" in user.run("fsck")


def test_the_room_of_what_was_pruned_comes_back(here: User) -> None:
    assert here.run("gc").strip() == "Nothing to collect."
    names = [f"{line['project']}/{line['name']}" for line in json.loads(here.run("ls", "--json"))]
    kept = here.run("show", names[-1])
    here.run("prune", *names[:6], "--yes")
    planned = json.loads(here.run("gc", "--dry-run", "--json"))
    assert planned["dry_run"]
    assert planned["turns"] > 6
    assert planned["freed_bytes"] > 1000
    assert "would free" in here.run("gc", "--dry-run")
    assert here.run("gc").startswith(f"Collected {planned['turns']} records and {planned['blobs']} contents: ")
    assert here.run("gc").strip() == "Nothing to collect."
    assert here.run("show", names[-1]) == kept
