"""``convfs browse``, on a terminal: tmux."""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fusefs.cli.main import COMMANDS, main
from fusefs.cli.source import Source
from tests.fusefs.cli.mounted import mounted_if, user_on_disk
from tests.fusefs.cli.user import User, serving
from tests.fusefs.tree.mounting import until

pytestmark = [
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not here"),
    pytest.mark.skipif(not importlib.util.find_spec("textual"), reason="textual is not here"),
]

NAME = "shop/2026-03-05-fix-the-login-bug"


class Terminal:
    """A terminal of a user, in which one command runs."""

    def __init__(self, user: User, *arguments: object, **environment: str) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(user.runtime / "tmux")]
        self._environment = user.environment | environment | {"TERM": "xterm-256color"}
        words = [sys.executable, "-m", "fusefs.cli", "--store", user.store, "browse", *arguments]
        command = f"{shlex.join(map(str, words))}; echo ended with $?; exec cat"
        self._do("new-session", "-d", "-x", "150", "-y", "30", "-c", str(user.home), command)
        self.sees("? help  q quit")

    def _do(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done
        return done.stdout

    def press(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def type(self, text: str) -> None:
        self._do("send-keys", "-l", text)

    @property
    def screen(self) -> str:
        return self._do("capture-pane", "-p")

    def sees(self, *texts: str) -> None:
        """Wait until all texts are on the screen."""
        self.until(lambda: all(text in self.screen for text in texts))

    def until(self, holds: Callable[[], bool]) -> None:
        try:
            until(holds)
        except AssertionError:
            raise AssertionError(f"this never came about; the screen is\n{self.screen}") from None

    def finds(self, query: str, *texts: str) -> None:
        """Search, wait for what is found, and go to the list."""
        self.press("/")
        self.type(query)
        self.sees(f"Search: {query}", *texts)
        self.press("Enter")

    def clears(self, text: str) -> None:
        """Wait for a text, empty the line that it stands in, and wait until it is gone."""
        self.sees(text)
        self.press("C-u")
        self.until(lambda: text not in self.screen)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=60, check=False)


@pytest.fixture
def shop(user: User) -> User:
    return filled(user)


def filled(user: User) -> User:
    user.session("shop", "a", "Fix the login bug", "It compares addresses by case.", "Thanks", "You are welcome.")
    user.session("garden", "b", "Water the roses", *(f"Drop {number}\n" * 40 for number in range(1, 30)))
    user.run("import")
    return user


@pytest.fixture
def terminal(shop: User) -> Iterator[Terminal]:
    terminal = Terminal(shop)
    yield terminal
    terminal.close()


def named(user: User, name: str) -> dict[str, object]:
    [found] = [one for one in user.list() if one["name"] == name.rpartition("/")[2]]
    return found


def test_the_list_and_what_is_searched_for(terminal: Terminal) -> None:
    terminal.sees("Water the roses", "Fix the login bug", "? help  q quit", "## 1 · user")
    terminal.finds("addresses", "2 assistant: It compares addresses by case.", "## 2 · assistant")
    # what was shown beside the list has such a section, too
    terminal.until(lambda: "roses" not in terminal.screen)
    # words of titles are found, too
    terminal.press("Escape")
    terminal.sees("Water the roses", "Fix the login bug")
    terminal.finds("roses", "garden  Water the roses", "1 user: Water the roses")
    terminal.press("/")
    terminal.type(" and nothing else")
    terminal.sees("Nothing was found.")
    terminal.press("Escape")
    terminal.sees("Water the roses", "Fix the login bug")
    terminal.press("q")
    terminal.sees("ended with 0")


def test_keys_move_and_the_preview_begins_at_the_hit(terminal: Terminal) -> None:
    # the first one is the question of the roses
    number, role = 21, "user"
    terminal.finds("drop 20", f"{number} {role}: Drop 20")
    terminal.press("Enter")
    terminal.until(lambda: terminal.screen.splitlines()[1].startswith("## 21 · "))
    # up, to what was not read so far

    def above() -> bool:
        terminal.press("k")
        return "Drop 19" in terminal.screen

    terminal.until(above)

    terminal.press("G")
    terminal.sees("Drop 29")
    terminal.press("Escape")
    terminal.sees("? help  q quit", f"{number} {role}: Drop 20")
    terminal.press("?")
    terminal.sees("edit the event in $EDITOR")
    terminal.press("q", "q")
    terminal.sees("ended with 0")


def test_conversations_are_forked_labelled_and_exported(shop: User, terminal: Terminal) -> None:
    terminal.finds("addresses", "2 assistant: It compares addresses by case.", "## 2 · assistant")
    terminal.press("f")
    terminal.sees("Name of the fork at event 2")
    terminal.type("another way")
    terminal.press("Enter")
    terminal.sees("shop/another way")
    assert named(shop, "another way")["events"] == 2
    terminal.press("l")
    terminal.sees("Labels, with commas")
    terminal.type("bug, login")
    terminal.press("Enter")
    terminal.sees("Labels: bug, login")
    assert named(shop, NAME)["labels"] == ["bug", "login"]
    terminal.press("x")
    terminal.sees("Export as FORMAT to DIRECTORY", "markdown .")
    terminal.press("Enter")
    terminal.sees("2026-03-05-fix-the-login-bug.md")
    assert "addresses by case" in (shop.home / "2026-03-05-fix-the-login-bug.md").read_text()


def test_what_goes_wrong_is_said(terminal: Terminal) -> None:
    terminal.finds("addresses", "2 assistant: It compares", "## 2 · assistant")
    terminal.press("e")
    terminal.sees("Events are edited in a mount")
    terminal.press("x")
    terminal.clears("markdown .")
    terminal.type("pdf")
    terminal.press("Enter")
    terminal.sees("there is no format pdf")
    terminal.press("/")
    terminal.clears("Search: addresses")
    terminal.type("before:never")
    terminal.sees("before:never", "is no")


def test_events_are_edited_in_a_mount() -> None:
    with user_on_disk() as user, mounted_if(filled(user), mounted=True):
        terminal = Terminal(user, "addresses", EDITOR="sed -i s/case/letter/")
        try:
            terminal.sees("2 assistant: It compares addresses by case.", "e edit")
            terminal.press("e")
            terminal.sees("It compares addresses by letter.")
        finally:
            terminal.close()
        assert "addresses by letter" in user.run("show", NAME)


@pytest.mark.skipif("resume" not in COMMANDS, reason="there is no command that resumes")
def test_a_conversation_is_resumed_in_its_tool(shop: User) -> None:
    program = shop.home / "bin/claude"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" > "$HOME/resumed"\n')
    program.chmod(0o755)
    session = shop.session("tools", "c", "Oil the mower")
    session.write_text(session.read_text().replace("/home/ada/tools", str(shop.home)))
    shop.run("import")
    terminal = Terminal(shop, "mower", PATH=f"{program.parent}:{os.environ['PATH']}")
    try:
        terminal.sees("1 user: Oil the mower", "r resume")
        terminal.press("r")
        terminal.until((shop.home / "resumed").exists)
    finally:
        terminal.close()


def test_what_a_conversation_holds_is_no_control_of_the_terminal(user: User) -> None:
    user.session("shop", "a", "A \x1b[31mred\x1b[0m title \u202eback", "An \x1b]0;answer\x07")
    user.run("import")
    terminal = Terminal(user)
    try:
        terminal.sees(r"A \x1b[31mred\x1b[0m title \u202eback", r"An \x1b]0;answer\x07")
    finally:
        terminal.close()


@pytest.mark.parametrize("held", [False, True], ids=["alone", "served"])
def test_only_what_is_shown_is_read(user: User, held: bool) -> None:
    user.session("shop", "a", *(f"{number} " + "words\n" * 2000 for number in range(100)))
    user.run("import")

    def look(source: Source) -> None:
        lines, whole = source.text(1, 1, 50)
        assert lines[0].startswith("## 1 · ")
        assert 50 <= len(lines) < 30_000
        assert not whole
        lines, whole = source.text(1, 98, 10_000)
        assert lines[0].startswith("## 98 · ")
        assert [line[:6] for line in lines if line.startswith("## ")] == ["## 98 ", "## 99 ", "## 100"]
        assert whole

    if held:
        with serving(user), Source(user.store) as source:
            look(source)
    else:
        with Source(user.store) as source:
            look(source)


@pytest.mark.parametrize("held", [False, True], ids=["alone", "served"])
def test_a_search_ends_when_it_is_no_longer_wanted(user: User, held: bool) -> None:
    user.session("shop", "a", *(f"word {number}" for number in range(3000)))
    user.run("import")
    taken: list[int] = []

    def take(page: list[object]) -> None:
        taken.append(len(page))
        raise InterruptedError

    def look(source: Source) -> None:
        with pytest.raises(InterruptedError):
            source.hits("word", 0, take)
        assert len(taken) == 1
        assert taken[0] < 3000
        # and the next one is answered
        found: list[object] = []
        source.hits("2999", 5, found.extend)
        assert len(found) == 1

    if held:
        with serving(user), Source(user.store) as source:
            look(source)
    else:
        with Source(user.store) as source:
            look(source)


def test_the_list_comes_in_parts(user: User) -> None:
    for number in range(230):
        user.session("shop", f"s{number}", f"Question {number}")
    user.run("import")
    with Source(user.store) as source:
        first = source.latest()
        rest = source.latest(skipped=len(first))
        assert (len(first), len(rest)) == (200, 30)
        assert len({one.id for one in (*first, *rest)}) == 230
        assert [one.title for one in source.latest(("question", "229"))] == ["Question 229"]
    terminal = Terminal(user)
    try:
        terminal.sees("Question")
        terminal.press("G")
        terminal.sees(first[-1].title)

        def at_the_end() -> bool:
            terminal.press("G")
            return rest[-1].title in terminal.screen

        terminal.until(at_the_end)
    finally:
        terminal.close()


def test_what_it_needs_is_said_in_a_line(
    user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "needs a terminal" in user.fails("browse")
    monkeypatch.setitem(sys.modules, "textual", None)
    with pytest.raises(SystemExit) as ended:
        main(["--store", str(user.store), "browse"])
    assert ended.value.code == 1
    assert "run ./mount.sh --setup" in capsys.readouterr().err


def test_the_browser_is_installed_by_default() -> None:
    root = Path(__file__).parents[3]
    assert "[browse,http,mcp]" in (root / "mount.sh").read_text()
