"""Every command while a daemon holds the store: it does what it does without one, or says in one line what to do."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fusefs.cli.main import COMMANDS, main
from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.events.conversation import ARTIFACTS
from store.store import Store
from tests.fusefs.cli.user import User, serving
from tests.fusefs.tree.mounting import can_mount, work_directory

TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?Z?")
SAME = [
    ["ls"],
    ["ls", "a-shop"],
    ["ls", "nosuch"],
    ["formats"],
    ["formats", "check", "nosuch"],
    ["show", "1"],
    ["show", "2", "--json"],
    ["open", "nosuch"],
    ["show", "nosuch"],
    ["cat", "artifact://0"],
    ["cat", "artifact://0", "--in", "1", "--offset", "2"],
    ["cat", "artifact://7", "--in", "1"],
    ["cat", "agent://0-Explore"],
    ["log", "1"],
    ["resume", "1", "--print"],
    ["resume", "nosuch"],
    ["log", "1", "--json"],
    ["restore", "1", "1"],
    ["show", "1"],
    ["restore", "1", "99"],
    ["restore", "1", "zero"],
    ["fork", "1@2", "branched"],
    ["fork", "1", "branched"],
    ["fork", "1@99", "further"],
    ["import", "--dry-run"],
    ["import", "grown"],
    ["import", "--format", "nosuch", "grown"],
    ["import", "nowhere"],
    ["import", "--demo"],
    ["log", "2"],
    ["export", "1", "2", "3", "-o", "out"],
    ["export", "nosuch", "-o", "out"],
    ["ls", "--json"],
    ["search", "login"],
    ["search", "bug", "--json"],
    ["grep", "bug"],
    ["where", "nosuch"],
    ["blame", "nosuch"],
    ["blame", "grown/b.jsonl"],
    ["diff", "1@1", "1"],
    ["diff", "1", "nosuch"],
    ["context", "1"],
    ["share", "1@1-2", "-o", "out/shared.md"],
    ["push", "1", "./other", "--dry-run"],
    ["push", "1", "./other"],
    ["push", "./other"],
    ["pull", "./nowhere"],
    ["sync", "./other"],
    ["prune", "--older-than", "9999d", "--yes"],
    ["gc", "--dry-run"],
    ["seal", "--dry-run"],
    ["redact", "--pattern", "is-nowhere", "--dry-run"],
    ["umount", "nothing"],
    ["stats", "--by", "tool"],
]
"""Commands that do the same, in this order, whoever holds the store."""

ALONE = [["fsck"], ["reindex"], ["serve"], ["mount", "elsewhere"]]
"""Commands that need the store to themselves."""

ABOUT = [["doctor"], ["stats", "--json"]]
"""Commands that say who holds it."""

ELSEWHERE = {"watch", "install-service", "completion", "install-skill", "mcp", "browse", "remote"}
"""Commands that go on until they are told to end, and those that need no store: these have tests of their own."""


@pytest.fixture(params=["served", "mounted"])
def how(request: pytest.FixtureRequest) -> str:
    if request.param == "mounted" and not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    return str(request.param)


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    """Somebody in whose place commands are run in this very process, which is quicker."""
    directory = Path(work_directory()) / f"held-{os.getpid()}"
    directory.mkdir()
    user = User(directory)
    for name, value in user.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(user.home)
    yield user
    shutil.rmtree(directory)


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    """Run a command; return its exit code and what it wrote to both streams."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def prepared(user: User) -> None:
    """Make a store of two conversations, one of them edited, and sessions that it has not seen."""
    user.session("a-shop", "a", "Fix the login bug \u2603", "Done.", "And then?")
    user.session("blog", "b", "x" * 20_000)
    user.run("import")
    grown = user.session("blog", "b", "more", "and more")
    shutil.copytree(grown.parent, user.home / "grown")
    with Store.open(user.store, renderer=FileRenderer(), create=False) as store:
        [talk] = store.library.conversations("a-shop")
        [row] = [row for row in store.records.rows(talk.head) if row.number == 2]
        artifacts = store.artifacts
        artifacts.add(talk.id, ARTIFACTS, artifacts.begin(talk.id, ARTIFACTS, "make"), b"one\ntwo\n")
        artifacts.end(talk.id, ARTIFACTS, "0.make.log")
        Editor(store).edit(talk.id, {row.number: store.contents.payload(row.turn).replace(b"Done.", b"Not done.")})


def test_every_command_is_tried() -> None:
    assert {command for command, *_ in (*SAME, *ALONE, *ABOUT)} | ELSEWHERE == set(COMMANDS)


def test_commands_do_the_same_whoever_holds_the_store(user: User, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    prepared(user)
    shutil.copytree(user.store, user.home / "before")
    mnt = user.home / "mnt"

    def plain(said: str) -> str:
        said = TIME.sub("TIME", said).replace(f"{mnt}/", "")
        # sizes on disk are those of one store at one time, and who holds it is what differs
        return re.sub(r"(?m)^([a-z]+ bytes|store id|socket|mountpoint) .*$", r"\1", said)

    alone = {number: tuple(map(plain, map(str, told(command, capsys)))) for number, command in enumerate(SAME)}
    written = files(user.home / "out")
    assert all(code == "0" or words.count("\n") == 1 for code, _, words in alone.values())
    shutil.rmtree(user.home / "out")
    shutil.rmtree(user.store)
    shutil.move(user.home / "before", user.store)

    with ExitStack() as stack:
        if how == "mounted":
            user.run("mount", mnt)
            stack.callback(user.run, "umount", mnt)
            end = f"convfs umount {mnt}"
        else:
            end = f"kill {stack.enter_context(serving(user)).pid}"
        for number, command in enumerate(SAME):
            assert tuple(map(plain, map(str, told(command, capsys)))) == alone[number], command
        assert files(user.home / "out") == written
        for command in ALONE:
            code, out, words = told(command, capsys)
            assert (code, out, words.count("\n")) == (1, "", 1), command
            assert words.startswith("convfs: ")
            assert f"`{end}` first" in words
        _, out, words = told(["doctor"], capsys)
        assert (f"mounted at {mnt} by process" if how == "mounted" else "served by process") in out
        _, out, words = told(["stats", "--json"], capsys)
        numbers = json.loads(out)
        assert numbers["mountpoint"] == (str(mnt) if how == "mounted" else None)
        assert Path(numbers["socket"]).is_socket()
    assert told(["fsck"], capsys) == (0, "The store is sound.\n", "")
