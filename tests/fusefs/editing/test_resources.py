"""Files in ``resources/``, saved: the event that holds one changes."""

import base64
import errno
import json
import os
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import Talk
from tests.fusefs.editing.test_crashes import killed
from tests.fusefs.tree.mounting import add, errno_of, mounted, new_store, until, user
from tests.store.editing.records import returned

PNG = b"\x89PNG\r\n\x1a\n\x00\x00picture"
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
}
LINES = [
    user("Read it", 1),
    returned("def one():\n    pass\n", "c1", "r2").decode(),
    returned("import os\n", "c2", "r3").decode(),
    returned("import os\n", "c2", "r4").decode(),
    json.dumps({"type": "user", "message": {"role": "user", "content": [IMAGE]}, "uuid": "i5"}),
]


@pytest.fixture
def lines() -> list[str]:
    return LINES


@pytest.fixture
def one(talk: Talk) -> Path:
    return talk.root / "resources" / "src" / "c1.py"


def record(talk: Talk, number: int) -> str:
    return (talk.root / ".records" / f"{number:05}.json").read_text()


def test_saving_one_changes_its_event(talk: Talk, one: Path) -> None:
    event = talk.events / talk.listed[1]
    assert "def one" in event.read_text()
    text = one.read_text().replace("one", "two")
    one.write_text(text)
    assert talk.new_versions == 1
    # at once, though the kernel had it, and in the program's own copy, too
    assert "def two" in event.read_text()
    assert one.read_text() == text
    assert record(talk, 2).count("def two") == 2
    assert "def two" in talk.transcript
    assert talk.listed == sorted(talk.listed)
    event.write_text(event.read_text().replace("two", "three"))
    assert one.read_text() == text.replace("two", "three")
    assert talk.new_versions == 2


def test_the_same_bytes_are_no_version(talk: Talk, one: Path) -> None:
    for path in (one, picture(talk)):
        path.write_bytes(path.read_bytes())
        talk.mount.shell(f"cd '{path.parent}'; cp '{path.name}' x; mv x '{path.name}'")
    assert talk.new_versions == 0


@pytest.mark.parametrize(
    "script",
    [
        "sed -i s/one/two/ {0}",
        "perl -pi -e s/one/two/ {0}",
        "sed s/one/two/ {0} > new; mv new {0}",
        "mv {0} {0}~; sed s/one/two/ {0}~ > {0}; rm {0}~",
        "sed s/one/two/ {0} > new; cp new {0}; rm new",
        "sed s/one/two/ {0} > new; cat new > {0}; rm new",
    ],
)
def test_however_it_is_saved_it_is_one_version(talk: Talk, one: Path, script: str) -> None:
    text = one.read_text()
    mode = one.stat().st_mode
    talk.mount.shell(f"cd {one.parent}; " + script.format("c1.py"))
    assert one.read_text() == text.replace("one", "two")
    assert one.stat().st_mode == mode
    assert sorted(os.listdir(one.parent)) == ["c1.py", "c2.py"]
    assert talk.new_versions == 1
    assert "def two" in record(talk, 2)


def test_of_equal_ones_that_of_one_event_changes(talk: Talk, one: Path) -> None:
    listed = one.with_name("c2.py")
    earlier = one.with_name("c2@00003.py")
    assert earlier.read_text() == listed.read_text() == "import os\n"
    earlier.write_text("import sys\n")
    assert talk.new_versions == 1
    assert "import sys" in record(talk, 3)
    assert "import os" in record(talk, 4)
    assert sorted(os.listdir(one.parent)) == ["c1.py", "c2.py", "c2@00003.py"]
    listed.write_text("import re\n")
    assert [path.read_text() for path in (earlier, listed)] == ["import sys\n", "import re\n"]
    assert "import re" in record(talk, 4)
    assert talk.new_versions == 2


def picture(talk: Talk) -> Path:
    (found,) = (talk.root / "resources").rglob("*.png")
    return found


def test_what_is_no_text_may_change_where_the_record_holds_it(talk: Talk) -> None:
    path = picture(talk)
    assert path.read_bytes() == PNG
    path.write_bytes(PNG + b"!")
    assert path.read_bytes() == PNG + b"!"
    assert base64.b64encode(PNG + b"!").decode() in record(talk, 5)
    assert talk.new_versions == 1


def test_what_cannot_be_is_refused_and_kept(talk: Talk, one: Path) -> None:
    before = one.read_bytes()
    with open(one, "wb", buffering=0) as file:
        file.write(b"caf\xe9")
        assert errno_of(file.close) == errno.EINVAL
    assert (one.parent / "c1.py.draft").read_bytes() == b"caf\xe9"
    assert "resources/src/c1.py" in talk.errors
    assert "UTF-8" in talk.errors
    until(lambda: one.read_bytes() == before)
    (one.parent / "c1.py.draft").unlink()
    assert talk.new_versions == 0


def test_one_alone_cannot_be_removed(talk: Talk, one: Path) -> None:
    assert errno_of(one.unlink) == errno.EPERM
    assert errno_of(lambda: os.rename(one, talk.root / "other" / "x")) in (errno.ENOENT, errno.EPERM)
    assert one.exists()
    talk.mount.shell(f"rm -r '{talk.root}'")
    assert not talk.root.exists()


def test_two_programs(talk: Talk, one: Path) -> None:
    with open(one, "w") as file:
        file.write("slow\n")
        file.flush()
        (talk.events / talk.listed[1]).write_text("quick\n")
        assert one.read_text() == "slow\n"
        assert errno_of(file.close) == errno.ESTALE
    until(lambda: one.read_text() == "quick")
    assert (one.parent / "c1.py.draft").read_text() == "slow\n"


def test_who_has_the_old_one_open_keeps_it(talk: Talk, one: Path) -> None:
    new = one.parent / "new"
    new.write_text("new\n")
    with one.open() as reader:
        os.rename(new, one)
        assert reader.read() == "def one():\n    pass\n"
    assert one.read_text() == "new\n"
    assert talk.new_versions == 1


def test_an_earlier_version_cannot_be_written(talk: Talk, one: Path) -> None:
    one.write_text("new\n")
    version = talk.root / ".versions" / min(os.listdir(talk.root / ".versions"))
    old = version / "resources" / "src" / "c1.py"
    assert old.read_text() == "def one():\n    pass\n"
    assert errno_of(lambda: old.write_text("x")) == errno.EROFS


def test_what_was_closed_is_committed_at_the_next_start(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, LINES)
    held: list[int] = []

    def work(talk: Talk) -> None:
        for path in (talk.root / "resources" / "src" / "c1.py", talk.root / "resources" / "src" / "c2.py"):
            file = os.open(path, os.O_WRONLY | os.O_TRUNC)
            os.write(file, b"import this\n")
            # another descriptor stays, so it is not committed, and the second only synced
            held.append(os.dup(file))
            if path.name == "c1.py":
                os.close(file)
            else:
                os.fsync(file)
                held.append(file)

    killed(store_path, work)
    for descriptor in held:
        errno_of(lambda descriptor=descriptor: os.close(descriptor))
    with mounted(store_path) as mount:
        talk = Talk(mount)
        directory = talk.root / "resources" / "src"
        assert (directory / "c1.py").read_text() == "import this\n"
        assert "import this" in record(talk, 2)
        assert (directory / "c2.py").read_text() == "import os\n"
        assert (directory / "c2.py.draft").read_text() == "import this\n"
        assert talk.versions == 2
