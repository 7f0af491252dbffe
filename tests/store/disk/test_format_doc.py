"""``store/FORMAT.md`` tells the truth: its examples are what the code writes, its tables add up."""

import re
import struct
import zlib
from enum import IntEnum
from pathlib import Path

import pytest
from msgspec import structs

from store.content import delta
from store.content.zstd import veil
from store.disk import (
    blob_format,
    file_header,
    head_format,
    identity,
    journal_format,
    jumps,
    sealed_format,
    skeleton_format,
    turn_format,
)
from store.disk.blob_format import Chunk, Compression, Form, Member, Stretch
from store.disk.file_header import HEADER_SIZE
from store.disk.identity import Identity
from store.disk.journal_format import Checkpoint, JournalBlob, JournalEntry, Slot
from store.disk.sealed_format import Head
from store.disk.skeleton_format import Spelling
from store.disk.turn_format import Encoding, Turn
from store.ids import Hash, hash_bytes, type_tag

DOC = (Path(blob_format.__file__).parents[1] / "FORMAT.md").read_text(encoding="utf-8")
STORE_ID = bytes(range(16))
SEED = zlib.crc32(STORE_ID)
IDENTITY = Identity(STORE_ID, 0xFE01, 0x1A2B3C, b"/home/ada/.local/share/convfs")
TIME = 1_772_739_114_356  # 2026-03-05T19:31:54.356Z

PAYLOAD = b'{"type":"user","text":"Please fix the login bug"}'
CONTENT = b"Please fix the login bug"
CUT_AT = PAYLOAD.index(b'"Please')
SKELETON = skeleton_format.encode(
    len(PAYLOAD), [(CUT_AT, 26, Spelling.JS, hash_bytes(CONTENT))], [PAYLOAD[:CUT_AT], PAYLOAD[CUT_AT + 26 :]]
)
TURN = Turn(2, 1, 1, turn_format.codec(Encoding.JSON, 1), type_tag("claude-code.line.v1"), hash_bytes(PAYLOAD), 0, TIME)
RAW = blob_format.codec(Compression.RAW, Form.PLAIN)
BODIES: dict[str, head_format.Body] = {
    "context created": head_format.ContextCreated(0, TIME, 0),
    "head moved": head_format.HeadMoved(2, 1, TIME, "append"),
    "metadata": head_format.Metadata(TIME, b'{"title":"Fix the login bug"}'),
    "type registered": head_format.TypeRegistered(TURN.type_tag, 1, "claude-code.line.v1"),
    "alias": head_format.Alias(hash_bytes(CONTENT), "sha256", bytes.fromhex("aa" * 32)),
    "dictionary": head_format.Dictionary(TURN.type_tag, hash_bytes(b"a dictionary")),
    "commit": head_format.Commit(2, 1, 32, 32),
    "superseded": head_format.Superseded(((2, 3, 1),)),
    "patched": head_format.Patched(1, 0, TIME, ((2, hash_bytes(PAYLOAD), turn_format.EDITED, TIME),), "edit 00002"),
    "appended": head_format.AppendNoted(2, TIME, b"request-0007"),
    "fs root": head_format.FsRoot(2, hash_bytes(b"a tree of files")),
    "opened": head_format.TurnOpened(TURN.type_tag, TURN.codec, TIME),
    "text added": head_format.TextAdded(12, 0, TIME, veil(b"Please fix ", hash_bytes(struct.pack("<QQ", 12, 0)))),
    "closed": head_format.Closed(12, 2),
    "deleted": head_format.Deleted(TIME),
    "versions pruned": head_format.VersionsPruned(2, TIME),
    "reclaimed": head_format.Reclaimed(((2, 1),)),
    "dropped": head_format.Dropped(3, bytes.fromhex("0117ed40c21e7c1a")),
    "held": head_format.Held(2, 1772739114356),
    "redacted": head_format.Redacted(1, 1772739114356, "patch/5f"),
}
OF_NONE = ("type registered", "alias", "dictionary", "commit", "reclaimed", "dropped", "held", "redacted")
COMMIT = head_format.encode(3, 0, BODIES["commit"])
ENTRY = JournalEntry(
    3,
    2,
    turn_format.encode(TURN),
    32,
    COMMIT,
    (1, HEADER_SIZE),
    [JournalBlob(hash_bytes(CONTENT), Form.PLAIN, len(CONTENT), CONTENT)],
)
GROUP = blob_format.encode_group_table(
    [
        Member(hash_bytes(PAYLOAD), Form.SKELETON, len(PAYLOAD), len(SKELETON)),
        Member(hash_bytes(CONTENT), Form.PLAIN, len(CONTENT), len(CONTENT)),
    ]
)
SEALED = sealed_format.Table([len(PAYLOAD) - 26], [1], [len(CONTENT)], [CUT_AT], [26], [Spelling.JS], [1], [1], [1])
LINES = CONTENT.ljust(25, b"\n") * 40
EDITED = LINES[:475] + b"Please fix the sign-in bug\n" + LINES[500:]
DELTA = delta.difference(LINES, EDITED)

EXAMPLES: dict[str, bytes] = {
    "file header": file_header.encode(file_header.TURN_LOG, STORE_ID),
    "identity": identity.encode(IDENTITY),
    "turn record": turn_format.encode(TURN),
    "jump": jumps.encode(2, 1),
    **{
        name: head_format.encode(number, int(name not in OF_NONE), body)
        for number, (name, body) in enumerate(BODIES.items(), 1)
    },
    "blob record": blob_format.encode_record(RAW, 5, hash_bytes(b"hello"), b"hello"),
    "group table": GROUP,
    "delta": blob_format.encode_delta_table(hash_bytes(LINES), DELTA.stretches) + DELTA.frame,
    "sealed head": sealed_format.encode_head(Head(1, 1, 1, [], [], 0, 40, 1)),
    "sealed table": sealed_format.encode_table(SEALED),
    "chunk table": blob_format.encode_chunks([Chunk(hash_bytes(b"a" * 65536), 65536), Chunk(hash_bytes(b"b"), 1)]),
    "skeleton": SKELETON,
    "journal entry": bytes(journal_format.frame(journal_format.entry_pieces(ENTRY), 1, 4096, SEED)),
    "checkpoint slot": journal_format.encode_slot(Slot(1, 2, Checkpoint(3, 2, 78, 1, 32))),
}


def documented() -> dict[str, bytes]:
    """Return the bytes of each example in the document; what follows two blanks on a line is a remark."""
    found = {}
    for name, block in re.findall(r"^```hex ([a-z ]+)\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE):
        assert name not in found
        found[name] = bytes.fromhex("".join(re.split(r"  +", line.strip())[0] for line in block.splitlines()))
    return found


def test_every_example_is_what_the_code_writes() -> None:
    assert documented() == EXAMPLES


def test_the_examples_are_read_back() -> None:
    found = documented()
    assert identity.decode(found["identity"], Path("identity")) == IDENTITY
    assert turn_format.decode(found["turn record"]) == TURN
    for number, (name, body) in enumerate(BODIES.items(), 1):
        frame = head_format.decode(found[name])
        assert (frame.seq, frame.body) == (number, body)
    record = blob_format.decode_record(memoryview(found["blob record"]))
    assert hash_bytes(record.stored) == record.hash
    framed = journal_format.unframe(memoryview(bytes(4096) + found["journal entry"]), 4096, SEED)
    assert framed is not None
    assert journal_format.decode_entry(framed.body) == ENTRY
    table = blob_format.decode_delta_table(found["delta"])
    assert table.base == hash_bytes(LINES)
    assert delta.apply(LINES, table.stretches, found["delta"][table.frame_offset :], len(EDITED)) == EDITED
    head = sealed_format.decode_head(memoryview(found["sealed head"] + bytes(76)))
    sealed = sealed_format.decode_table(found["sealed table"], head)
    assert [list(column) for column in structs.astuple(sealed)] == [list(column) for column in structs.astuple(SEALED)]
    skeleton = skeleton_format.decode(found["skeleton"])
    [(offset, length, spelling, digest)] = skeleton.cuts
    assert (spelling, digest) == (Spelling.JS, hash_bytes(CONTENT))
    rest = bytes(skeleton.rest)
    assert rest[:offset] + b'"' + CONTENT + b'"' + rest[offset:] == PAYLOAD
    assert length == len(CONTENT) + 2


def tables(header: str) -> list[list[list[str]]]:
    """Return the cells of each table that begins with ``header``."""
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        for block in re.findall(rf"^{re.escape(header)}\n\|[-|: ]+\|\n((?:\|.*\n)+)", DOC, re.MULTILINE)
    ]


def test_offsets_and_sizes_add_up() -> None:
    layouts = tables("| offset | size | field |")
    assert len(layouts) >= 8
    for rows in layouts:
        expected = int(rows[0][0])
        for offset, size, field in rows:
            assert offset in (str(expected), ""), (rows, field)
            if not size.isdigit():
                break  # what follows lies where this part ends
            expected += int(size)


def test_fixed_sizes() -> None:
    last_rows = (rows[-1] for rows in tables("| offset | size | field |"))
    assert [int(offset) + int(size) for offset, size, _ in last_rows if offset] == [
        HEADER_SIZE,
        turn_format.RECORD_SIZE,
        jumps.ENTRY_SIZE,
        len(blob_format.encode_group_table([Member(Hash(bytes(32)), Form.PLAIN, 1, 1)])),
        len(blob_format.encode_delta_table(Hash(bytes(32)), [Stretch(0, 0, 0)])),
        Head(0, 0, 0, [], [], 0, 0, 0).size,
        len(blob_format.encode_chunks([Chunk(Hash(bytes(32)), 1)])),
        journal_format.SLOT_SIZE,
    ]


@pytest.mark.parametrize("numbers", [Encoding, Compression, Form, Spelling])
def test_every_number_is_listed(numbers: type[IntEnum]) -> None:
    listed = [{cells[1].strip("`"): int(cells[0]) for cells in rows} for rows in tables("| number | name | meaning |")]
    assert {member.name: member.value for member in numbers} in listed


def test_every_kind_of_frame_is_listed() -> None:
    [rows] = tables("| kind | name | body |")
    kinds = {name: int.from_bytes(head_format.encode(1, 1, body)[4:6], "little") for name, body in BODIES.items()}
    assert {cells[1]: int(cells[0]) for cells in rows} == kinds


def test_every_kind_of_file_is_listed() -> None:
    magics = {value.magic.decode() for value in vars(file_header).values() if isinstance(value, file_header.FileKind)}
    assert set(re.findall(r"`(CVFS[A-Z]{4})`", DOC)) == magics


def test_the_chunking_is_the_documented_one() -> None:
    stated = re.search(r"least (\d+) KiB, average (\d+) KiB, most (\d+) KiB", DOC)
    assert stated
    assert [int(size) << 10 for size in stated.groups()] == [delta._AVERAGE // 4, delta._AVERAGE, delta._MOST]
