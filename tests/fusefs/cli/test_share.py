"""``convfs share``."""

import os

import pytest

from tests.fusefs.cli.user import User, serving

KEY = "ghp_" + "a1B2c3D4e5" * 4


@pytest.fixture
def name(user: User) -> str:
    user.session("shop", "a", "Fix the login of Ada", f"See /home/ada/shop, {user.home}/x and {KEY}.", "Thanks!")
    user.run("import")
    (found,) = user.list()
    return f"shop/{found['name']}"


@pytest.mark.parametrize("held", [False, True], ids=["alone", "served"])
def test_a_range_is_one_file_and_what_was_taken_out_is_said(user: User, name: str, held: bool) -> None:
    def run() -> None:
        done = user.convfs("share", f"{name}@2-3", "-o", "out.md", "--replace", "login=door")
        assert (done.returncode, done.stdout) == (0, "out.md\n")
        said = done.stderr.splitlines()
        assert said[0] == "1 secret (github) → [redacted] (event 2)"
        assert "1 path below /home/ada → ~ (event 2)" in said
        # one of them is where the session was
        assert f"2 paths below {user.home} → ~ (event 2)" in said

    if held:
        with serving(user):
            run()
    else:
        run()
    text = (user.home / "out.md").read_text()
    assert "See ~/shop, ~/x and [redacted]." in text
    assert "# Fix the door of Ada" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("## ")] == ["2", "3"]
    assert os.stat(user.home / "out.md").st_mode & 0o777 == 0o600
    assert KEY in user.run("show", name)


def test_the_name_of_the_file_says_what_it_is(user: User, name: str) -> None:
    assert user.convfs("share", name, "-o", "OUT.HTML").returncode == 0
    page = (user.home / "OUT.HTML").read_text()
    assert page.startswith("<!doctype html>")
    assert KEY not in page
    assert "must end in .html or .md" in user.fails("share", name, "-o", "out.pdf", code=2)
    assert "exists already" in user.fails("share", name, "-o", "OUT.HTML")
    assert "No such file" in user.fails("share", name, "-o", "no/out.html")
    assert (user.home / "OUT.HTML").read_text() == page


def test_a_dry_run_writes_nothing(user: User, name: str) -> None:
    done = user.convfs("share", name, "-o", "out.md", "--dry-run")
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 secret (github)" in done.stderr
    assert not (user.home / "out.md").exists()
    assert user.convfs("share", f"{name}@3", "--keep-paths", "--dry-run").stderr == "Nothing was found to take out.\n"


def test_wrong_usage(user: User, name: str) -> None:
    assert "which file?" in user.fails("share", name, code=2)
    assert "@3-2 is no range" in user.fails("share", f"{name}@3-2", "-o", "out.md", code=2)
    assert "@0 is no range" in user.fails("share", f"{name}@0", "-o", "out.md", code=2)
    assert "has no event from 9" in user.fails("share", f"{name}@9-", "-o", "out.md")
    assert "must be OLD=NEW" in user.fails("share", name, "-o", "out.md", "--replace", "Ada", code=2)
    assert not (user.home / "out.md").exists()
