"""``convfs prune``: with a daemon and without one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.cli.mounted import mounted_if
from tests.fusefs.cli.user import User
from tests.fusefs.tree.mounting import until


@pytest.fixture(params=["alone", "mounted"])
def here(user: User, request: pytest.FixtureRequest) -> Iterator[User]:
    """A user with two conversations, one of them large; the second one's store is mounted."""
    user.session("garden", "one", "What to plant?", "Roses.")
    user.session("garden", "two", "What else?", "Lilies. " * 900)
    user.run("import")
    with mounted_if(user, request.param == "mounted"):
        yield user
    assert "sound" in user.run("fsck")


def listed(user: User) -> list[str]:
    return [line["name"] for line in json.loads(user.run("ls", "--json"))]


def test_large_ones(here: User) -> None:
    large, small = listed(here)
    mounted = here.environment.get("MOUNTED")
    project = Path(mounted, "conversations", "garden") if mounted else None
    native = Path(mounted, ".convfs", "native", "claude-code") if mounted else None
    if native:
        assert {path.stem for path in native.rglob("*.jsonl")} == {"one", "two"}
        assert [path.read_bytes() for path in native.rglob("*.jsonl")]
    events = [event.read_text() for event in (project / large / "events").iterdir()] if project else []
    said = here.run("prune", "--larger-than", "5KB", "--dry-run")
    assert large in said
    assert small not in said
    assert "Nothing was deleted" in said
    assert "--yes" in here.fails("prune", "--larger-than", "5KB", code=2)
    assert len(listed(here)) == 2
    found = json.loads(here.run("prune", "--larger-than", "5KB", "--json", "--yes"))
    assert [one["name"] for one in found["found"]] == [large]
    assert found["pruned"]["conversations"] == 1
    assert listed(here) == [small]
    if native:
        until(lambda: [path.stem for path in native.rglob("*.jsonl")] == ["one"])
        (folder,) = native.iterdir()
        until(lambda: not (folder / "two.jsonl").exists())
    if project and mounted:
        assert events
        until(lambda: not (project / large).exists())
        assert [path.name for path in project.iterdir()] == [small]
        assert next(iter(Path(mounted, "transcripts", "garden").iterdir())).stem == small
    assert "1 pruned before" in here.run("import")
    assert listed(here) == [small]
    assert "1 imported" in here.run("import", "--pruned")
    assert len(listed(here)) == 2


def test_the_trash(here: User) -> None:
    mounted = here.environment.get("MOUNTED")
    if not mounted:
        pytest.skip("what is removed is removed in a mount")
    large, small = listed(here)
    directory = Path(mounted, "conversations", "garden", small)
    for event in (directory / "events").iterdir():
        event.unlink()
    (directory / "events").rmdir()
    for path in directory.iterdir():
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    directory.rmdir()
    trash = Path(mounted, ".convfs", "trash")
    assert [path.name for path in trash.iterdir()] == [small]
    assert (trash / small / "metadata.json").read_text()
    assert "Deleted for good: 1 conversations" in here.run("prune", "--trash", "--yes")
    until(lambda: not list(trash.iterdir()))
    until(lambda: not (trash / small).exists())
    assert listed(here) == [large]


def test_rules(here: User) -> None:
    mounted = here.environment.get("MOUNTED")
    if mounted:
        pytest.skip("a daemon has read its settings")
    assert "no rules" in here.fails("prune")
    settings = here.store / "convfs.toml"
    settings.write_text('[retention]\nconversations_days = 0\nkeep_labels = ["mine"]\n')
    assert len(json.loads(here.run("prune", "--dry-run", "--json"))["found"]) == 2
    settings.write_text("[retention]\nconversations_days = 100000\n")
    assert here.run("prune") == "Nothing to prune.\n"


def test_versions(here: User) -> None:
    conversation = listed(here)[0]
    name = f"garden/{conversation}"
    here.run("fork", f"{name}@1", "other")
    here.run("restore", name, "1")
    assert here.run("prune", name, "--versions", "--yes") == "Nothing to prune.\n"
    assert "not a span of time" in here.fails("prune", "--older-than", "soon", code=2)
    assert "not a size" in here.fails("prune", "--larger-than", "huge", code=2)
    assert "nosuch" in here.fails("prune", "nosuch")
    assert "Deleted for good: 1 conversations" in here.run("prune", "garden/other", "--yes")
    assert conversation in listed(here)
