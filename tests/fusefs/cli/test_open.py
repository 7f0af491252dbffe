"""``convfs open``: the page of a conversation in a browser, and the list of all."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.cli.mounted import user_on_disk
from tests.fusefs.cli.user import User
from tests.fusefs.tree.mounting import can_mount
from tests.waiting import until


@pytest.fixture
def user() -> Iterator[User]:
    with user_on_disk() as user:
        user.session("shop", "a", "Fix the login bug", "Done.")
        user.run("import")
        user.environment["TMPDIR"] = str(user.home)
        yield user


@pytest.fixture
def browser(user: User) -> Path:
    """Give the user a browser, and return the file in which it notes what it was asked to open."""
    noted = user.home / "opened"
    program = user.home / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {noted}.part && mv {noted}.part {noted}\n')
    program.chmod(0o700)
    user.environment["BROWSER"] = f"{program} %s"
    return noted


def test_without_a_mount_a_page_is_written_that_stays(user: User, browser: Path) -> None:
    assert user.run("open", "login") == ""
    until(browser.exists)
    page = Path(browser.read_text().strip().removeprefix("file://"))
    assert "Fix the login bug" in page.read_text()
    assert page.is_relative_to(user.home)
    # a conversation is nobody else's business
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    other = Path(user.run("open", "1", "--print").strip())
    assert other != page
    assert other.read_bytes() == page.read_bytes()
    assert "convfs mount DIR" in user.fails("open", code=1)


def test_no_browser_is_told_with_the_path(user: User) -> None:
    told = user.fails("open", "1", BROWSER="/nowhere/browser", PATH="/nowhere")
    path = Path(told.partition("or open ")[2].strip())
    assert "set $BROWSER" in told
    assert path.is_file()


@pytest.mark.skipif(not can_mount(), reason="/dev/fuse or fusermount3 is not there")
def test_with_a_mount_it_is_the_page_there(user: User, browser: Path) -> None:
    root = user.home / "mnt"
    user.run("mount", root)
    index = root / "html/index.html"
    assert user.run("open", "--print") == f"{index}\n"
    (page,) = (root / "conversations").glob("*/*")
    path = root / "html" / page.parent.name / f"{page.name}.html"
    # by any of its paths, that of the page too
    for name in ("1", "login", page, path):
        assert user.run("open", name, "--print") == f"{path}\n"
    user.run("open", page)
    until(browser.exists)
    assert browser.read_text() == f"{path.as_uri()}\n"
    assert sorted(user.home.glob("convfs-*")) == []
    user.run("umount", root)
