"""``convfs import`` of many sessions: all of them are there, and then they are indexed, unless somebody has enough."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.store import Store
from tests.bench import corpus
from tests.fusefs.cli.user import User

SESSIONS = 60
SUMMARY = f"Conversations: {SESSIONS} imported, 0 grown, 0 unchanged"
INDEXING = "Indexing; Ctrl-C ends that: the rest is read when it is asked for.\n"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of sessions, large enough for other processes to help with them."""
    folder = tmp_path_factory.mktemp("sessions")
    corpus.write_corpus(folder, sessions=SESSIONS, events=100)
    return folder / "projects"


def unindexed(user: User) -> int:
    with Store.open(user.store, renderer=FileRenderer()) as store:
        return store.search.unfiled


def test_what_came_is_indexed_once_it_is_there(user: User, sessions: Path) -> None:
    done = user.convfs("import", sessions)
    assert (done.returncode, done.stderr) == (0, INDEXING)
    assert done.stdout.startswith(SUMMARY)
    assert unindexed(user) == 0


def test_nothing_is_indexed_if_nobody_waits_and_searches_find_all_the_same(user: User, sessions: Path) -> None:
    assert user.run("import", sessions, "--no-wait").startswith(SUMMARY)
    assert unindexed(user) > 5000
    done = user.convfs("search", "--limit", "1", "pytest")
    assert done.returncode == 0
    assert "are not indexed yet" in done.stderr
    assert "pytest" in done.stdout


def test_why_a_path_cannot_be_imported_is_said(user: User) -> None:
    user.session("shop", "one", "Hi")
    assert "does not exist" in user.fails("import", user.home / "other.jsonl")
    said = user.fails("import", user.home / ("x" * 300))
    assert said.endswith(" cannot be read: File name too long\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_who_has_enough_of_indexing_ends_it(user: User, sessions: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-m", "fusefs.cli", "import", sessions]
    with subprocess.Popen(
        words, env=user.environment, cwd=user.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        # all of it is there by then
        assert process.stderr.readline() == INDEXING
        process.send_signal(number)
        told, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert told.startswith(SUMMARY)
    assert unindexed(user) > 0
    done = user.convfs("import", sessions)
    assert done.returncode == 0
    assert done.stdout.startswith(f"Conversations: 0 imported, 0 grown, {SESSIONS} unchanged")
    assert unindexed(user) == 0
