"""The head log on a real file."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.disk import head_format, head_log
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import Alias, Body, Commit, ContextCreated, Dictionary, HeadFrame, HeadMoved, Metadata
from store.disk.head_log import HeadLog
from store.errors import DamageError
from store.ids import Hash

Flip = Callable[[Path, int, int], None]
BODIES: list[Body] = [
    ContextCreated(0, 1_700_000_000_000, 0),
    Metadata(1_700_000_000_000, b'{"title":"Fix the login bug","labels":["x","y"]}'),
    HeadMoved(1, 0, 1_700_000_000_000, "append"),
    Commit(1, 1, 32, 32),
    Alias(Hash(bytes([7]) * 32), "sha256", bytes(range(32))),
    Dictionary(77, Hash(bytes([8]) * 32)),
    HeadMoved(2, 1, 1_700_000_000_001, "edit"),
    Commit(2, 1, 320, 300),
]
ENCODED = [head_format.encode(number + 1, 5, body) for number, body in enumerate(BODIES)]
OFFSETS = [HEADER_SIZE + sum(map(len, ENCODED[:number])) for number in range(len(ENCODED))]
FRAMES = [
    HeadFrame(offset, number + 1, 5, body) for number, (offset, body) in enumerate(zip(OFFSETS, BODIES, strict=True))
]
END = OFFSETS[-1] + len(ENCODED[-1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "heads.log"


@pytest.fixture
def log(path: Path, store_id: bytes) -> Iterator[HeadLog]:
    log = HeadLog(path, store_id)
    yield log
    log.close()


def test_frames_come_back(log: HeadLog, path: Path, store_id: bytes) -> None:
    assert log.length == HEADER_SIZE
    assert [log.append(frame) for frame in ENCODED] == OFFSETS
    log.sync()
    assert log.length == END
    assert list(log.frames()) == FRAMES
    assert list(log.frames(OFFSETS[3])) == FRAMES[3:]
    assert list(log.frames(END)) == []
    again = HeadLog(path, store_id)
    assert (again.length, again.damage, list(again.frames())) == (END, None, FRAMES)
    again.close()


@pytest.mark.parametrize("read_through", [1, 100, 1 << 20])
def test_the_group_of_a_frame(log: HeadLog, monkeypatch: pytest.MonkeyPatch, read_through: int) -> None:
    monkeypatch.setattr(head_log, "_READ_THROUGH", read_through)
    assert log.group_at(9) == (0, [])
    log.append(b"".join(ENCODED))
    assert [log.group_at(seq) for seq in range(10)] == [
        (0, []),
        (0, FRAMES[:1]),
        (0, FRAMES[:2]),
        (0, FRAMES[:3]),
        (1, []),
        (1, FRAMES[4:5]),
        (1, FRAMES[4:6]),
        (1, FRAMES[4:7]),
        (2, []),
        (2, []),
    ]


def test_the_group_of_a_frame_in_a_long_log(log: HeadLog) -> None:
    offset, seq = HEADER_SIZE, 0
    for turn in range(1, 6001):
        frames = []
        for body in (HeadMoved(turn, turn - 1, 5, "append"), Commit(turn, 1, 32, offset)):
            seq += 1
            frames.append(head_format.encode(seq, 1, body))
        offset = log.append(b"".join(frames)) + len(b"".join(frames))
    for turn in (1, 2, 1234, 3000, 5999, 6000):
        [frame] = log.group_at(2 * turn - 1)[1]
        assert frame.body == HeadMoved(turn, turn - 1, 5, "append")
        assert log.group_at(2 * turn) == (turn, [])


def test_the_last_group_is_found_from_the_end(log: HeadLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups as an import of many conversations makes them: of thousands of frames."""
    groups, frames = 20, 3000
    for group in range(groups):
        some = [Metadata(number, b'{"title":"A talk"}') for number in range(frames - 1)]
        for number, body in enumerate((*some, Commit(group, 1, 32, log.length)), 1):
            log.append(head_format.encode(group * frames + number, 1, body))
    read: list[int] = []
    decode = head_format.decode
    monkeypatch.setattr(head_format, "decode", lambda view, offset: read.append(offset) or decode(view, offset))
    last = groups * frames
    assert len(log.group_at(last - 1)[1]) == frames - 1
    assert log.group_at(last) == (groups - 1, [])
    assert len(read) < 5 * frames
    assert len(log.group_at(7 * frames + 10)[1]) == 10


def test_damage_within_a_group(log: HeadLog, path: Path, flip: Flip) -> None:
    log.append(b"".join(ENCODED))
    flip(path, OFFSETS[5] + 30, 1)
    assert log.group_at(4) == (1, [])
    assert log.group_at(5) == (1, FRAMES[4:5])
    for seq in (6, 7):
        with pytest.raises(DamageError, match=rf"heads\.log, offset {OFFSETS[5]}: "):
            log.group_at(seq)
    # where the group has ended, nothing of it matters
    assert log.group_at(8) == (2, [])


def test_frames_longer_than_the_window(log: HeadLog) -> None:
    bodies = [Metadata(number, bytes([number]) * size) for number, size in enumerate((3 << 20, 10, 1 << 20, 5))]
    for number, body in enumerate(bodies):
        log.append(head_format.encode(number, 1, body))
    assert [frame.body for frame in log.frames() if isinstance(frame, HeadFrame)] == bodies


def test_any_flipped_bit_costs_its_frame_alone(log: HeadLog, path: Path, flip: Flip) -> None:
    log.append(b"".join(ENCODED))
    for offset in range(HEADER_SIZE, END):
        hit = max(number for number in range(len(OFFSETS)) if OFFSETS[number] <= offset)
        for bit in range(8):
            flip(path, offset, bit)
            found = list(log.frames())
            flip(path, offset, bit)
            assert [frame for frame in found if isinstance(frame, HeadFrame)] == FRAMES[:hit] + FRAMES[hit + 1 :]
            [damage] = [damage for damage in found if isinstance(damage, Damage)]
            assert (damage.offset, damage.length) == (OFFSETS[hit], len(ENCODED[hit]))
            assert damage.reason


def test_a_damaged_header_costs_no_frame(log: HeadLog, path: Path, store_id: bytes, flip: Flip) -> None:
    log.append(b"".join(ENCODED))
    flip(path, 3, 3)
    again = HeadLog(path, store_id)
    assert again.damage is not None
    assert list(again.frames()) == FRAMES
    again.close()


def test_another_stores_file_is_refused(log: HeadLog, path: Path) -> None:
    open_files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DamageError, match="belongs to the store"):
        HeadLog(path, bytes(16))
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_a_torn_tail_is_damage_at_the_end(path: Path, store_id: bytes) -> None:
    log = HeadLog(path, store_id)
    log.append(b"".join(ENCODED))
    log.close()
    whole = path.read_bytes()
    for cut in range(HEADER_SIZE, END):
        path.write_bytes(whole[:cut])
        log = HeadLog(path, store_id)
        found = list(log.frames())
        complete = sum(offset + len(frame) <= cut for offset, frame in zip(OFFSETS, ENCODED, strict=True))
        assert found[:complete] == FRAMES[:complete]
        if cut not in OFFSETS:
            [damage] = found[complete:]
            assert isinstance(damage, Damage)
            assert (damage.offset, damage.length) == (OFFSETS[complete], cut - OFFSETS[complete])
            log.cut(damage.offset)
        log.append(ENCODED[complete])
        assert list(log.frames()) == FRAMES[: complete + 1]
        log.close()


@settings(max_examples=60)
@given(
    start=st.integers(HEADER_SIZE, END - 1),
    junk=st.binary(min_size=1, max_size=200),
)
def test_overwritten_stretches_are_read_around(
    tmp_path_factory: pytest.TempPathFactory, start: int, junk: bytes
) -> None:
    path = tmp_path_factory.mktemp("heads") / "heads.log"
    log = HeadLog(path, bytes(16))
    log.append(b"".join(ENCODED))
    before = path.read_bytes()
    junk = junk[: END - start]
    with path.open("r+b") as file:
        file.seek(start)
        file.write(junk)
    found = list(log.frames())
    log.close()
    stop = start + len(junk)
    same = junk == before[start:stop]
    spared = [
        frame
        for frame, data in zip(FRAMES, ENCODED, strict=True)
        if same or frame.offset + len(data) <= start or frame.offset >= stop
    ]
    frames = [frame for frame in found if isinstance(frame, HeadFrame)]
    # a frame may also have been hit by bytes that it had anyway
    assert all(frame in FRAMES for frame in frames)
    assert [frame for frame in frames if frame in spared] == spared
    covered = sum(found.length if isinstance(found, Damage) else len(ENCODED[FRAMES.index(found)]) for found in found)
    assert covered == END - HEADER_SIZE


def test_a_large_hole_is_read_over(log: HeadLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_log, "_SEARCH", 1000)
    log.append(ENCODED[0])
    # at every distance from where a read ends
    for end in range(3000, 4100, 7):
        log.cut(OFFSETS[1])
        assert log.cut(end) == OFFSETS[1] - end
        log.append(ENCODED[1])
        first, damage, last = log.frames()
        assert first == FRAMES[0]
        assert damage == Damage(OFFSETS[1], end - OFFSETS[1], "the length of a frame cannot be true")
        assert isinstance(last, HeadFrame)
        assert (last.offset, last.body) == (end, BODIES[1])


def test_blocks_that_cannot_be_read_are_read_around(log: HeadLog, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [
        HeadFrame(log.append(head_format.encode(number, 1, body)), number, 1, body)
        for number, body in enumerate(Metadata(number, bytes([number]) * 1000) for number in range(30))
    ]
    spared = [frame for frame in frames if frame.offset >= 12288 or frame.offset + 1034 <= 8192]
    real = os.pread

    def failing(fd: int, length: int, offset: int) -> bytes:
        if offset < 12288 and offset + length > 8192:
            raise OSError(5, "Input/output error")
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", failing)
    monkeypatch.setattr(head_log, "_SEARCH", 4096)
    found = list(log.frames())
    assert [frame for frame in found if isinstance(frame, HeadFrame)] == spared
    [damage] = [damage for damage in found if isinstance(damage, Damage)]
    assert damage.offset + damage.length == min(frame.offset for frame in spared if frame.offset >= 12288)
    assert "Input/output error" in damage.reason


def test_last_commit(log: HeadLog, path: Path, flip: Flip) -> None:
    assert log.last_commit() is None
    log.append(b"".join(ENCODED))
    assert log.last_commit() == (FRAMES[-1], END)
    flip(path, END - 1, 0)
    assert log.last_commit() == (FRAMES[3], OFFSETS[4])


def test_cut(log: HeadLog, path: Path) -> None:
    log.append(b"".join(ENCODED))
    assert log.cut(END) == 0
    assert log.cut(OFFSETS[2]) == END - OFFSETS[2]
    assert (log.length, path.stat().st_size) == (OFFSETS[2], OFFSETS[2])
    assert list(log.frames()) == FRAMES[:2]


def test_frames_that_come_meanwhile_are_not_this_pass(log: HeadLog) -> None:
    log.append(ENCODED[0])
    frames = log.frames()
    assert next(frames) == FRAMES[0]
    log.append(ENCODED[1])
    assert list(frames) == []
    assert list(log.frames()) == FRAMES[:2]
