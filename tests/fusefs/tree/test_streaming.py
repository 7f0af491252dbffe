"""Turns that are being written, seen through the mount as they grow."""

import errno
import json
import os
import re
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.disk.turn_format import Encoding
from store.importing.importer import Importer
from tests.fusefs.tree.mounting import (
    PATIENCE,
    REPOSITORY,
    TALK,
    TRANSCRIPT,
    Mounted,
    add,
    errno_of,
    mounted,
    new_store,
    until,
    user,
)
from tests.store.service.parts import Calls

TEXT = "text.assistant.v1"


class Followed:
    """A file that ``tail -f`` follows from its beginning, and what that has printed."""

    def __init__(self, tail: "subprocess.Popen[bytes]") -> None:
        assert tail.stdout is not None
        self._out = tail.stdout.fileno()
        self.text = b""

    def until(self, text: bytes) -> float:
        """Return how many seconds later ``text`` is the end of what was printed."""
        began = time.monotonic()
        while not self.text.endswith(text):
            ready, _, _ = select.select([self._out], [], [], PATIENCE)
            assert ready, self.text
            self.text += os.read(self._out, 1 << 16)
        return time.monotonic() - began


@contextmanager
def followed(path: Path) -> Iterator[Followed]:
    """Follow a file for the time of the block."""
    with subprocess.Popen(["tail", "-c", "+1", "-s", "0.01", "-f", str(path)], stdout=subprocess.PIPE) as tail:
        try:
            yield Followed(tail)
        finally:
            tail.kill()


def test_a_transcript_is_followed_word_by_word(mount: Mounted) -> None:
    """No byte comes twice, and none is another in the end."""
    path = mount.root / TRANSCRIPT
    with followed(path) as tail:
        tail.until(b"third\n")
        for number in range(12):
            mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
            mount.tell(add=[number, "The "])
            tail.until(b"\n## %d \xc2\xb7 assistant\n\nThe " % (number + 4))
            mount.tell(add=[number, "answer\n\nis é", "\udcf0\udc9f", "\udc98\udc80"])
            tail.until("The answer\n\nis é😀".encode())
            mount.tell(add=[number, " 42."])
            tail.until(b" 42.")
            mount.tell(seal=number)
            tail.until(b" 42.\n")
        mount.tell(append=[1, [user("thanks", 5)]])
        tail.until(b"thanks\n")
        assert tail.text == path.read_bytes()


def test_each_piece_is_there_at_once(mount: Mounted) -> None:
    """Within 50 ms of being durable, that is; a busy machine is given some more."""
    path = mount.root / TRANSCRIPT
    event = mount.root / TALK / "events" / "00004-assistant.md"
    path.read_bytes()
    mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
    mount.tell(add=[0, "Word 0"])
    until(event.exists)
    late = []
    for number in range(1, 20):
        word = f" word {number}".encode()
        mount.tell(add=[0, word.decode()])
        began = time.monotonic()
        while not (path.read_bytes().endswith(word) and event.read_bytes().endswith(word)):
            assert time.monotonic() - began < PATIENCE
        late.append(time.monotonic() - began)
    assert sorted(late)[10] < 0.25, late


def test_the_last_event_grows(mount: Mounted) -> None:
    events = mount.root / TALK / "events"
    before = os.listdir(events)
    mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
    assert os.listdir(events) == before
    mount.tell(add=[0, "One"])
    until(lambda: (events / "00004-assistant.md").exists())
    assert sorted(os.listdir(events)) == [*sorted(before), "00004-assistant.md"]
    path = events / "00004-assistant.md"
    head = b"---\nevent: 4\ntype: assistant\n---\n"
    with path.open("rb", buffering=0) as held, followed(path) as tail:
        tail.until(head + b"One")
        mount.tell(add=[0, " two"])
        tail.until(b"One two")
        assert (path.stat().st_size, path.stat().st_mode & 0o777) == (len(head) + 7, 0o400)
        assert os.getxattr(path, "user.convfs.kind") == b"assistant"
        for attempt in (
            lambda: path.open("r+b").close(),
            lambda: path.write_text("mine"),
            path.unlink,
            lambda: path.rename(events / "mine"),
            lambda: os.truncate(path, 3),
        ):
            assert errno_of(attempt) in (errno.EACCES, errno.EROFS, errno.EPERM)
        mount.tell(seal=0)
        tail.until(b"One two\n")
        assert tail.text == path.read_bytes() == held.read()
    until(lambda: path.stat().st_mode & 0o777 == 0o600)
    path.write_bytes(head + b"One, two")
    assert path.read_bytes() == head + b"One, two"
    until(lambda: "One, two\n" in (mount.root / TRANSCRIPT).read_text())


def test_one_that_is_dropped_is_gone(mount: Mounted) -> None:
    before = (mount.root / TRANSCRIPT).read_bytes()
    path = mount.root / TALK / "events" / "00004-assistant.md"
    mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
    mount.tell(add=[0, "never mind"])
    until(path.exists)
    with path.open() as held:
        mount.tell(abort=0)
        until(lambda: not path.exists())
        assert errno_of(held.read) in (errno.ENOENT, errno.ESTALE)
    until(lambda: (mount.root / TRANSCRIPT).read_bytes() == before)
    mount.tell(append=[1, [user("another", 4)]])
    until(lambda: (mount.root / TALK / "events" / "00004-user.md").exists())
    assert not path.with_name("00005-assistant.md").exists()


def test_a_record_in_json_is_read_as_far_as_it_goes(mount: Mounted) -> None:
    record = json.dumps(
        {
            "type": "assistant",
            "uuid": "a4",
            "timestamp": "2026-03-05T12:00:04.000Z",
            "message": {"role": "assistant", "model": "m", "content": [{"type": "text", "text": 'Say "é\n😀" now'}]},
        }
    )
    path = mount.root / TRANSCRIPT
    mount.tell(open=[1, "claude-code.line.v1", Encoding.JSON])
    with followed(path) as tail:
        tail.until(b"third\n")
        for start in range(0, len(record), 7):
            mount.tell(add=[0, record[start : start + 7]])
        tail.until('· 2026-03-05 12:00\n\nSay "é\n😀" now'.encode())
        mount.tell(seal=0)
        tail.until(b"now\n")
        assert tail.text == path.read_bytes()


def test_what_cannot_be_read_before_it_is_whole_is_shown_then(mount: Mounted) -> None:
    before = (mount.root / TRANSCRIPT).read_bytes()
    mount.tell(open=[1, "somebody.else.v1", Encoding.MSGPACK])
    mount.tell(add=[0, "\udc81\udca1"])
    time.sleep(0.1)
    assert (mount.root / TRANSCRIPT).read_bytes() == before
    assert len(os.listdir(mount.root / TALK / "events")) == 3
    mount.tell(add=[0, "a\x01"])
    mount.tell(seal=0)
    until(lambda: "shown_as" in (mount.root / TALK / "events" / "00004-note.md").read_text())


def test_what_is_appended_meanwhile_comes_before(mount: Mounted) -> None:
    """And what is left behind by a program that died is not in the way of what comes after."""
    transcript, events = mount.root / TRANSCRIPT, mount.root / TALK / "events"
    mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
    mount.tell(add=[0, "left behind"])
    until(lambda: transcript.read_bytes().endswith(b"left behind"))
    mount.tell(append=[1, [user("fourth", 4)]])
    until(lambda: transcript.read_bytes().endswith(b"fourth\n"))
    assert "left behind" in (events / "00005-assistant.md").read_text()
    mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
    mount.tell(add=[1, "going on"])
    until(lambda: transcript.read_bytes().endswith(b"## 5 \xc2\xb7 assistant\n\ngoing on"))
    assert "going on" in (events / "00005-it.md").read_text()
    assert "left behind" in (events / "00006-it.md").read_text()
    mount.tell(add=[0, ", or not"])
    mount.tell(seal=1)
    until(lambda: transcript.read_bytes().endswith(b"going on\n"))
    mount.tell(seal=0)
    until(lambda: transcript.read_bytes().endswith(b"left behind, or not\n"))
    assert len(transcript.read_bytes()) == transcript.stat().st_size
    assert [len((events / name).read_bytes()) - (events / name).stat().st_size for name in os.listdir(events)] == [
        0
    ] * 6


def test_very_many_pieces(mount: Mounted) -> None:
    """Text that is read meanwhile is always a beginning of what there is in the end."""
    path = mount.root / TRANSCRIPT
    mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
    seen: list[bytes] = []
    writer = threading.Thread(target=lambda: mount.tell(add=[0, *(f"piece {number} " for number in range(1000))]))
    writer.start()
    while not path.read_bytes().endswith(b"piece 999 "):
        seen.append(path.read_bytes())
    writer.join()
    mount.tell(seal=0)
    until(lambda: path.read_bytes().endswith(b"piece 999 \n"))
    whole = path.read_bytes()
    assert all(whole.startswith(part) for part in seen)
    assert [len(part) for part in seen] == sorted(len(part) for part in seen)


def test_people_edit_and_write_while_a_program_does(mount: Mounted) -> None:
    events, transcript = mount.root / TALK / "events", mount.root / TRANSCRIPT
    mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
    mount.tell(add=[0, "It is"])
    until((events / "00004-assistant.md").exists)
    mount.shell(f"sed -i s/second/SECOND/ {TALK}/events/00002-*")
    mount.tell(add=[0, " going"])
    until(lambda: transcript.read_bytes().endswith(b"## 4 \xc2\xb7 assistant\n\nIt is going"))
    assert b"SECOND" in transcript.read_bytes()
    assert errno_of(lambda: (events / "00004-user.md").write_text("mine")) in (errno.EROFS, errno.EEXIST)
    (events / "user.md").write_text("Wait.\n")
    # it is appended when the last handle is gone, a little after it was closed
    until(lambda: transcript.read_bytes().endswith(b"Wait.\n"))
    mount.tell(add=[0, " on"])
    until(lambda: transcript.read_bytes().endswith(b"Wait.\n\n## 5 \xc2\xb7 assistant\n\nIt is going on"))
    assert (events / "user.md").read_text() == (events / "00004-user.md").read_text() == "Wait.\n"
    assert (events / "00005-assistant.md").read_text().endswith("It is going on")
    mount.shell(f"sed -i s/Wait/Stop/ {TALK}/events/00004-*; rm {TALK}/events/00001-*; sync {TALK}/events")
    mount.tell(add=[0, "."])
    mount.tell(seal=0)
    until(lambda: transcript.read_bytes().endswith(b"Stop.\n\n## 5 \xc2\xb7 assistant\n\nIt is going on.\n"))
    until(lambda: (events / "00005-assistant.md").read_text().endswith("---\nIt is going on.\n"))
    names = ["00002-assistant.md", "00003-user.md", "00004-user.md", "00005-assistant.md"]
    assert sorted(os.listdir(events)) == names
    assert len(transcript.read_bytes()) == transcript.stat().st_size


def test_what_is_shown_of_a_large_text_has_an_end(mount: Mounted) -> None:
    """It must not hold up those who read something else."""
    path = mount.root / TRANSCRIPT
    mount.tell(open=[1, TEXT, Encoding.RAW_BYTES])
    for _ in range(5):
        mount.tell(add=[0, "é" * 150_000])
    until(lambda: path.read_bytes().endswith("é".encode()))
    shown = path.read_bytes()
    assert 1 << 20 < len(shown) < 1_100_000
    mount.tell(seal=0)
    until(lambda: path.read_bytes().endswith("é\n".encode()))
    assert path.read_bytes().startswith(shown)
    assert len(path.read_bytes()) == len(shown) + 1_500_001 - (1 << 20)


def test_a_program_that_opens_turns_and_ends_none(store_path: Path) -> None:
    with new_store(store_path) as store:
        context = add(store, [user("first", 1)])
        for number in range(80):
            store.open_turns.open(context, TEXT).add(b"opening %d" % number)
    with mounted(store_path) as mount:
        listed = sorted(os.listdir(mount.root / TALK / "events"))
        assert (len(listed), listed[-1]) == (66, "00066-assistant.md")
        assert (mount.root / TRANSCRIPT).read_bytes().endswith(b"## 2 \xc2\xb7 assistant\n\nopening 79")


def test_people_answer_texts_with_texts(store_path: Path) -> None:
    with new_store(store_path) as store:
        context = add(store, [])
        store.contexts.append(context, b"Shall I?", TEXT, encoding=Encoding.RAW_BYTES)
    with mounted(store_path) as mount:
        events = mount.root / TALK / "events"
        (events / "user.md").write_text("Yes.\n")
        assert (events / "00002-user.md").read_text() == "Yes.\n"
        assert os.getxattr(events / "00002-user.md", "user.convfs.type") == b"text.user.v1"
        assert errno_of(lambda: (events / "config.md").write_text("x")) == errno.EINVAL


def test_the_example_of_the_page(store_path: Path) -> None:
    page = (REPOSITORY / "fusefs/LAYOUT.md").read_text().partition("### Turns that are being written")[2]
    program, example = re.findall(r"^```(?:python|console)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[:2]
    with new_store(store_path) as store:
        Importer(store).run([REPOSITORY / "fusefs/cli/demo"])
        found = store.library.find("reading-list", "2026-03-06-demo-plan-a-reading-list")
        assert found is not None
        exec(program, {"client": Calls(store), "conversation": found.id})
    with mounted(store_path) as mount:
        for step in example.split("$ ")[1:]:
            command, _, output = step.partition("\n")
            # what is shown has no newline at its end, what a terminal shows next has a line of its own
            assert mount.shell(command) == output.removesuffix("\n"), command
