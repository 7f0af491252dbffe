"""Events that are saved: what becomes of them, however a program goes about it."""

import errno
import json
import mmap
import os
import time
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import FIRST, LAST, LINES, Talk, changed
from tests.fusefs.tree.mounting import add, assistant, errno_of, mounted, new_store, until, user


def write(path: Path, data: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(data)


def test_a_save_in_place_is_one_version(talk: Talk) -> None:
    text = changed(talk.first)
    write(talk.first, text)
    assert talk.first.read_bytes() == text
    assert talk.new_versions == 1
    assert "Goodbye there" in talk.transcript
    assert "Goodbye there" in (talk.root / ".records" / "00001.json").read_text()
    assert talk.listed == [FIRST, "00002-assistant.md", LAST]


def test_the_same_bytes_make_no_version(talk: Talk) -> None:
    for _ in range(3):
        write(talk.first, talk.first.read_bytes())
    talk.shell(f'text=$(cat {FIRST}); echo "$text" > {FIRST}')
    assert talk.new_versions == 0


def test_what_was_saved_stays_as_it_was_saved(talk: Talk) -> None:
    # a byte order mark and lines that end otherwise are not drawn, but are what the editor wrote
    text = b"\xef\xbb\xbf" + changed(talk.first)
    write(talk.first, text)
    status = talk.first.stat()
    assert talk.new_versions == 1
    for _ in range(3):
        assert talk.first.read_bytes() == text
        now = talk.first.stat()
        assert (now.st_size, now.st_mtime_ns, now.st_ino) == (status.st_size, status.st_mtime_ns, status.st_ino)
    talk.mount.tell(append=[1, [user("news", 9)]])
    until(lambda: "00005-user.md" in talk.listed)
    assert talk.first.read_bytes() == text
    assert talk.first.stat().st_mtime_ns == status.st_mtime_ns
    write(talk.last, changed(talk.last, "third", "fourth"))
    assert talk.first.read_bytes() == text


def test_what_was_saved_stays_though_the_kernel_forgets_the_file(talk: Talk) -> None:
    text = b"\xef\xbb\xbf" + changed(talk.first)
    write(talk.first, text)
    other = b"\xef\xbb\xbf" + changed(talk.last, "third", "fourth")
    (talk.last.parent / "new").write_bytes(other)
    os.rename(talk.last.parent / "new", talk.last)
    for _ in range(3):
        if not talk.mount.make_kernel_forget():
            pytest.skip("only root can make the kernel forget files")
        assert talk.first.read_bytes() == text
        assert talk.last.read_bytes() == other
    assert talk.new_versions == 2


def test_a_change_of_the_same_size_changes_the_time(talk: Talk) -> None:
    before = talk.first.stat()
    write(talk.first, changed(talk.first, "Hello", "HELLO"))
    after = talk.first.stat()
    assert after.st_size == before.st_size
    assert after.st_mtime_ns != before.st_mtime_ns


@pytest.mark.parametrize(
    "script", ["printf x; (printf y); printf z", "printf xy; printf z", "printf xyz | tee -a /dev/null"]
)
def test_however_a_shell_writes_it_is_one_version(talk: Talk, script: str) -> None:
    before = talk.first.read_bytes()
    talk.shell(f"{{ {script}; }} >> {FIRST}")
    assert talk.first.read_bytes() == before + b"xyz"
    assert talk.new_versions == 1


def test_a_listing_between_two_writes_lands_where_it_belongs(talk: Talk) -> None:
    before = talk.first.read_bytes()
    talk.shell(f"{{ printf a; ls {LAST}; printf b; }} >> {FIRST}")
    assert talk.first.read_bytes() == before + b"a" + LAST.encode() + b"\nb"
    assert talk.new_versions == 1


def test_the_empty_state_is_never_a_version(talk: Talk) -> None:
    before = talk.first.read_bytes()
    talk.shell(f": > {FIRST}")
    until(lambda: talk.first.read_bytes() == before)
    assert "empty" in talk.errors
    with open(talk.first, "r+b", buffering=0) as file:
        file.truncate(0)
        os.close(os.dup(file.fileno()))
        assert talk.first.stat().st_size == 0
        file.write(changed_text := before.replace(b"Hello", b"Goodbye"))
    assert talk.first.read_bytes() == changed_text
    assert talk.new_versions == 1


def test_what_does_not_parse_is_refused_and_kept(talk: Talk) -> None:
    before = talk.first.read_bytes()
    wrong = before.replace(b"event: 1", b"event: 7")
    with open(talk.first, "wb", buffering=0) as file:
        file.write(wrong)
        os.fsync(file.fileno())
        assert errno_of(lambda: os.close(os.dup(file.fileno()))) == errno.EINVAL
        assert errno_of(file.close) == errno.EINVAL
    assert (talk.events / f"{FIRST}.draft").read_bytes() == wrong
    assert "line 2" in talk.errors
    assert FIRST in talk.errors
    until(lambda: talk.first.read_bytes() == before)
    assert talk.first.stat().st_size == len(before)
    assert talk.new_versions == 0
    # another program's goes beside it
    assert errno_of(lambda: write(talk.first, wrong + b"x")) == errno.EINVAL
    assert (talk.events / f"{FIRST}.draft").read_bytes() == wrong
    assert (talk.events / f"{FIRST}.draft-2").read_bytes() == wrong + b"x"


def test_a_refused_text_goes_once_it_is_right(talk: Talk) -> None:
    text = changed(talk.first)
    with open(talk.first, "wb", buffering=0) as file:
        file.write(b"---\n")
        assert errno_of(lambda: os.close(os.dup(file.fileno()))) == errno.EINVAL
        assert f"{FIRST}.draft" in talk.listed
        file.write(text[4:])
    assert talk.first.read_bytes() == text
    until(lambda: f"{FIRST}.draft" not in talk.listed)
    assert talk.new_versions == 1


def test_syncing_a_half_written_file_is_no_error(talk: Talk) -> None:
    text = changed(talk.first)
    with open(talk.first, "wb", buffering=0) as file:
        for at in range(0, len(text), 16):
            file.write(text[at : at + 16])
            os.fsync(file.fileno())
            os.fdatasync(file.fileno())
    assert talk.first.read_bytes() == text
    assert talk.new_versions == 1


def test_others_see_what_is_being_written(talk: Talk) -> None:
    with open(talk.first, "wb", buffering=0) as file:
        file.write(b"half")
        assert talk.first.read_bytes() == b"half"
        assert talk.first.stat().st_size == 4
        talk.mount.shell(f"ls -l {talk.events}")
        assert talk.first.stat().st_size == 4
        assert "Hello" in talk.transcript
        file.seek(0)
        file.truncate()
        file.write(changed_text := b"Goodbye\n")
    assert talk.first.read_bytes() == changed_text
    assert "Goodbye" in talk.transcript


def test_a_text_without_a_head_changes_the_text_alone(talk: Talk) -> None:
    write(talk.first, b"Goodbye\n")
    assert talk.first.read_bytes() == b"Goodbye\n"
    assert talk.new_versions == 1
    assert '"content": "Goodbye"' in (talk.root / ".records" / "00001.json").read_text()


def test_a_mapped_file_is_saved(talk: Talk) -> None:
    with open(talk.first, "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    at = mapped.find(b"Hello")
    mapped[at : at + 5] = b"Jello"
    mapped.flush()
    mapped.close()
    until(lambda: talk.new_versions == 1)
    assert b"Jello" in talk.first.read_bytes()


def test_a_file_can_be_truncated_by_name(talk: Talk) -> None:
    before = talk.first.read_bytes()
    os.truncate(talk.first, len(before) - len(" there\n"))
    assert talk.first.read_bytes() == before[: -len(" there\n")]
    until(lambda: talk.new_versions == 1)
    assert '"content": "Hello"' in (talk.root / ".records" / "00001.json").read_text()
    os.truncate(talk.first, 0)
    with open(talk.first, "r+b") as file:
        file.write(b"Goodbye\n")
    assert talk.first.read_bytes() == b"Goodbye\n"
    assert talk.new_versions == 2


def test_what_is_too_large_is_refused_at_once(talk: Talk) -> None:
    for size in (1 << 30, 10**15, (1 << 63) - 1):
        assert errno_of(lambda size=size: os.truncate(talk.first, size)) == errno.EFBIG
    with open(talk.first, "r+b", buffering=0) as file:
        assert errno_of(lambda: file.truncate(10**15)) == errno.EFBIG
        assert errno_of(lambda: os.pwrite(file.fileno(), b"x", 10**12)) == errno.EFBIG
    assert talk.new_versions == 0


def test_of_two_programs_the_later_one_is_told(talk: Talk) -> None:
    before = talk.first.read_bytes()
    one = open(talk.first, "wb", buffering=0)  # noqa: SIM115
    other = open(talk.first, "wb", buffering=0)  # noqa: SIM115
    one.write(before.replace(b"Hello", b"One"))
    other.write(before.replace(b"Hello", b"Other"))
    one.close()
    until(lambda: talk.new_versions == 1)
    assert errno_of(other.close) == errno.ESTALE
    assert b"Other" in (talk.events / f"{FIRST}.draft").read_bytes()
    until(lambda: b"One" in talk.first.read_bytes())
    assert talk.new_versions == 1


def test_what_stays_open_is_committed_after_a_while(talk: Talk) -> None:
    with open(talk.first, "r+b", buffering=0) as file:
        text = changed(talk.first)
        file.write(text)
        file.truncate(len(text))
        os.close(os.dup(file.fileno()))
        assert talk.new_versions == 0
        until(lambda: talk.new_versions == 1)
        assert talk.first.read_bytes() == text
    assert talk.new_versions == 1


# -- by renaming -------------------------------------------------------------------------------------------------------


def test_a_file_renamed_onto_an_event_is_an_edit(talk: Talk) -> None:
    text = changed(talk.first)
    old = open(talk.first, "rb")  # noqa: SIM115
    temporary = talk.events / "new.tmp"
    write(temporary, text)
    ino = temporary.stat().st_ino
    os.utime(temporary, ns=(1_700_000_000_000_000_000, 1_700_000_000_000_000_000))
    os.rename(temporary, talk.first)
    assert talk.first.read_bytes() == text
    assert talk.new_versions == 1
    assert talk.first.stat().st_ino == ino
    assert talk.first.stat().st_mtime_ns == 1_700_000_000_000_000_000
    assert talk.listed == [FIRST, "00002-assistant.md", LAST]
    talk.mount.shell(f"ls -la {talk.events}")
    assert talk.first.stat().st_ino == ino
    # whoever has the old one open keeps it
    assert b"Hello" in old.read()
    assert os.fstat(old.fileno()).st_ino != ino
    old.close()
    write(talk.first, changed(talk.first, "Goodbye", "Hello"))
    assert talk.new_versions == 2


def test_renaming_again_and_again(talk: Talk) -> None:
    for number in range(12):
        write(talk.events / "tmp", f"text {number}\n".encode())
        os.rename(talk.events / "tmp", talk.first)
        assert talk.first.read_bytes() == b"text %d\n" % number
        assert talk.new_versions == number + 1
        inodes = [path.stat().st_ino for path in talk.events.iterdir()]
        assert len(set(inodes)) == len(inodes) == 3


def test_a_rename_of_what_does_not_parse_is_refused_and_kept(talk: Talk) -> None:
    before = talk.first.read_bytes()
    write(talk.events / "tmp", b"---\nwrong")
    assert errno_of(lambda: os.rename(talk.events / "tmp", talk.first)) == errno.EINVAL
    assert (talk.events / f"{FIRST}.draft").read_bytes() == b"---\nwrong"
    assert talk.first.read_bytes() == before
    write(talk.events / "empty", b"")
    assert errno_of(lambda: os.rename(talk.events / "empty", talk.first)) == errno.EINVAL
    assert talk.first.read_bytes() == before
    assert talk.new_versions == 0


def test_a_renamed_file_that_is_still_open_edits_the_event(talk: Talk) -> None:
    with open(talk.events / "tmp", "wb", buffering=0) as file:
        file.write(b"one\n")
        os.rename(talk.events / "tmp", talk.first)
        assert talk.new_versions == 1
        file.write(b"two\n")
    assert talk.first.read_bytes() == b"one\ntwo\n"
    assert talk.new_versions == 2


def test_what_takes_the_place_of_another_keeps_its_number(talk: Talk) -> None:
    """Though the disk below gives the number to the next file, once what had it is moved away."""
    backup, beside = talk.events / "backup", [talk.events / f"beside-{number}" for number in range(3)]
    for number in range(5):
        text = b"text %d\n" % number
        write(talk.events / "tmp", text)
        os.rename(talk.events / "tmp", talk.first)
        os.rename(talk.first, backup)
        for path in beside:
            write(path, path.name.encode())
        write(talk.first, text + b"and more\n")
        inodes = [path.stat().st_ino for path in talk.events.iterdir()]
        assert len(set(inodes)) == len(inodes)
        assert [path.read_bytes() for path in beside] == [path.name.encode() for path in beside]
        assert backup.read_bytes() == text
        assert talk.first.read_bytes() == text + b"and more\n"
        for path in (backup, *beside):
            path.unlink()
    assert talk.new_versions == 10


def test_one_that_has_another_name_too(talk: Talk) -> None:
    write(talk.events / "tmp", b"one\n")
    os.link(talk.events / "tmp", talk.events / "other")
    os.rename(talk.events / "tmp", talk.first)
    time.sleep(1.2)  # names of scratch files are believed for a second
    write(talk.events / "other", b"two\n")
    assert talk.first.read_bytes() == b"one\n"
    assert (talk.events / "other").read_bytes() == b"two\n"
    assert talk.new_versions == 1


@pytest.mark.parametrize(
    "command", ["sed -i s/Hello/Goodbye/ {}", "perl -pi -e s/Hello/Goodbye/ {}", "perl -pi.orig -e s/Hello/Goodbye/ {}"]
)
def test_commands_that_edit_in_place(talk: Talk, command: str) -> None:
    text = changed(talk.first)
    talk.shell(command.format(FIRST))
    assert talk.first.read_bytes() == text
    assert talk.new_versions == 1
    talk.shell(f"rm -f {FIRST}.orig")
    assert talk.listed == [FIRST, "00002-assistant.md", LAST]


def test_sed_over_all_events(talk: Talk) -> None:
    talk.shell("sed -i 's/e/E/g; 1,/^---$/s/E/e/g; 2,5s/E/e/g' *.md", check=False)
    assert talk.listed[:3] == [FIRST, "00002-assistant.md", LAST]


def test_flags_of_rename(talk: Talk) -> None:
    write(talk.events / "tmp", b"x\n")
    exchanged = talk.mount.run("mv", "--exchange", str(talk.events / "tmp"), str(talk.first), check=False)
    assert exchanged.returncode != 0
    talk.mount.run("mv", "-n", str(talk.events / "tmp"), str(talk.first), check=False)
    assert "tmp" in talk.listed
    assert talk.new_versions == 0


# -- and then ----------------------------------------------------------------------------------------------------------


def test_a_saved_event_is_there_after_a_restart(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, LINES)
    with mounted(store_path) as mount:
        write(Talk(mount).first, b"Goodbye\n")
    with mounted(store_path) as mount:
        talk = Talk(mount)
        assert talk.first.read_text().startswith("---\nevent: 1\n")
        assert talk.first.read_text().endswith("---\nGoodbye\n")
        talk.check()


# -- as on any other file system ---------------------------------------------------------------------------------------

_RESULT = [{"type": "tool_result", "tool_use_id": "c", "content": "out"}]
_EVERY_KIND = [
    user("Hello", 1),
    assistant("Hi", 2),
    json.dumps({"type": "user", "isMeta": True, "message": {"role": "user", "content": "Skill"}}),
    json.dumps({"type": "user", "message": {"role": "user", "content": _RESULT}}),
    json.dumps({"type": "summary", "summary": "All", "leafUuid": "u"}),
    json.dumps({"type": "system", "subtype": "informational", "content": "Note"}),
    json.dumps({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "In a list"}]}}),
]


def test_echo_onto_events_of_every_kind(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, _EVERY_KIND)
    with mounted(store_path) as mount:
        talk = Talk(mount)
        assert len(talk.listed) == len(_EVERY_KIND)
        for number, name in enumerate(talk.listed, 1):
            path = talk.events / name
            talk.shell(f"echo > {name}")
            assert path.read_bytes() == b"\n", name
            assert talk.new_versions == 2 * number - 1
            talk.shell(f"printf 'a text\\nof two lines\\n' > {name}")
            assert path.read_bytes() == b"a text\nof two lines\n"
            assert talk.new_versions == 2 * number
            assert "a text\\nof two lines" in (talk.root / ".records" / f"{number:05}.json").read_text()
        assert len(talk.listed) == len(_EVERY_KIND)
        for name in talk.listed:
            talk.shell(f"echo > {name}")
        talk.check()
    with mounted(store_path) as mount:
        # drawn again, each is its head alone
        talk = Talk(mount)
        for name in talk.listed:
            assert (talk.events / name).read_text().endswith("\n---\n\n"), name


def test_a_listing_of_the_file_that_is_written(talk: Talk) -> None:
    before = talk.first.read_bytes()
    talk.shell(f"{{ printf one; ls -l {FIRST}; printf two; }} >> {FIRST}")
    after = talk.first.read_bytes()
    assert after.startswith(before + b"one-rw")
    assert after.endswith(FIRST.encode() + b"\ntwo")
    assert f" {len(before) + 3} " in after[len(before) :].decode()
    assert talk.new_versions == 1
