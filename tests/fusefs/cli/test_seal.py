"""``convfs seal``: with a daemon and without one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.cli.mounted import mounted_if
from tests.fusefs.cli.user import User


@pytest.fixture(params=["alone", "mounted"])
def here(user: User, request: pytest.FixtureRequest) -> Iterator[User]:
    """A user with a few conversations; the second one's store is mounted."""
    for number in range(12):
        user.session("garden", f"s{number}", f"What to plant in month {number}?", f"Roses, {number}. " * 300)
    user.run("import")
    with mounted_if(user, request.param == "mounted"):
        yield user
    assert "sound" in user.run("fsck")


def shown(user: User) -> dict[str, str]:
    lines = json.loads(user.run("ls", "--json"))
    return {line["name"]: user.run("show", str(line["id"])) for line in lines}


def test_everything_is_as_before_in_less_room(here: User) -> None:
    before = shown(here)
    mounted = here.environment.get("MOUNTED")
    transcripts = Path(mounted, "transcripts", "garden") if mounted else None
    texts = {path.name: path.read_text() for path in transcripts.iterdir()} if transcripts else {}
    assert "1 pack with" in here.run("seal", "--dry-run")
    assert "contents of 1 pack" in here.run("seal")
    assert shown(here) == before
    if transcripts:
        assert {path.name: path.read_text() for path in transcripts.iterdir()} == texts
    assert here.run("seal").strip() == "Everything is sealed."
    here.session("garden", "another", "What else?", "Lilies. " * 900)
    here.run("import")
    report = json.loads(here.run("seal", "--json"))
    assert report["packs"] == 1
    assert report["bytes_after"] < report["bytes_before"]
    assert (report["dry_run"], report["damaged"]) == (False, [])
    assert before.items() < shown(here).items()


def test_there_must_be_a_store(user: User) -> None:
    assert "no store" in user.fails("seal")
