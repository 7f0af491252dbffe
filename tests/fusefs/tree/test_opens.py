"""Opens that the extension answers, and what must be as it is without: each is shown both with it and without."""

import ast
import contextlib
import ctypes
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import ClassVar

import pytest

from fusefs import opens
from fusefs.opens import REQUEST, AllAsked, Opens
from store.disk.turn_format import Encoding
from tests.fusefs.tree.mounting import TALK, Mounted, add, keep_each_save, mounted, new_store, until, user

EVENTS = 40

if opens.is_built:
    from fusefs import _opens

needs_extension = pytest.mark.skipif(not opens.is_built, reason="fusefs._opens was not built: there was no compiler")


@pytest.fixture(params=[pytest.param(True, id="in C", marks=needs_extension), pytest.param(False, id="in Python")])
def in_c(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def talk(store_path: Path, in_c: bool) -> Iterator[Mounted]:
    """A mount of one conversation whose events have been read, so that the kernel has them in its page cache."""
    with new_store(store_path) as store:
        add(store, [user(f"word{number} " * 50, number) for number in range(1, EVENTS + 1)])
    keep_each_save(store_path, f"opens_in_c = {str(in_c).lower()}")
    with mounted(store_path) as mount:
        read_all(mount)
        yield mount
        mount.check_alive()


def read_all(mount: Mounted) -> str:
    return mount.shell(f"cat {TALK}/events/*")


def answered(mount: Mounted) -> int:
    """Return the number of opens of files that Python has not been asked about."""
    return answered_by_kind(mount)[0]


def answered_by_kind(mount: Mounted) -> tuple[int, int]:
    """Return the number of opens that Python has not been asked about, of files and of directories."""
    path = mount.store.with_suffix(".answered")
    mount.tell(answered=str(path))
    files, directories = map(int, path.read_text().split())
    return files, directories


def event(number: int) -> str:
    return f"{TALK}/events/{number:05}-user.md"


def holding(mount: Mounted, path: str, then: str, script: str) -> str:
    """Run a script while a program has a file open to be read; return what it reads after (``then``: Python)."""
    program = f"import sys; file = open({path!r}); print('open', flush=True); sys.stdin.readline(); {then}"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=mount.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdin is not None
        assert held.stdout is not None
        assert held.stdout.readline() == "open\n"
        mount.shell(script)
        return held.communicate("\n", timeout=20)[0]


def test_the_second_reading_asks_python_about_no_event(talk: Mounted, in_c: bool) -> None:
    before = answered(talk)
    first = read_all(talk)
    assert answered(talk) - before == (EVENTS if in_c else 0)
    assert first == read_all(talk)
    assert "word7 word7" in first


def test_what_is_no_longer_in_the_page_cache_is_read(talk: Mounted) -> None:
    before = read_all(talk)
    for number in range(1, EVENTS + 1, 3):
        talk.shell(f"dd if={event(number)} iflag=nocache count=0 2>&1")
    assert read_all(talk) == before
    if talk.make_kernel_forget():
        assert read_all(talk) == before
        assert read_all(talk) == before


def test_an_open_file_goes_on_when_the_page_cache_is_emptied(talk: Mounted) -> None:
    told = holding(talk, event(7), "print(file.read())", f"dd if={event(7)} iflag=nocache count=0 2>&1; cat {event(7)}")
    assert told.count("word7") == 50
    assert read_all(talk).count("word7 ") == 50


def test_a_save_is_seen_by_all_who_open_after_it(talk: Mounted) -> None:
    for word in ("one", "two", "three"):
        talk.shell(f"sed -i s/word7/{word}/ {event(7)}; sed -i s/{word}/word7/2 {event(7)}")
        seen = talk.shell(f"for i in 1 2 3; do cat {event(7)}; done")
        assert seen.count(f"{word} ") == 3
        talk.shell(f"sed -i s/{word}/word7/ {event(7)}")
    assert talk.shell(f"cat {event(7)}").count("word7") == 50


def test_a_file_that_is_written_while_it_is_open(talk: Mounted) -> None:
    told = holding(talk, event(7), "print(file.read())", f"printf 'another text\\n' > {event(7)}")
    assert "another text" in told
    assert talk.shell(f"cat {event(7)}") == talk.shell(f"cat {event(7)}")
    assert "another text" in talk.shell(f"cat {event(7)}")


def test_a_file_that_is_removed_while_it_is_open(talk: Mounted) -> None:
    told = holding(talk, event(7), "print(file.read())", f"rm {event(7)}")
    assert told.count("word7") == 50
    until(lambda: not (talk.root / event(7)).exists())
    assert "word7 " not in read_all(talk)


def test_a_change_by_others_is_seen(talk: Mounted) -> None:
    talk.tell(edit=[1, {"7": user("changed by others", 7)}])
    until(lambda: "changed by others" in talk.shell(f"cat {event(7)}"))
    talk.tell(append=[1, [user("and more", EVENTS + 1)]])
    until(lambda: "and more" in read_all(talk))
    read_all(talk)
    assert read_all(talk).count("and more") == 1


def test_writing_is_never_answered_without_asking(talk: Mounted) -> None:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        script = f"import os; file = os.open({event(9)!r}, {flags}); os.write(file, b'') if {flags} & 3 else 0"
        before = answered(talk)
        talk.run(sys.executable, "-c", script)
        assert answered(talk) == before


def test_many_at_once_read_the_same(talk: Mounted) -> None:
    expected = read_all(talk)
    one = f"for j in 1 2 3 4 5; do cat {TALK}/events/* | md5sum; done"
    sums = talk.shell(f"for i in 1 2 3 4 5 6 7 8; do ({one}) & done; wait").splitlines()
    assert sums == [f"{hashlib.md5(expected.encode()).hexdigest()}  -"] * 40


def test_a_killed_reader_leaves_nothing_open(talk: Mounted) -> None:
    read_all(talk)
    for _ in range(5):
        loop = subprocess.Popen(["bash", "-c", f"while true; do cat {TALK}/events/*; done > /dev/null"], cwd=talk.root)
        talk.shell("sleep 0.1")
        loop.send_signal(signal.SIGKILL)
        loop.wait(20)
    talk.check_alive()


def test_mapped_files_are_read(talk: Mounted) -> None:
    script = f"import mmap; file = open({event(7)!r}, 'rb'); mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)"
    assert talk.run(sys.executable, "-c", f"{script}; print(mapped[:].count(b'word7'))").stdout == "50\n"


@pytest.mark.parametrize("ends", ["unmounted lazily", "killed"])
def test_the_daemon_ends_while_a_file_is_open(store_path: Path, in_c: bool, ends: str) -> None:
    with new_store(store_path) as store:
        add(store, [user(f"word{number}", number) for number in range(1, EVENTS + 1)])
    keep_each_save(store_path, f"opens_in_c = {str(in_c).lower()}")
    root = store_path.with_name("mnt")
    root.mkdir()
    mount = Mounted(store_path, root)
    try:
        read_all(mount)
        file = os.open(root / event(7), os.O_RDONLY)
        if ends == "killed":
            mount.daemon.kill()
            mount.daemon.wait(20)
        else:
            subprocess.run(["fusermount3", "-uz", str(root)], check=True, timeout=20)
        assert b"word7" in os.read(file, 1 << 20)
        # a close that a dead daemon is asked about fails
        with contextlib.suppress(OSError):
            os.close(file)
        mount.daemon.wait(20)
    finally:
        mount.destroy()
    with mounted(store_path) as again:
        assert "word7" in read_all(again)


# -- transcripts, and what directories list ----------------------------------------------------------------------------

TRANSCRIPT = "transcripts/project/2026-03-05-talk.md"
EVENTS_JSON = f"{TALK}/events.json"
BESIDE = "transcripts/project"


@pytest.fixture
def by_one_program(talk: Mounted) -> Iterator[Callable[[str, str], str]]:
    """Return a function that has one program, which goes on to run, evaluate an expression with ``path`` in it."""
    code = (
        "import sys\nfor line in sys.stdin:\n"
        "    path, _, what = line.rstrip().partition(' ')\n    print(repr(eval(what)), flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=talk.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:

        def ask(path: str, what: str) -> str:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(f"{path} {what}\n")
            program.stdin.flush()
            return str(ast.literal_eval(program.stdout.readline()))

        yield ask
        program.stdin.close()  # type: ignore[union-attr]  # it is a pipe


def change_through_the_mount(talk: Mounted) -> str:
    talk.shell(f"sed -i s/word7/altered/ {event(7)}")
    return "altered"


def change_by_others(talk: Mounted) -> str:
    talk.tell(edit=[1, {"7": user("altered by others", 7)}])
    return "altered by others"


def append_by_others(talk: Mounted) -> str:
    talk.tell(append=[1, [user("altered by what came", EVENTS + 1)]])
    return "altered by what came"


def redact(talk: Mounted) -> str:
    talk.tell(redact="word7 word7 word7")
    return "[redacted]"


CHANGES = (change_through_the_mount, change_by_others, append_by_others, redact)


@pytest.mark.parametrize("path", [TRANSCRIPT, EVENTS_JSON, event(7)])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_is_shown_as_it_is_to_who_has_read_it(
    talk: Mounted, by_one_program: Callable[[str, str], str], path: str, change: Callable[[Mounted], str], in_c: bool
) -> None:
    # what is appended is in a file that shows all
    path = TRANSCRIPT if change is append_by_others and path == event(7) else path
    reads = "[open(path).read() for _ in range(20)][-1]"
    before = by_one_program(path, reads)
    seen = answered(talk)
    assert by_one_program(path, reads) == before
    assert (answered(talk) - seen >= 18) == in_c
    held = by_one_program(path, "[globals().update(file=open(path)), open(path).read()][1]")
    assert held == before
    word = change(talk)
    assert word not in before
    until(lambda: by_one_program(path, reads) != before)
    # it has hashes in the place of texts
    assert path == EVENTS_JSON or word in by_one_program(path, reads)
    if not (path == event(7) and change is change_through_the_mount):
        # else it has another file's place
        until(lambda: by_one_program(path, "[file.seek(0), file.read()][1]") != before)
    now = by_one_program(path, reads)
    assert all(by_one_program(path, reads) == now for _ in range(3))
    if change is redact:
        assert "word7 word7" not in now


def test_a_program_that_goes_on_to_read_keeps_what_came_meanwhile(
    talk: Mounted, by_one_program: Callable[[str, str], str], in_c: bool
) -> None:
    """Text read in a transcript counts as seen, although Python was not asked about the last opens of it."""
    seen = answered(talk)
    text = by_one_program(TRANSCRIPT, "[open(path).read() for _ in range(20)][-1]")
    assert (answered(talk) - seen >= 18) == in_c
    talk.tell(append=[1, [user("came meanwhile", EVENTS + 1)]])
    until(lambda: "came meanwhile" in talk.shell(f"cat {TRANSCRIPT}"))
    assert "word7 " in text
    # saves what it has read before, with a change
    saved = text.replace("word7 ", "changed ", 1)
    by_one_program(TRANSCRIPT, f"open(path, 'w').write({saved!r})")
    until(lambda: "changed " in talk.shell(f"cat {event(7)}"))
    assert "came meanwhile" in talk.shell(f"cat {TALK}/events/*")
    # and what it has read is deleted where it saves without it
    reads = "[open(path).read() for _ in range(20)][-1]"
    until(lambda: "came meanwhile" in by_one_program(TRANSCRIPT, reads))


def test_transcripts_are_handed_over_before_they_are_read(store_path: Path, in_c: bool) -> None:
    """Who reads all has Python asked about the first of some: the others are in the page cache, as they are."""
    with new_store(store_path) as store:
        for number in range(1, 31):
            add(store, [user(f"talk{number} word{at}", at) for at in range(1, 20)], name=f"talk-{number:02}")
        while store.texts.step():
            pass
    keep_each_save(store_path, f"opens_in_c = {str(in_c).lower()}")
    with mounted(store_path) as mount:
        mount.shell(f"ls -l {BESIDE}")
        before = answered(mount)
        texts = mount.shell(f"cat {BESIDE}/*").split("\n# A talk\n")[1:]
        assert [text.count(f"talk{number} word") for number, text in enumerate(texts, 1)] == [19] * 30
        assert (answered(mount) > before) == in_c
        last = f"{BESIDE}/talk-30.md"
        assert os.path.getsize(mount.root / last) == len(mount.shell(f"cat {last}").encode())
        mount.tell(edit=[30, {"7": user("changed by others", 7)}])
        until(lambda: "changed by others" in mount.shell(f"cat {BESIDE}/*"))
        mount.tell(append=[30, [user("and more", 20)]])
        until(lambda: "and more" in mount.shell(f"cat {BESIDE}/*"))
        assert "talk30 word7" not in mount.shell(f"cat {BESIDE}/*")
        mount.shell(f"sed -i 's/talk29 word3/saved/' {BESIDE}/talk-29.md")
        assert mount.shell(f"cat {BESIDE}/*").count("saved") == 1
        if mount.make_kernel_forget():
            assert mount.shell(f"cat {BESIDE}/*").count("word19") == 30
        mount.check_alive()


@pytest.mark.parametrize("directory", [f"{TALK}/events", BESIDE])
def test_a_directory_is_listed_without_asking(talk: Mounted, directory: str, in_c: bool) -> None:
    first = talk.shell(f"ls -f {directory}")
    talk.shell(f"ls -f {directory}")
    before = answered_by_kind(talk)[1]
    assert talk.shell(f"for i in 1 2 3; do ls -f {directory}; done") == first * 3
    assert answered_by_kind(talk)[1] - before == (3 if in_c else 0)


def written(mount: Mounted) -> int:
    """Return the bytes that the daemon has written so far, to the kernel too."""
    told = Path(f"/proc/{mount.daemon.pid}/io").read_text()
    return int(told.split("wchar:")[1].split()[0])


def test_a_directory_is_kept_from_its_first_listing_on(store_path: Path, in_c: bool) -> None:
    with new_store(store_path) as store:
        add(store, [user(f"word{number}", number) for number in range(1, EVENTS + 1)])
    keep_each_save(store_path, f"opens_in_c = {str(in_c).lower()}")
    with mounted(store_path) as mount:
        first = mount.shell(f"ls -f {TALK}/events")
        before = written(mount)
        assert mount.shell(f"ls -f {TALK}/events") == first
        # a name with its attributes takes more than 100 bytes
        assert (written(mount) - before < EVENTS * 100) == in_c


def test_a_directory_that_was_read_to_its_end_is_read_again(talk: Mounted) -> None:
    """Whoever rewinds, or seeks, after the end of a listing has the same entries again, and what came meanwhile."""
    script = (
        "import ctypes, sys\n"
        "c = ctypes.CDLL(None, use_errno=True)\n"
        "c.opendir.restype = ctypes.c_void_p; c.readdir.restype = ctypes.c_void_p; c.telldir.restype = ctypes.c_long\n"
        "c.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]\n"
        "for name in ('readdir', 'telldir', 'rewinddir', 'closedir'): getattr(c, name).argtypes = [ctypes.c_void_p]\n"
        "def read(at):\n"
        "    while entry := c.readdir(at): yield ctypes.string_at(entry + 19).decode()\n"
        "at = c.opendir(sys.argv[1].encode())\n"
        "third = [next(read(at)) for _ in range(3)] and c.telldir(at)\n"
        "rest = sorted(read(at)); again = [*read(at)]\n"
        "c.seekdir(at, third); sought = sorted(read(at))\n"
        "open(sys.argv[1] + '/notes.txt', 'w').write('scratch')\n"
        "c.rewinddir(at); all_ = set(read(at)); c.closedir(at)\n"
        "print(len(rest), again, sought == rest, set(rest) < all_, 'notes.txt' in all_)"
    )
    for directory, left in ((f"{TALK}/events", EVENTS - 1), (TALK, 4)):
        for _ in range(3):
            shown = talk.run(sys.executable, "-c", script, directory).stdout
            assert shown == f"{left} [] True True True\n"
            talk.shell(f"rm {directory}/notes.txt")
    held = [os.open(talk.root / TALK, os.O_RDONLY) for _ in range(600)]
    assert {len(os.listdir(each)) for each in held} == {5}
    for each in held:
        os.close(each)
    assert len(listed(talk, TALK)) == 5


@pytest.mark.parametrize("directory", ["conversations", "transcripts"])
def test_projects_are_listed_without_asking_for_a_moment(talk: Mounted, directory: str, in_c: bool) -> None:
    listing = (
        "import os, sys, time\nlisted = set(); end = time.monotonic() + 0.5\n"
        "while time.monotonic() < end: listed.add(tuple(os.listdir(sys.argv[1])))\nprint(len(listed), listed)"
    )
    before = answered_by_kind(talk)[1]
    assert talk.run(sys.executable, "-c", listing, directory).stdout == "1 {('project',)}\n"
    assert (answered_by_kind(talk)[1] > before) == in_c
    assert listed(talk, directory) == ["project"]
    talk.shell("mkdir conversations/new")
    assert listed(talk, directory) == ["new", "project"]
    talk.tell(metadata=[1, {"project": "other"}])
    until(lambda: "other" in listed(talk, directory))
    talk.shell("rmdir conversations/new")
    assert "new" not in listed(talk, directory)
    talk.shell("rm -r conversations/other/*")
    assert len(listed(talk, directory)) == len(set(listed(talk, directory)))


def test_a_directory_that_was_opened_without_asking_is_synced(talk: Mounted) -> None:
    sync = "import os, sys; file = os.open(sys.argv[1], os.O_RDONLY); os.fsync(file); print(len(os.listdir(file)))"
    for _ in range(4):
        listed(talk, f"{TALK}/events")
        assert talk.run(sys.executable, "-c", sync, f"{TALK}/events").stdout == f"{EVENTS}\n"


def listed(talk: Mounted, directory: str) -> list[str]:
    return talk.shell(f"ls {directory}").split()


def test_names_that_come_and_go_are_listed_at_once(talk: Mounted) -> None:
    events = f"{TALK}/events"
    for _ in range(3):
        listed(talk, events)
    talk.shell(f"rm {event(7)}")
    assert "00007-user.md" not in listed(talk, events)
    talk.shell(f"echo scratch > {events}/notes.txt")
    assert "notes.txt" in listed(talk, events)
    assert "notes.txt" in listed(talk, events)
    talk.shell(f"rm {events}/notes.txt")
    assert "notes.txt" not in listed(talk, events)
    talk.shell(f"echo mine > {events}/user.md")
    until(lambda: f"{EVENTS + 1:05}-user.md" in listed(talk, events))
    for number in range(EVENTS + 2, EVENTS + 12):
        listed(talk, events)
        talk.tell(append=[1, [user(f"more {number}", number)]])
        until(lambda last=number: f"{last:05}-user.md" in listed(talk, events))
        assert f"{number:05}-user.md" in listed(talk, events)
    talk.tell(edit=[1, {"9": None}])
    until(lambda: "00009-user.md" not in listed(talk, events))
    assert len(listed(talk, events)) == len(set(listed(talk, events)))
    assert listed(talk, events) == sorted(path.name for path in (talk.root / events).iterdir())


def test_conversations_that_come_and_go_are_listed_at_once(talk: Mounted) -> None:
    for _ in range(3):
        assert listed(talk, BESIDE) == ["2026-03-05-talk.md"]
    talk.shell("mv conversations/project/2026-03-05-talk conversations/project/renamed")
    assert listed(talk, BESIDE) == ["renamed.md"]
    for _ in range(3):
        assert listed(talk, BESIDE) == ["renamed.md"]
    talk.tell(metadata=[1, {"name": "again"}])
    until(lambda: listed(talk, BESIDE) == ["again.md"])
    talk.tell(branch=[1, 1, user("a fork", 99)])
    for _ in range(3):
        listed(talk, BESIDE)
    talk.shell("rm -r conversations/project/again")
    assert "again.md" not in listed(talk, BESIDE)


def test_an_open_turn_is_listed_as_it_begins_and_grows(talk: Mounted) -> None:
    events, name = f"{TALK}/events", f"{EVENTS + 1:05}-assistant.md"
    for _ in range(3):
        listed(talk, events)
    talk.tell(open=[1, "text.assistant.v1", Encoding.RAW_BYTES])
    talk.tell(add=[0, "it begins"])
    until(lambda: name in listed(talk, events))
    until(lambda: "it begins" in talk.shell(f"cat {events}/{name}; cat {TRANSCRIPT}"))
    talk.tell(add=[0, " and goes on"])
    until(lambda: "begins and goes on" in talk.shell(f"cat {events}/{name}"))
    until(lambda: "begins and goes on" in talk.shell(f"cat {TRANSCRIPT}"))
    talk.tell(seal=0)
    for _ in range(4):
        assert name in listed(talk, events)
        assert "begins and goes on" in talk.shell(f"cat {TRANSCRIPT}")
    talk.tell(edit=[1, {str(EVENTS + 1): None}])
    until(lambda: name not in listed(talk, events))


MANY = 10_000
FIRST = 8192
"""The entries of a listing that the kernel knows whoever lists them."""


def known(mount: Mounted) -> int:
    """Return how many inodes the kernel knows."""
    path = mount.store.with_suffix(".known")
    mount.tell(known=str(path))
    return int(path.read_text())


def test_who_lists_very_many_and_looks_at_none_is_told_names(store_path: Path, in_c: bool) -> None:
    with new_store(store_path) as store:
        add(store, [user(f"word{number}", number) for number in range(1, MANY + 1)])
    keep_each_save(store_path, f"opens_in_c = {str(in_c).lower()}")
    stat_each = (
        "import os, sys\nsizes = [entry.stat().st_size for entry in os.scandir(sys.argv[1])]\n"
        "print(len(sizes), min(sizes) > 0)"
    )
    events = f"{TALK}/events"
    with mounted(store_path) as mount:
        names = sorted(mount.shell(f"ls -f {events} | grep -v '^[.]'").split())
        assert names == [f"{number:05}-user.md" for number in range(1, MANY + 1)]
        assert FIRST - 1000 < known(mount) < FIRST + 1000 if in_c else known(mount) >= MANY
        # files, all of them, and each has its own number
        assert mount.shell(f"find {events} -type f -printf '%i\\n' | sort -u | wc -l") == f"{MANY}\n"
        assert mount.shell(f"cat {events}/{names[-1]}").count(f"word{MANY}") == 1
        if mount.make_kernel_forget():
            assert known(mount) < FIRST
        assert mount.run(sys.executable, "-c", stat_each, events).stdout == f"{MANY} True\n"
        assert known(mount) >= MANY
        if mount.make_kernel_forget():
            assert known(mount) < MANY
        mount.check_alive()


def test_an_extension_of_another_version_is_not_used() -> None:
    program = (
        "import sys, types\nsys.modules['fusefs._opens'] = types.ModuleType('fusefs._opens')\n"
        "from fusefs import opens\nprint(opens.is_built, opens.answered())"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60) == "False None\n"


# -- requests and answers, without a kernel ----------------------------------------------------------------------------

OPEN, FLUSH, RELEASE, READ, OPENDIR, RELEASEDIR = 14, 25, 18, 15, 27, 29
IN, OPEN_IN, OUT, OPEN_OUT = Struct("<IIQQIIIHH"), Struct("<II"), Struct("<IiQ"), Struct("<QII")
KEEP_CACHE_NO_FLUSH = 1 << 1 | 1 << 5
KEEP_ENTRIES = 1 << 1 | 1 << 3


class Buffer(ctypes.Structure):
    """libfuse's struct fuse_buf."""

    _fields_: ClassVar = [
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("memory", ctypes.c_void_p),
        ("fd", ctypes.c_int),
        ("position", ctypes.c_long),
    ]


class Line:
    """The extension between two programs: this one as the kernel, and as pyfuse3."""

    def __init__(self) -> None:
        made = opens.answered()
        assert made is not None
        self.opens = made
        self.kernel, self.device = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.kernel.setblocking(False)
        self.device.setblocking(False)
        self._receive = ctypes.CDLL(_opens.__file__).fuse_session_receive_buf
        self._buffer = Buffer()
        self.unique = 0

    def close(self) -> None:
        self.kernel.close()
        self.device.close()

    def ask(self, opcode: int, ino: int, body: bytes) -> bytes | None:
        """Return the body of the answer, None if the request was left to pyfuse3."""
        self.unique += 2
        return self.send(IN.pack(IN.size + len(body), opcode, self.unique, ino, 0, 0, 1, 0, 0) + body)

    def send(self, request: bytes) -> bytes | None:
        self.kernel.send(request)
        if self.opens.turn(self.device.fileno(), 0) == REQUEST:
            assert self._receive(None, ctypes.byref(self._buffer)) == len(request) == self._buffer.size
            assert ctypes.string_at(self._buffer.memory, len(request)) == request
            with pytest.raises(BlockingIOError):
                self.kernel.recv(1 << 16)
            return None
        answer = self.kernel.recv(1 << 16)
        length, error, unique = OUT.unpack_from(answer)
        assert (length, error, unique) == (len(answer), 0, self.unique)
        return answer[OUT.size :]

    def open(self, ino: int, flags: int = os.O_RDONLY) -> int | None:
        answer = self.ask(OPEN, ino, OPEN_IN.pack(flags, 0))
        if answer is None:
            return None
        handle, how, _rest = OPEN_OUT.unpack(answer)
        assert how == KEEP_CACHE_NO_FLUSH
        return int(handle)

    def release(self, handle: int, opcode: int = RELEASE) -> bool:
        """Return whether it was answered."""
        answer = self.ask(opcode, 1, Struct("<QIIQ").pack(handle, 0, 0, 0))
        assert answer in {None, b""}
        return answer is not None


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.close()


@needs_extension
def test_only_reading_of_what_was_noted_is_answered(line: Line) -> None:
    assert line.open(7) is None
    line.opens.note(7)
    assert line.open(8) is None
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        assert line.open(7, flags) is None
    handle = line.open(7, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    assert handle is not None
    assert line.opens.is_open(7)
    assert line.ask(READ, 7, Struct("<QQIIQII").pack(handle, 0, 4096, 0, 0, 0, 0)) is None
    assert line.release(handle, FLUSH)
    assert line.release(handle)
    assert not line.opens.is_open(7)
    assert not line.release(handle), "it is not open any more"
    line.opens.pause(1)
    assert line.open(7) is None
    line.opens.pause(-1)
    line.opens.drop(7)
    assert line.open(7) is None


@needs_extension
def test_what_makes_no_sense_is_left_to_libfuse(line: Line) -> None:
    line.opens.note(7)
    whole = IN.pack(IN.size + 8, OPEN, 1, 7, 0, 0, 1, 0, 0) + OPEN_IN.pack(0, 0)
    for size in range(1, len(whole)):
        assert line.send(whole[:size]) is None
    assert line.send(whole + b"more") is None
    short = IN.pack(IN.size + 4, RELEASE, 1, 7, 0, 0, 1, 0, 0) + b"1234"
    assert line.send(short) is None
    assert line.send(IN.pack(IN.size, OPEN, 1, 7, 0, 0, 1, 0, 0)) is None
    line.opens.note_directory(9, 60_000_000)
    for opcode in {*range(64)} - {OPEN}:
        assert line.ask(opcode, 7, bytes(64)) is None
    assert line.ask(16, 7, bytes(1 << 16)) is None, "a large one"


@needs_extension
def test_a_directory_is_opened_until_something_may_change(line: Line) -> None:
    def opened() -> bool:
        answer = line.ask(OPENDIR, 9, OPEN_IN.pack(os.O_RDONLY | os.O_DIRECTORY, 0))
        if answer is None:
            return False
        handle, how, _rest = OPEN_OUT.unpack(answer)
        assert how == KEEP_ENTRIES
        return line.release(handle, RELEASEDIR)

    assert not opened()
    line.opens.note(9)
    assert not opened(), "it was noted as a file"
    for change in (1, 6, 4, 8, 9, 10, 11, 12, 13, 16, 21, 24, 35, 45, 99):
        line.opens.note_directory(9, 60_000_000)
        assert opened()
        for opcode in (1, 2, 3, 15, 17, 25, 18, 28, 44, 36, 42):
            line.ask(opcode, 9, bytes(64))
            assert opened()
        line.ask(change, 9, bytes(64))
        assert opened() == (change == 1), change
    line.opens.note_directory(9, 60_000_000)
    line.open(9, os.O_WRONLY)
    assert not opened()
    line.opens.note_directory(9, 60_000_000)
    line.opens.hold(2)
    assert not opened()
    line.opens.hold(-1)
    assert not opened()
    line.opens.hold(-1)
    assert opened()
    line.opens.pause(2)
    line.opens.pause(-1)
    assert not opened()
    line.opens.note_directory(11, 60_000_000)
    line.opens.pause(-1)
    assert opened()
    assert line.ask(OPENDIR, 11, OPEN_IN.pack(os.O_RDONLY, 0)) is None, "it was noted in a pause"
    line.opens.drop(9)
    assert not opened()
    line.opens.note_directory(9, 0)
    assert not opened()
    line.opens.note_directory(9, 50_000)
    time.sleep(0.06)
    assert not opened()


@needs_extension
def test_a_watched_file_is_opened_by_its_reader_who_is_told(line: Line) -> None:
    line.opens.watch(7, 40)
    assert line.open(7) is None
    assert line.opens.reading(2, 10_000_000) == []
    assert line.open(7) is None, "another thread asks"
    assert line.opens.reading(1, 10_000_000) == []
    assert line.open(7) is not None
    line.opens.watch(7, 41)
    for _ in range(255):
        assert line.open(7) is not None
    assert line.open(7) is None, "Python is to be told first"
    assert line.opens.reading(1, 0) == [(7, 40)] + [(7, 41)] * 255
    assert line.open(7) is None, "its time is over"
    line.opens.reading(1, 10_000_000)
    line.opens.drop(7)
    assert line.open(7) is None


@needs_extension
@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_opens_and_releases(line: Line, seed: int) -> None:
    chosen = random.Random(seed)
    inodes = [chosen.randrange(1, 1 << 53) for _ in range(3000)]
    noted: set[int] = set()
    held: dict[int, int] = {}
    for step in range(30_000):
        ino = chosen.choice(inodes)
        match chosen.choice("nnnddooooorrrai" if step < 20_000 else "ddorrra"):
            case "n":
                line.opens.note(ino)
                noted.add(ino)
            case "d":
                line.opens.drop(ino)
                noted.discard(ino)
            case "o":
                handle = line.open(ino)
                assert (handle is not None) == (ino in noted)
                if handle is not None:
                    assert handle not in held
                    assert handle >= 1 << 62
                    held[handle] = ino
            case "r" if held:
                handle = chosen.choice(list(held)) if step % 100 == 0 else next(iter(held))
                assert line.release(handle)
                del held[handle]
            case "a" if held:
                handle = next(reversed(held))
                assert line.opens.adopt(handle) == held.pop(handle)
                assert not line.release(handle)
            case "i":
                assert line.opens.is_open(ino) == (ino in held.values())
    line.opens.clear()
    assert all(line.open(ino) is None for ino in inodes)
    assert {ino for ino in inodes if line.opens.is_open(ino)} == set(held.values())


def made() -> list[Callable[[], Opens]]:
    extension = opens.answered()
    return [AllAsked, *([lambda: extension] if extension else [])]


@pytest.mark.parametrize("make", made())
def test_a_handle_that_was_not_given_cannot_be_adopted(make: Callable[[], Opens]) -> None:
    table = make()
    table.note(1)
    table.drop(1)
    table.drop(2)
    assert not table.is_open(1)
    for handle in (0, 1, 1 << 62, (1 << 64) - 2):
        with pytest.raises(KeyError):
            table.adopt(handle)
    table.clear()
