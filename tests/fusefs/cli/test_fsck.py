"""``convfs fsck --repair``: what it brings back, what it says is lost, and what it says to do."""

import shutil

import pytest

from store import paths
from tests.fusefs.cli.user import User


@pytest.fixture
def damaged(user: User) -> User:
    """A user of whose store the record of the second turn is damaged, and who has a backup."""
    user.session("garden", "s1", "What to plant in May?", "Roses. " * 50)
    user.run("import")
    shutil.copytree(user.store, user.home / "backup")
    with (user.store / paths.TURN_LOG).open("r+b") as file:
        file.seek(32 + 80 + 8)
        file.write(b"damage! damage!")
    return user


def test_a_store_is_repaired_from_a_backup(damaged: User) -> None:
    backup = damaged.home / "backup"
    assert "turn 2 is damaged" in damaged.convfs("fsck").stdout
    alone = damaged.convfs("fsck", "--repair")
    assert alone.returncode == 1
    assert "lost: turn 2, and what came before it" in alone.stdout
    shown = damaged.run("fsck", "--repair", "--from", backup)
    assert f"repaired: the record of turn 2, by {backup}\n" in shown
    assert str(damaged.store / paths.DAMAGED) in shown
    assert shown.endswith("The store is sound.\n")
    assert "Roses" in damaged.run("show", "1")


def test_sources_go_with_a_repair(damaged: User) -> None:
    assert "--repair" in damaged.fails("fsck", "--from", "backup")
    assert "nothing to repair from" in damaged.fails("fsck", "--repair", "--from", "nowhere")
