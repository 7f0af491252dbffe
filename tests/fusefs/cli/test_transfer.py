"""``convfs push``, ``pull`` and ``sync``: with a directory, a daemon's socket, and another machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from store.paths import LOCK, SETTINGS
from tests.fusefs.cli.user import ROOT, User, on_a_terminal, serving

KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def talking(user: User) -> User:
    """Somebody with two conversations in their store."""
    user.session("shop", "a", "Fix the login bug", "Done.")
    user.session("blog", "b", "Write about spring", "Here it is.")
    user.run("import")
    return user


@pytest.fixture
def other(talking: User) -> Path:
    return talking.home / "other"


def names(user: User, store: Path) -> list[str]:
    return sorted(f"{one['project']}/{one['name']}" for one in json.loads(user.run("--store", store, "ls", "--json")))


def own(user: User, project: str) -> str:
    [name] = [f"{one['project']}/{one['name']}" for one in user.list() if one["project"] == project]
    return name


def far(user: User) -> dict[str, str]:
    """Put an ``ssh`` on the path that runs what it is told on this machine; return its environment."""
    folder = user.home / "bin"
    folder.mkdir()
    (folder / "convfs").write_text(f'#!/bin/sh\nexec {sys.executable} -m fusefs.cli "$@"\n')
    run = 'while [ "$1" != -- ]; do shift; done\necho "$2" >> ~/hosts\nexec sh -c "$3"\n'
    (folder / "ssh").write_text(f"#!/bin/sh\n{run}")
    for program in folder.iterdir():
        program.chmod(0o755)
    return {"PATH": f"{folder}:{user.environment['PATH']}"}


def test_conversations_go_to_a_directory_and_only_once(talking: User, other: Path) -> None:
    said = talking.run("push", own(talking, "shop"), other, "--yes")
    assert said.startswith(f"Pushed to {other}: 1 new")
    assert names(talking, other) == [own(talking, "shop")]
    assert talking.run("push", own(talking, "shop"), other) == f"Pushed to {other}: nothing new.\n"
    assert talking.run("push", "--project", "shop", "--project", "blog", other).startswith(f"Pushed to {other}: 1 new")
    assert names(talking, other) == sorted(own(talking, project) for project in ("shop", "blog"))
    assert talking.run("fsck") == talking.run("--store", other, "fsck") == "The store is sound.\n"


def test_a_push_without_names_sends_nothing(talking: User, other: Path) -> None:
    assert "nothing is named" in talking.fails("push", other, "--yes", code=2)
    assert "where to" in talking.fails("push", own(talking, "shop"), code=2)
    assert "nothing is named" in talking.fails("push", code=2)
    assert not other.exists()


def test_rules_say_what_goes_where(talking: User, other: Path) -> None:
    (talking.store / SETTINGS).write_text(f'[[share]]\nproject = "blog"\nwith = "{other}"\n')
    assert talking.run("push", "--yes").startswith(f"Pushed to {other}: 1 new")
    assert names(talking, other) == [own(talking, "blog")]
    talking.session("blog", "b", "Go on", "Yes.")
    talking.run("import")
    assert talking.run("push", other).startswith(f"Pushed to {other}: 1 grown")
    assert "nothing is named" in talking.fails("push", talking.home / "elsewhere", code=2)
    (talking.store / SETTINGS).write_text('share = "blog"\n')
    assert "[[share]]" in talking.fails("push")


def test_the_first_push_asks_and_says_what_looks_like_a_secret(talking: User, other: Path) -> None:
    talking.session("shop", "a", f"My key is {KEY}")
    talking.run("import")
    name = own(talking, "shop")
    assert "--yes" in talking.fails("push", name, other, code=2)
    assert names(talking, other) == []
    done = subprocess.run(
        ["script", "-qec", f"{sys.executable} -m fusefs.cli push {name} {other}", "/dev/null"],
        input="n\n",
        capture_output=True,
        text=True,
        env=talking.environment,
        cwd=talking.home,
        check=False,
    )
    assert name in done.stdout
    assert "1 anthropic" in done.stdout
    assert KEY not in done.stdout
    assert names(talking, other) == []


def test_what_looks_like_a_secret_stays_behind(talking: User, other: Path) -> None:
    talking.session("shop", "a", f"My key is {KEY}")
    talking.run("import")
    assert talking.run("push", "--project", "shop", other, "--yes", "--redact").startswith(f"Pushed to {other}: 1 new")
    assert KEY not in talking.run("--store", other, "show", "@latest")
    assert KEY in talking.run("show", own(talking, "shop"))
    talking.session("shop", "a", f"And it is still {KEY}")
    talking.run("import")
    # that is how it is for this store, whoever forgets it
    assert talking.run("push", "--project", "shop", other).startswith(f"Pushed to {other}: 1 grown")
    assert KEY not in talking.run("--store", other, "show", "@latest")
    assert talking.run("pull", other) == f"Pulled from {other}: 1 the same.\n"
    for _ in range(2):
        assert "new (" not in talking.run("sync", "--project", "shop", other)
    assert "diverged" not in talking.run("ls", "--json")


def test_a_push_that_watches_sends_what_is_new(talking: User, other: Path) -> None:
    command = [sys.executable, "-m", "fusefs.cli", "push", "--project", "shop", str(other), "--yes", "--watch"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=talking.environment, cwd=talking.home
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(f"Pushed to {other}: 1 new")
        assert process.stderr.readline().startswith("Watching both stores")
        talking.session("shop", "a", "Go on")
        talking.run("import")
        assert process.stdout.readline().startswith(f"Pushed to {other}: 1 grown")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stdout.read() == ""


def test_a_dry_run_says_what_would_go(talking: User, other: Path) -> None:
    talking.run("push", own(talking, "blog"), other, "--yes")
    shop = own(talking, "shop")
    said = talking.run("push", "--project", "shop", "--project", "blog", other, "--dry-run")
    assert said == f"{shop}\n1 of 2 conversations would go.\n"
    assert len(names(talking, other)) == 1


def test_what_grew_there_comes_back(talking: User, other: Path) -> None:
    name = own(talking, "shop")
    talking.run("push", name, other, "--yes")
    grown = talking.session("shop", "a", "And now?", "More.")
    with serving(talking, store=other):
        assert talking.run("pull", other) == f"Pulled from {other}: 1 the same.\n"
    talking.run("import", grown)
    assert talking.run("--store", other, "pull", talking.store, "--project", "shop").startswith(
        f"Pulled from {talking.store}: 1 grown"
    )
    source = re.compile(r"(?m)^source: .*$")
    assert source.sub("", talking.run("--store", other, "show", name)) == source.sub("", talking.run("show", name))


def test_daemons_hold_both(talking: User, other: Path) -> None:
    name = own(talking, "shop")
    talking.run("push", own(talking, "blog"), other, "--yes")
    with serving(talking, store=other), serving(talking):
        assert talking.run("push", name, other).startswith(f"Pushed to {other}: 1 new")
        assert len(names(talking, other)) == 2
        note = (other / LOCK).read_text().splitlines()
        [place] = [line.removeprefix("socket ") for line in note if line.startswith("socket ")]
        assert talking.run("push", name, place) == f"Pushed to {place}: nothing new.\n"
        assert talking.run("sync", name, place).endswith(f"Pushed to {place}: nothing new.\n")
    assert talking.run("--store", other, "fsck") == "The store is sound.\n"


def test_where_daemons_hold_both_nothing_is_loaded_that_opens_a_store(talking: User, other: Path) -> None:
    talking.run("push", own(talking, "shop"), other, "--yes")
    program = (
        f"import sys; from fusefs.cli.main import main\ntry: main(['pull', {str(other)!r}])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    with serving(talking, store=other), serving(talking):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=talking.environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert done.stdout.startswith(f"Pulled from {other}: ")
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "store.service.exchange" in loaded
    heavy = {"store.store", "store.commit.writer", "store.transfer.giver", "store.formats.registry", "sqlite3"}
    assert loaded & {*heavy, "psycopg", "obstore", "cryptography", "trio", "pyfuse3", "rich"} == set()


def test_another_machine_is_reached_by_ssh(talking: User) -> None:
    environment = far(talking)
    there = talking.home / "far away" / "it's"
    there.parent.mkdir()
    place = f"ssh://ada@server{str(there).replace(' ', '%20')}"
    name = own(talking, "shop")
    for command in ("push", "sync"):
        assert "1 of 1 conversations would go" in talking.run(command, name, place, "--dry-run", **environment)
        assert not there.exists()
    said = talking.convfs("push", name, place, "--yes", **environment)
    assert (said.returncode, said.stderr) == (0, ""), said
    assert said.stdout.startswith(f"Pushed to {place}: 1 new")
    assert (talking.home / "hosts").read_text().splitlines()[0] == "ada@server"
    assert names(talking, there) == [name]
    with serving(talking, store=there):
        assert talking.run("push", name, place, **environment) == f"Pushed to {place}: nothing new.\n"
        assert talking.run("pull", place, **environment) == f"Pulled from {place}: 1 the same.\n"
    assert talking.run("--store", there, "fsck") == "The store is sound.\n"
    for wrong in ("ssh://-oProxyCommand=x/y", "ssh://server:99999/x", "ssh://[server/x"):
        assert "names no machine" in talking.fails("pull", wrong, **environment)
    missed = talking.convfs("pull", f"{place}-2", **environment)
    assert missed.returncode == 1
    assert "there is no store at" in missed.stderr
    assert not Path(f"{there}-2").exists()


def test_what_there_is_not_is_said(talking: User, other: Path) -> None:
    talking.run("push", "--project", "shop", other, "--yes")
    for command in ("push", "pull", "sync"):
        for _again in range(2):
            said = talking.fails(command, "--project", "shop", "--project", "shpo", other)
            assert said == "convfs: there is no conversation of the project shpo\n"
        assert "with the label shpo" in talking.fails(command, "--label", "shpo", other)
        assert "shpo" in talking.fails(command, "shpo", other)
    # what only one of the two has is no mistake of who keeps both alike
    assert f"Pushed to {other}: 1 new" in talking.run("sync", "--project", "blog", other)
    (talking.store / "convfs.toml").write_text(f'[[share]]\nproject = "later"\nwith = "{other}"\n')
    assert talking.run("push", other) == f"Pushed to {other}: nothing new.\n"


def test_nobody_there_is_one_line(talking: User, other: Path) -> None:
    assert "no store at" in talking.fails("pull", other)
    assert "this very store" in talking.fails("push", own(talking, "shop"), talking.store, "--yes")
    environment = far(talking)
    (talking.home / "bin/ssh").write_text("#!/bin/sh\nexit 255\n")
    assert "ssh" in talking.fails("pull", "ssh://server/x", **environment)


def test_a_push_that_is_killed_is_done_again(talking: User, other: Path) -> None:
    for number in range(30):
        talking.session("many", f"m{number}", *(f"{number} {at} " + "word " * 400 for at in range(20)))
    talking.run("import")
    count = len(talking.list())
    for delay in (0.35, 0.5, 0.6, 0.7, 0.8):
        process = subprocess.Popen(
            [sys.executable, "-m", "fusefs.cli", "push", "--project", "many", str(other), "--yes"],
            env=talking.environment,
            cwd=talking.home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    said = talking.convfs("push", "--project", "many", other, "--yes")
    assert said.returncode == 0, said
    there = names(talking, other)
    assert len(there) == 30 == len(set(there)) == count - 2
    assert talking.convfs("--store", other, "fsck").stdout.endswith("The store is sound.\n")


def test_progress_is_shown_on_a_terminal(talking: User, other: Path) -> None:
    assert "1 new" in on_a_terminal(talking, "push", own(talking, "shop"), str(other), "--yes")
