"""``artifacts/`` and ``agents/`` in a mount: written as files are, numbered, kept."""

import errno
import os
import subprocess
import threading
from pathlib import Path

import pytest

from store.events.conversation import AGENTS, ARTIFACTS
from store.ids import hash_bytes
from store.upkeep.fsck import fsck
from tests.fusefs.editing.talk import LINES, NAME, Talk
from tests.fusefs.editing.test_crashes import kill, killed
from tests.fusefs.tree.mounting import Mounted, add, errno_of, mounted, new_store, until

BUILD = b"".join(b"[%5d] compiling something_%d.c\n" % (line, line * 7919 % 65537) for line in range(60_000))


def artifacts_of(talk: Talk) -> Path:
    return talk.root / "artifacts"


def listed(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def growing(talk: Talk) -> list[str]:
    """The names of the outputs that are files on the disk."""
    folder = talk.mount.store / "scratch" / ".growing"
    return sorted(name for _, _, names in os.walk(folder) for name in names)


def settled(talk: Talk) -> None:
    """Wait until all that was written is in the store."""
    until(lambda: growing(talk) == [])


def test_what_tee_writes_gets_a_number(talk: Talk) -> None:
    assert "artifacts" not in os.listdir(talk.root)
    script = "cd .. && for word in one two; do echo $word; done 2>&1 | tee artifacts/make && ls artifacts"
    assert talk.shell(script) == "one\ntwo\n0.make.log\n"
    assert (artifacts_of(talk) / "0.make.log").read_text() == "one\ntwo\n"
    # the name that was typed leads to it
    assert (artifacts_of(talk) / "make").read_text() == "one\ntwo\n"
    assert listed(talk.root)[:2] == ["artifacts", "events"]
    settled(talk)
    assert (artifacts_of(talk) / "make").read_text() == (artifacts_of(talk) / "0.make.log").read_text() == "one\ntwo\n"
    assert talk.shell("cd ../artifacts && echo three >> make && cat 0.make.log") == "one\ntwo\nthree\n"
    settled(talk)
    assert talk.shell("cd ../artifacts && cat 0.make.log && echo again > make && cat 0.make.log") == (
        "one\ntwo\nthree\nagain\n"
    )
    assert talk.shell("cd ../artifacts && seq 3 > seq.log && echo x > out.txt && ls") == (
        "0.make.log\n1.seq.log\n2.out.txt.log\n"
    )
    assert talk.new_versions == 0
    uri = os.getxattr(artifacts_of(talk) / "1.seq.log", "user.convfs.uri")
    assert uri == b"artifact://1"


def test_agents_are_counted_apart(talk: Talk) -> None:
    talk.shell("cd ../agents && echo 1 > Explore && echo 2 > Plan.md && echo 3 > 0-Explore.Child")
    talk.shell("echo x > ../artifacts/a")
    assert listed(talk.root / "agents") == ["0-Explore.0-Child.md", "0-Explore.md", "1-Plan.md"]
    assert listed(artifacts_of(talk)) == ["0.a.log"]


def test_a_name_with_a_number_keeps_it(talk: Talk) -> None:
    directory = artifacts_of(talk)
    (directory / "7.make.log").write_text("x")
    (directory / "make").write_text("y")
    assert listed(directory) == ["7.make.log", "8.make.log"]
    assert errno_of(lambda: (directory / "7.other.log").write_text("x")) == errno.EEXIST
    assert errno_of(lambda: os.open(directory / "7.make.log", os.O_CREAT | os.O_EXCL | os.O_WRONLY)) == errno.EEXIST


def test_it_is_read_while_it_grows_and_afterwards(talk: Talk) -> None:
    directory = artifacts_of(talk)
    with (directory / "make").open("wb", buffering=0) as writer, (directory / "0.make.log").open("rb") as reader:
        half = len(BUILD) // 2
        for start in range(0, half, 70_001):
            writer.write(BUILD[start : min(start + 70_001, half)])
        assert (directory / "0.make.log").stat().st_size == half
        assert reader.read() == BUILD[:half]
        writer.write(BUILD[half:])
        assert reader.read() == BUILD[half:]
        os.fsync(writer.fileno())
    path = directory / "0.make.log"
    before = path.stat()
    settled(talk)
    until(lambda: path.stat().st_mtime_ns == before.st_mtime_ns and path.stat().st_size == len(BUILD))
    assert talk.mount.make_kernel_forget() in (True, False)
    with path.open("rb") as reader:
        for offset in (0, 1_000_000, len(BUILD) - 10, 123_457):
            reader.seek(offset)
            assert reader.read(5000) == BUILD[offset : offset + 5000]
    assert path.read_bytes() == BUILD
    assert os.getxattr(path, "user.convfs.hash") == hash_bytes(BUILD).hex().encode()


def test_ids_go_on_and_content_stays_over_a_restart(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, LINES)
    with mounted(store_path) as mount:
        talk = Talk(mount)
        (artifacts_of(talk) / "make").write_bytes(BUILD)
        (artifacts_of(talk) / "empty").touch()
        (talk.root / "agents" / "Explore").write_text("# Found")
    with mounted(store_path) as mount:
        talk = Talk(mount)
        assert growing(talk) == []
        assert listed(artifacts_of(talk)) == ["0.make.log", "1.empty.log"]
        assert (artifacts_of(talk) / "0.make.log").read_bytes() == BUILD
        assert not (artifacts_of(talk) / "make").exists()
        (artifacts_of(talk) / "make").write_text("anew")
        assert listed(artifacts_of(talk)) == ["0.make.log", "1.empty.log", "2.make.log"]
    with new_store(store_path) as store:
        assert set(store.artifacts.listed(1, AGENTS)) == {"0-Explore.md"}
        assert fsck(store) == []


def test_what_was_written_outlives_a_killed_daemon(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, LINES)

    def work(talk: Talk) -> None:
        path = artifacts_of(talk) / "make"
        writer = subprocess.Popen(["tee", path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert writer.stdin is not None
        writer.stdin.write(BUILD)
        writer.stdin.flush()
        until(lambda: path.stat().st_size >= len(BUILD) - 65536)
        kill(talk.mount)
        writer.stdin.close()
        writer.wait(10)

    killed(store_path, work)
    with mounted(store_path) as mount:
        talk = Talk(mount)
        settled(talk)
        content = (artifacts_of(talk) / "0.make.log").read_bytes()
        assert BUILD.startswith(content)
        assert len(content) >= len(BUILD) - 65536
        (artifacts_of(talk) / "make").write_text("next")
        assert listed(artifacts_of(talk)) == ["0.make.log", "1.make.log"]


def test_a_removed_one_goes_and_one_that_comes_back_stays(talk: Talk) -> None:
    directory = artifacts_of(talk)
    for name in ("a", "b", "c"):
        (directory / name).write_text(name * 10)
    settled(talk)
    with (directory / "0.a.log").open("rb") as reader:
        (directory / "0.a.log").unlink()
        assert listed(directory) == ["1.b.log", "2.c.log"]
        assert not (directory / "a").exists()
        assert (os.fstat(reader.fileno()).st_size, reader.read()) == (10, b"aaaaaaaaaa")
    (directory / "b").unlink()
    (directory / "1.b.log").write_text("anew")
    assert listed(directory) == ["1.b.log", "2.c.log"]
    fd = os.open(directory, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    settled(talk)
    assert listed(directory) == ["1.b.log", "2.c.log"]
    assert (directory / "1.b.log").read_text() == "anew"
    # one that is made again under the name is another one
    with (directory / "1.b.log").open("ab", buffering=0) as writer:
        writer.write(b"to nobody")
        (directory / "1.b.log").unlink()
        (directory / "1.b.log").write_text("third")
        settled(talk)
        writer.write(b" at all")
    assert (directory / "1.b.log").read_text() == "third"
    # never kept, it is gone at once
    with (directory / "d").open("wb") as writer:
        writer.write(b"x")
        writer.flush()
        (directory / "3.d.log").unlink()
        assert listed(directory) == ["1.b.log", "2.c.log"]
    assert listed(directory) == ["1.b.log", "2.c.log"]


def test_programs_save_them_as_they_save_files(talk: Talk) -> None:
    directory = artifacts_of(talk)
    (directory / "notes").write_text("one\ntwo\n")
    settled(talk)
    talk.shell("cd ../artifacts && sed -i s/two/three/ 0.notes.log && perl -pi -e 's/one/1/' notes")
    assert listed(directory) == ["0.notes.log"]
    assert (directory / "0.notes.log").read_text() == "1\nthree\n"
    # away, and anew, as editors do that keep a backup
    talk.shell("cd ../artifacts && mv 0.notes.log 0.notes.log~ && echo new > 0.notes.log && cat 0.notes.log~ && rm *~")
    assert listed(directory) == ["0.notes.log"]
    assert (directory / "0.notes.log").read_text() == "new\n"
    talk.shell("cd ../artifacts && printf x > .0.notes.log.swp && ls -A && rm .0.notes.log.swp")
    os.truncate(directory / "0.notes.log", 2)
    assert (directory / "0.notes.log").read_text() == "ne"
    talk.shell("echo beside > scratch && mv scratch ../artifacts/moved")
    talk.shell("cd ../artifacts && cp 1.moved.log copied")
    assert listed(directory) == ["0.notes.log", "1.moved.log", "2.copied.log"]
    assert (directory / "2.copied.log").read_text() == "beside\n"
    settled(talk)
    assert (directory / "1.moved.log").read_text() == "beside\n"
    assert talk.new_versions == 0


def test_they_are_renamed_and_moved_to_other_conversations(talk: Talk) -> None:
    directory = artifacts_of(talk)
    (directory / "make").write_bytes(BUILD)
    (directory / "test").write_text("tests")
    talk.shell("cd .. && mv artifacts/0.make.log artifacts/0.build.log && mv artifacts/1.test.log artifacts/unit")
    assert listed(directory) == ["0.build.log", "1.unit.log"]
    settled(talk)
    talk.shell("cd .. && mv artifacts/0.build.log artifacts/5.again.log && mkdir ../other")
    assert (directory / "5.again.log").read_bytes() == BUILD
    talk.shell("cd .. && mv artifacts/5.again.log artifacts/1.unit.log ../other/artifacts/")
    assert listed(directory) == []
    other = talk.root.parent / "other" / "artifacts"
    assert listed(other) == ["1.unit.log", "5.again.log"]
    assert (other / "5.again.log").read_bytes() == BUILD
    (directory / "x").write_text("x")
    talk.shell("cd .. && mv artifacts/0.x.log ../other/artifacts/1.unit.log")
    assert (other / "1.unit.log").read_text() == "x"
    settled(talk)
    assert [(other / name).read_bytes()[:5] for name in listed(other)] == [b"x", BUILD[:5]]


def test_forks_share_them_and_the_trash_keeps_them(talk: Talk) -> None:
    (artifacts_of(talk) / "make").write_bytes(BUILD)
    settled(talk)
    talk.shell("cd .. && mkdir forks/fork")
    talk.shell(f"cd ../.. && rm -r {NAME}")
    fork = talk.root.parent / "fork" / "artifacts"
    assert (fork / "0.make.log").read_bytes() == BUILD
    (fork / "make").write_text("of the fork")
    assert listed(fork) == ["0.make.log", "1.make.log"]
    assert not talk.root.exists()
    os.rename(talk.mount.root / ".convfs/trash" / NAME, talk.root)
    assert listed(artifacts_of(talk)) == ["0.make.log"]
    assert (artifacts_of(talk) / "0.make.log").read_bytes() == BUILD


def test_earlier_versions_and_metadata_show_none(talk: Talk) -> None:
    (artifacts_of(talk) / "make").write_text("x")
    settled(talk)
    version = next((talk.root / ".versions").iterdir())
    assert "artifacts" not in os.listdir(version)
    assert not (version / "artifacts").exists()
    assert "artifact" not in (talk.root / "metadata.json").read_text()


def test_one_whose_content_is_missing_is_an_error_for_its_reader_alone(talk: Talk) -> None:
    gone = {"blob": "ab" * 32, "size": 5, "modified_ns": 1}
    talk.mount.tell(metadata=[1, {"artifact/3.gone.log": gone}])
    directory = artifacts_of(talk)
    until(lambda: listed(directory) == ["3.gone.log"])
    assert (directory / "3.gone.log").stat().st_size == 5
    assert errno_of((directory / "3.gone.log").read_bytes) == errno.EIO
    assert "artifacts/3.gone.log: no blob abab" in talk.errors
    (directory / "next").write_text("x")
    assert listed(directory) == ["3.gone.log", "4.next.log"]
    (directory / "3.gone.log").unlink()


def piece(number: int) -> bytes:
    """A part of a long log, unlike all others, as long as BUILD."""
    return BUILD.replace(b"compiling", b"%09d" % number)


def large_log(mount: Mounted, size: int) -> None:
    """Write an output of ``size`` bytes, and look at everything else meanwhile; see that no memory is taken for it."""
    talk = Talk(mount)
    status = Path(f"/proc/{mount.daemon.pid}/status")

    def peak() -> int:
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10

    assert talk.first.read_text()
    before = peak()
    pieces = size // len(BUILD) + 1

    def write() -> None:
        with (artifacts_of(talk) / "make").open("wb") as file:
            for number in range(pieces):
                file.write(piece(number))

    writer = threading.Thread(target=write)
    writer.start()
    looked = 0
    while writer.is_alive() or growing(talk):
        assert talk.last.read_text().endswith("The third and last\n")
        (talk.root.parent / "note").write_text(str(looked))
        looked += 1
    writer.join()
    assert looked > 5
    assert (artifacts_of(talk) / "0.make.log").stat().st_size == pieces * len(BUILD)
    with (artifacts_of(talk) / "0.make.log").open("rb") as file:
        for at in (0, pieces // 2, pieces - 1):
            file.seek(at * len(BUILD))
            assert file.read(len(BUILD)) == piece(at)
    (talk.root.parent / "note").unlink()
    assert peak() - before < 100 << 20


@pytest.mark.parametrize("megabytes", [48, 1024] if "CONVFS_LARGE_TESTS" in os.environ else [48])
def test_a_long_log_takes_no_memory_and_nobody_waits(store_path: Path, megabytes: int) -> None:
    with new_store(store_path) as store:
        add(store, LINES)
    with mounted(store_path) as mount:
        large_log(mount, megabytes << 20)
    with new_store(store_path) as store:
        [output] = store.artifacts.listed(1, ARTIFACTS).values()
        assert output.blob is not None
        assert output.size >= megabytes << 20
