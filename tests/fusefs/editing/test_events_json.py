"""``events.json``, saved by programs as they save any file."""

import errno
import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import FIRST, Talk
from tests.fusefs.tree.mounting import errno_of, until, user


@pytest.fixture
def whole(talk: Talk) -> Path:
    return talk.root / "events.json"


def elements(whole: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(whole.read_bytes())
    return found


def write(path: Path, value: object) -> None:
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2))


def test_the_same_bytes_are_no_version(talk: Talk, whole: Path) -> None:
    write(whole, whole.read_text())
    talk.mount.shell(f"cd {talk.root}; cp events.json copy; mv copy events.json; sed -i s/absent/absent/ events.json")
    assert talk.new_versions == 0


def test_a_text_in_place_of_a_reference_is_a_reference_when_it_is_read(talk: Talk, whole: Path) -> None:
    found = elements(whole)
    found[0]["message"] = {"role": "user", "content": {"text": "Goodbye\nthere"}}
    data = json.dumps(found, indent=4)
    descriptor = os.open(whole, os.O_WRONLY | os.O_TRUNC)
    os.write(descriptor, data.encode())
    assert os.fstat(descriptor).st_size == len(data)
    assert whole.read_text() == data
    os.close(descriptor)
    size = whole.stat().st_size
    assert talk.first.read_text().endswith("---\nGoodbye\nthere\n")
    assert talk.new_versions == 1
    shown = whole.read_text()
    assert '"$blob"' in shown
    assert "Goodbye" not in shown
    assert size == len(shown.encode())
    (talk.root / "new").write_text(json.dumps(found, indent=4).replace("u1", "u9"))
    os.rename(talk.root / "new", whole)
    assert whole.stat().st_size == len(shown)
    assert whole.read_text() == shown.replace("u1", "u9")
    write(whole, shown)
    assert talk.new_versions == 3


def test_what_is_drawn_as_it_was_saved_stays_as_it_was_saved(talk: Talk, whole: Path) -> None:
    text = whole.read_text().replace('"uuid": "u1"', '"uuid": "u9"')
    write(whole, text)
    before = whole.stat()
    assert whole.read_text() == text
    assert whole.stat().st_mtime_ns == before.st_mtime_ns
    assert talk.new_versions == 1


@pytest.mark.parametrize(
    "command", ["sed -i s/u1/u9/ {}", "perl -pi -e s/u1/u9/ {}", "printf '%s\\n' ,s/u1/u9/ w q | ed -s {}"]
)
def test_commands_that_edit_in_place(talk: Talk, whole: Path, command: str) -> None:
    if "ed -s" in command and talk.mount.run("which", "ed", check=False).returncode:
        pytest.skip("there is no ed")
    text = whole.read_text()
    talk.mount.shell(f"cd {talk.root}; " + command.format("events.json"))
    assert whole.read_text() == text.replace("u1", "u9")
    assert talk.new_versions == 1
    assert sorted(os.listdir(talk.root)) == ["events", "events.json", "forks", "metadata.json", "resources"]


@pytest.mark.parametrize(
    "script",
    [
        "mv {0} {0}~; cp new {0}; rm {0}~ new",
        "rm {0}; cp new {0}; rm new",
        "ln new keep; mv new {0}; rm keep",
        "install -m 600 new {0}; rm new",
        "cp -a new {0}; rm new",
        "cp --remove-destination new {0}; rm new",
        "tee {0} < new > /dev/null; rm new",
        "tar cf - --transform=s/new/{0}/ new | tar xf - ; rm new",
    ],
)
def test_however_it_is_replaced_it_is_one_version(talk: Talk, whole: Path, script: str) -> None:
    text = whole.read_text().replace("u1", "u9")
    (talk.root / "new").write_text(text)
    with whole.open() as reader:
        before = reader.read(10)
        talk.mount.shell(f"cd {talk.root}; " + script.format("events.json"))
        assert len(before) == 10
    assert whole.read_text() == text
    assert talk.new_versions == 1
    assert sorted(os.listdir(talk.root)) == ["events", "events.json", "forks", "metadata.json", "resources"]
    assert "u9" in (talk.root / ".records" / "00001.json").read_text()


def test_who_has_the_old_one_open_keeps_it(talk: Talk, whole: Path) -> None:
    old = whole.read_text()
    (talk.root / "new").write_text(old.replace("u1", "u9"))
    with whole.open() as reader:
        os.rename(talk.root / "new", whole)
        assert reader.read() == old
    assert whole.read_text() == old.replace("u1", "u9")


def test_times_stay_in_order(talk: Talk, whole: Path) -> None:
    found = elements(whole)
    stamps = [str(one["timestamp"]) for one in found if "timestamp" in one]
    assert stamps == sorted(stamps)
    before = whole.read_text()
    last = next(number for number, one in enumerate(found, 1) if one.get("timestamp") == stamps[-1])
    # later than the one behind it, as events/ refuses it too
    late = before.replace(f'"{stamps[1]}"', '"2027-01-01T00:00:00.000Z"')
    assert errno_of(lambda: write(whole, late)) == errno.EINVAL
    assert "time is out of order: the records around it ask for a time between" in talk.errors
    events_file = talk.second.read_text().replace(stamps[1], "2027-01-01T00:00:00.000Z")
    assert errno_of(lambda: talk.second.write_text(events_file)) == errno.EINVAL
    assert "'timestamp' is out of order: the records around it ask for a time between" in talk.errors
    assert talk.new_versions == 0
    # the one behind it is later still
    both = late.replace(f'"{stamps[-1]}"', '"2027-01-01T00:00:01.000Z"')
    write(whole, both)
    assert (talk.new_versions, elements(whole)[last - 1]["timestamp"]) == (1, "2027-01-01T00:00:01.000Z")
    # where that one goes, nothing is behind
    write(whole, json.dumps(elements(whole)[: last - 1]).replace("2027-01-01T00:00:00", "2028-01-01T00:00:00"))
    assert talk.new_versions == 2


def test_what_cannot_be_is_refused_and_kept(talk: Talk, whole: Path) -> None:
    text = whole.read_text()
    for wrong, told in (
        (text[:-3], f"line {text.count(chr(10)) - 1}: this is not JSON"),
        (text.replace("size", "sise"), "line 8: record 1: beside"),
        (text.replace('"$event": 2', '"$event": 1'), "record 1 stands here twice"),
    ):
        assert errno_of(lambda wrong=wrong: write(whole, wrong)) == errno.EINVAL
        assert (talk.root / "events.json.draft").read_text() == wrong
        assert told in talk.errors
        os.unlink(talk.root / "events.json.draft")
        until(lambda: whole.read_text() == text)
    (talk.root / "new").write_text("[")
    assert errno_of(lambda: os.rename(talk.root / "new", whole)) == errno.EINVAL
    assert talk.new_versions == 0
    assert "events.json: line 1: this is not JSON" in talk.errors
    write(whole, "")
    until(lambda: whole.read_text() == text)
    assert talk.new_versions == 0


def test_what_is_new_removed_and_moved(talk: Talk, whole: Path) -> None:
    found = elements(whole)
    new: dict[str, object] = {"type": "user", "message": {"role": "user", "content": "In between"}}
    write(whole, [found[1], new, found[0]])
    assert talk.new_versions == 1
    # the bookkeeping and the last are removed, and what was behind the second follows it
    assert talk.listed == ["00001-assistant.md", "00004-user.md", "00005-user.md"]
    assert "In between" in (talk.events / "00004-user.md").read_text()
    assert "In between" in talk.transcript
    assert [element["$event"] for element in elements(whole)] == [1, 4, 5]
    write(whole, [])
    assert talk.listed == []
    assert talk.new_versions == 2
    # an old state comes back as it was
    first = min(os.listdir(talk.root / ".versions"))
    talk.mount.shell(f"cd {talk.root}; cp .versions/{first}/events.json events.json")
    assert talk.new_versions == 3


def test_while_others_change_the_conversation(talk: Talk, whole: Path) -> None:
    text = whole.read_text()
    with open(whole, "w") as file:
        file.write(text.replace("u1", "u9"))
        file.flush()
        talk.mount.tell(append=[1, [user("news", 9)]])
        assert "u9" in whole.read_text()
    until(lambda: "00005-user.md" in talk.listed)
    assert "news" in (talk.events / "00005-user.md").read_text()
    assert "u9" in (talk.root / ".records" / "00001.json").read_text()
    with open(whole, "w") as file:
        file.write(text)
        (talk.events / FIRST).write_text("Changed\n")
        assert errno_of(file.close) == errno.ESTALE
    assert (talk.root / "events.json.draft").read_text() == text
    assert "Changed" in (talk.root / ".records" / "00001.json").read_text()


def test_an_earlier_version_cannot_be_written(talk: Talk, whole: Path) -> None:
    write(whole, whole.read_text().replace("u1", "u9"))
    version = talk.root / ".versions" / min(os.listdir(talk.root / ".versions"))
    assert errno_of(lambda: write(version / "events.json", "[]")) == errno.EROFS
    assert errno_of(lambda: os.unlink(version / "events.json")) == errno.EROFS
    (talk.root / "new").write_text("[]")
    assert errno_of(lambda: os.rename(talk.root / "new", version / "events.json")) == errno.EROFS


def test_references_are_files_whatever_their_size(talk: Talk, whole: Path) -> None:
    blobs = talk.mount.root / ".convfs" / "blobs"
    (named,) = (element["message"]["content"] for element in elements(whole)[:1])  # type: ignore[index]
    path = blobs / named["$blob"]
    assert path.read_text() == "Hello there"
    assert path.stat().st_size == named["size"] == len("Hello there")
    assert os.getxattr(path, "user.convfs.held_by").decode().endswith(f"/events/{FIRST}\n")
    assert (blobs / sha256(b"Hello there").hexdigest()).read_text() == "Hello there"
    assert not (blobs / ("0" * 64)).exists()
    assert os.listdir(blobs) == []


def test_a_reference_means_the_same_in_another_conversation(talk: Talk, whole: Path) -> None:
    name = elements(whole)[0]["message"]["content"]["$blob"]  # type: ignore[index]
    talk.mount.shell(f"mkdir {talk.mount.root}/conversations/project/new")
    new = talk.mount.root / "conversations" / "project" / "new"
    write(new / "events.json", [{"type": "user", "message": {"role": "user", "content": {"$blob": name}}}])
    assert (new / "events" / FIRST).read_text().endswith("---\nHello there\n")


def test_what_is_being_removed_is_not_another_record(talk: Talk, whole: Path) -> None:
    found = elements(whole)
    os.unlink(talk.second)
    write(whole, [found[2], found[0], found[1], found[3]])
    assert talk.new_versions == 1
    talk.sync()
    assert talk.new_versions == 1
    assert talk.listed == ["00002-user.md", "00003-assistant.md", "00004-user.md"]
