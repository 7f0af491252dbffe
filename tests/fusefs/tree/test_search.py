"""``search/QUERY/`` in a mount: what it links to, what it costs, and that nobody else waits for it."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.handler import WAITING_AT_MOST
from tests.fusefs.tree.mounting import Mounted, add, assistant, mounted, new_store, until, user


@pytest.fixture
def talks(store_path: Path) -> Iterator[Mounted]:
    """A mount of two conversations that speak of the same, and a third one that does not."""
    with new_store(store_path) as store:
        add(store, [user("Where are the roses?", 1), assistant("In the\ngarden/shed, 50%.", 2)], name="first")
        add(store, [user("More roses", 3), user("and Thyme", 4)], name="second", project="other")
        add(store, [user("nothing of that", 5)], name="third")
    with mounted(store_path) as here:
        yield here


def listed(mount: Mounted, query: str) -> list[str]:
    return sorted(os.listdir(mount.root / "search" / query))


def test_links_lead_to_the_events_best_first(talks: Mounted) -> None:
    assert os.listdir(talks.root / "search") == []
    assert listed(talks, "roses") == ["0001-second-00001-user.md", "0002-first-00001-user.md", "hits.txt"]
    link = talks.root / "search/roses/0001-second-00001-user.md"
    assert os.readlink(link) == "../../conversations/other/second/events/00001-user.md"
    assert link.read_text() == (talks.root / "conversations/other/second/events/00001-user.md").read_text()
    assert (talks.root / "search/roses/hits.txt").read_text().splitlines() == [
        "conversations/other/second/events/00001-user.md:6:More roses",
        "conversations/project/first/events/00001-user.md:6:Where are the roses?",
    ]
    assert listed(talks, "/ro.es$/ project:other".replace("/", "%2F")) == ["0001-second-00001-user.md", "hits.txt"]
    assert (talks.root / "search/garden%2Fshed/hits.txt").read_text().endswith(":8:garden/shed, 50%.\n")
    assert len(listed(talks, "50%")) == len(listed(talks, "50%25")) == len(listed(talks, "Thyme")) == 2
    assert listed(talks, "roses thyme") == ["hits.txt"]
    assert talks.shell("grep -h Where search/roses/0*") == "Where are the roses?\n"


def test_titles_and_labels_lead_to_what_says_them(talks: Mounted) -> None:
    third = talks.root / "conversations/project/third"
    told = (third / "metadata.json").read_text()
    assert '"labels": []' in told
    title = '  "title": "A \\"quince\\"",'
    lines = [title if line.startswith('  "title"') else line for line in told.splitlines()]
    labels = '"labels": [\n    "jam",\n    "quinces"\n  ]'
    # spelled as it is drawn: a file stays as it was saved
    (third / "metadata.json").write_text("\n".join(lines).replace('"labels": []', labels) + "\n")
    until(lambda: listed(talks, "quince") == ["0001-third-metadata.json", "hits.txt"])
    hits = (talks.root / "search/quince/hits.txt").read_text().splitlines()
    assert [hit.split(":")[1] for hit in hits] == ["2", "5"]
    now = (talks.root / "search/quince/0001-third-metadata.json").read_text().splitlines()
    for hit in hits:
        path, number, text = hit.split(":", 2)
        assert (path, text) == ("conversations/project/third/metadata.json", now[int(number) - 1])
    assert listed(talks, "is:subagent OR label:jam that") == ["0001-third-00001-user.md", "hits.txt"]


def test_what_was_never_listed_is_found_too(talks: Mounted) -> None:
    assert "In the" in (talks.root / "search/garden/0001-first-00002-assistant.md").read_text()
    assert not (talks.root / "search/garden/0002-first-00002-assistant.md").exists()


def test_what_came_since_is_found(talks: Mounted) -> None:
    assert len(listed(talks, "roses")) == 3
    talks.tell(append=[3, [user("roses, too", 9)]])
    until(lambda: len(listed(talks, "roses")) == 4)
    assert "roses, too" in (talks.root / "search/roses/hits.txt").read_text()


@pytest.mark.parametrize("name", [".git", ".hidden", "HEAD", ".search"])
def test_programs_that_look_around_find_nothing(talks: Mounted, name: str) -> None:
    assert not (talks.root / "search" / name).exists()


def test_what_makes_no_sense_is_told(talks: Mounted) -> None:
    assert (talks.root / "search/role:nobody").is_dir()
    with pytest.raises(OSError, match="role:nobody") as caught:
        listed(talks, "role:nobody")
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(OSError) as caught:
        (talks.root / "search/%2F(%2F/hits.txt").read_text()
    assert caught.value.errno == errno.EINVAL


def test_nothing_can_be_made_or_removed_there(talks: Mounted) -> None:
    talks.shell("ls search/roses")
    for command in ("rm search/roses/0001*", "touch search/roses/x", "mkdir search/.x", "rmdir search/roses"):
        assert subprocess.run(["sh", "-c", command], cwd=talks.root, capture_output=True, check=False).returncode
    assert len(listed(talks, "roses")) == 3


def begun(mount: Mounted, query: str) -> "subprocess.Popen[str]":
    """Return a process that lists what a query finds."""
    command = ["ls", f"search/{query}"]
    return subprocess.Popen(command, cwd=mount.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_nobody_else_waits_for_a_search(talks: Mounted) -> None:
    talks.tell(hold=True)
    waiting = [begun(talks, f"roses -no{number}") for number in range(WAITING_AT_MOST)]
    again = [begun(talks, "roses") for _ in range(4)]
    talks.check_alive()
    event = talks.root / "conversations/project/first/events/00001-user.md"
    event.write_text("Where is the thyme?\n")
    assert event.read_text() == "Where is the thyme?\n"
    assert "hits.txt" not in talks.shell("find conversations transcripts")
    talks.tell(hold=False)
    done = [(process.communicate(timeout=60), process.returncode) for process in (*waiting, *again)]
    # those that came when very many waited were sent away
    assert {errors.rpartition(": ")[2] for (_found, errors), code in done if code} <= {
        "Resource temporarily unavailable\n"
    }
    assert sum(not code for _told, code in done) >= WAITING_AT_MOST
    assert all("hits.txt" in found for (found, _errors), code in done if not code)


def test_a_mount_ends_while_somebody_waits(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("roses", 1)])
    root = store_path.with_name("mount")
    root.mkdir()
    mount = Mounted(store_path, root)
    try:
        mount.tell(hold=True)
        with begun(mount, "roses") as process:
            mount.tell(searching=True)
            mount.daemon.terminate()
            assert mount.daemon.wait(20) == 0
            process.communicate(timeout=20)
            assert process.returncode
    finally:
        mount.destroy()
