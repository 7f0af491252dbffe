"""``metadata.json``, saved in every way."""

import errno
import json
import os
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.editing.talk import LINES, NAME, Talk
from tests.fusefs.editing.test_crashes import killed
from tests.fusefs.tree.mounting import add, errno_of, mounted, new_store, until


def told(talk: Talk) -> dict[str, object]:
    """Return what ``metadata.json`` says."""
    table: dict[str, object] = json.loads((talk.root / "metadata.json").read_bytes())
    return table


def heads_length(talk: Talk) -> int:
    """Return how long the log is that every commit makes longer."""
    return (talk.mount.store / "turns" / "heads.log").stat().st_size


SAVES = {
    "in place": "cp metadata.json /tmp/$$; sed 's/A talk/Another/' /tmp/$$ > metadata.json; rm /tmp/$$",
    "sed -i": "sed -i 's/A talk/Another/' metadata.json",
    "sed -i.bak": "sed -i.bak 's/A talk/Another/' metadata.json && rm metadata.json.bak",
    "perl -pi": "perl -pi -e 's/A talk/Another/' metadata.json",
    "renamed onto": "sed 's/A talk/Another/' metadata.json > new && mv new metadata.json",
    "moved away": "mv metadata.json old && sed 's/A talk/Another/' old > metadata.json && rm old",
    "removed before": "sed 's/A talk/Another/' metadata.json > new; rm metadata.json; cp new metadata.json; rm new",
    "python": "python3 -c \"import json; t = json.load(open('metadata.json')); t['title'] = 'Another';"
    " json.dump(t, open('metadata.json', 'w'))\"",
    "through a pipe": "jq -c '.title=\"Another\"' metadata.json > new; tee metadata.json < new; rm new",
}


@pytest.mark.parametrize("script", SAVES.values(), ids=SAVES)
def test_every_way_of_saving(talk: Talk, script: str) -> None:
    mode = (talk.root / "metadata.json").stat().st_mode
    before = heads_length(talk)
    talk.mount.shell(f"cd '{talk.root}'; {script}")
    assert told(talk)["title"] == "Another"
    assert "# Another\n" in talk.transcript
    assert os.getxattr(talk.root, "user.convfs.title") == b"Another"
    assert "own_title" in json.loads(os.getxattr(talk.root, "user.convfs.internals"))
    assert "user.convfs.internals" not in os.listxattr(talk.root)
    assert (talk.root / "metadata.json").stat().st_mode == mode
    after = heads_length(talk)
    assert before < after < before + 200
    assert (talk.new_versions, talk.errors) == (0, "")
    assert sorted(os.listdir(talk.root)) == ["events", "events.json", "forks", "metadata.json", "resources"]
    talk.mount.shell(f"cd '{talk.root}'; {script}")
    assert heads_length(talk) == after


def test_what_was_saved_stays_as_it_was_saved(talk: Talk) -> None:
    path = talk.root / "metadata.json"
    text = json.dumps({**told(talk), "labels": ["bug"], "archived": True}, indent=7)
    path.write_text(text)
    status = path.stat()
    assert path.read_text() == text
    os.utime(path, ns=(5, 1_700_000_000_123_456_789))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (status.st_mtime_ns, status.st_size)
    assert os.listdir(talk.mount.root / "by-label" / "bug") == [NAME]
    # somebody else's change shows
    os.setxattr(talk.root, "user.convfs.label.other", b"")
    assert told(talk)["labels"] == ["bug", "other"]
    assert path.stat().st_mtime_ns > status.st_mtime_ns
    talk.mount.tell(metadata=[1, {"pinned": True}])
    until(lambda: told(talk)["pinned"] is True)


def test_the_same_in_another_spelling_is_no_commit(talk: Talk) -> None:
    before = heads_length(talk)
    path = talk.root / "metadata.json"
    path.write_bytes(path.read_bytes())
    path.write_text(json.dumps(told(talk), sort_keys=True))
    talk.mount.shell(f"touch '{path}'; : > '{path}'; true")
    path.write_text(json.dumps(told(talk)))
    assert heads_length(talk) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "jp"}, '"format" cannot be changed'),
        ({"name": "x"}, "move the directory"),
        ({"labels": ["a/b"]}, "no slashes"),
        ({"labels": "bug"}, "labels must be a list"),
        ({"pinned": "yes"}, "pinned and archived are true or false"),
        ({"title": "two\nlines"}, "a title must be one line"),
        ({"colour": "red"}, "cannot be added"),
    ],
)
def test_what_is_refused_is_kept(talk: Talk, change: dict[str, object], reason: str) -> None:
    path, before = talk.root / "metadata.json", heads_length(talk)
    text = json.dumps({**told(talk), **change}, indent=2)
    assert errno_of(lambda: path.write_text(text)) == errno.EINVAL
    assert (talk.root / "metadata.json.draft").read_text() == text
    [line] = [line for line in text.splitlines() if next(iter(change)) in line][:1]
    assert f"line {text.splitlines().index(line) + 1}: " in talk.errors
    assert reason in talk.errors
    assert next(iter(change)) in told(talk) or "colour" in change
    assert told(talk)["title"] == "A talk"
    assert heads_length(talk) == before
    (talk.root / "metadata.json.draft").unlink()
    # renamed onto it, too
    (talk.root / "new").write_text(text)
    assert errno_of(lambda: os.rename(talk.root / "new", path)) == errno.EINVAL
    assert told(talk)["title"] == "A talk"


def test_two_who_change_it_at_once(talk: Talk) -> None:
    path = talk.root / "metadata.json"
    mine = json.dumps({**told(talk), "title": "Mine"})
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.setxattr(talk.root, "user.convfs.label.theirs", b"")
    os.write(descriptor, mine.encode())
    assert errno_of(lambda: os.close(descriptor)) == errno.ESTALE
    assert told(talk)["title"] == "A talk"
    assert told(talk)["labels"] == ["theirs"]
    assert (talk.root / "metadata.json.draft").read_text() == mine


def test_what_goes_on_meanwhile_is_no_conflict(talk: Talk) -> None:
    path = talk.root / "metadata.json"
    mine = json.dumps({**told(talk), "title": "Mine"})
    with open(path, "r+") as file:
        file.truncate(0)
        (talk.events / "user.md").write_text("One thing more.\n")
        file.write(mine)
    assert (told(talk)["title"], told(talk)["records"]) == ("Mine", 5)
    # what was read before the conversation went on can still be written
    path.write_text(mine.replace("Mine", "Still mine"))
    assert (told(talk)["title"], told(talk)["records"]) == ("Still mine", 5)


def test_earlier_versions_are_read_only(talk: Talk) -> None:
    version = next((talk.root / ".versions").iterdir())
    assert errno_of(lambda: (version / "metadata.json").write_text("{}")) == errno.EROFS
    assert errno_of(lambda: os.unlink(version / "metadata.json")) == errno.EROFS


def test_a_killed_mount_loses_no_save(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, LINES)
    held: list[int] = []

    def work(talk: Talk) -> None:
        text = json.dumps({**told(talk), "title": "Saved"})
        held.append(os.open(talk.root / "metadata.json", os.O_WRONLY | os.O_TRUNC))
        os.write(held[0], text.encode())
        # closed, and so to be saved; but another descriptor holds it
        os.close(os.dup(held[0]))
        assert store_path.joinpath("scratch", ".drafts").exists()

    killed(store_path, work)
    errno_of(lambda: os.close(held[0]))
    with mounted(store_path) as mount:
        assert told(Talk(mount))["title"] == "Saved"
        assert os.listdir(mount.root / ".convfs" / "errors") == []
    with new_store(store_path) as store:
        assert (store.library.conversation(1).title, fsck(store)) == ("Saved", [])
