"""Packs on real files."""

import gc
import os
import random
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.disk import blob_format, durable, file_header, pack
from store.disk.blob_format import Compression, Form, Record
from store.disk.file_header import HEADER_SIZE, PACK, Damage
from store.disk.pack import PackRemoved, PackSet
from store.errors import DamageError, FormatTooNew, StoreFailed, UsageError
from store.ids import hash_bytes
from store.paths import REWRITTEN

Flip = Callable[[Path, int, int], None]
CODEC = blob_format.codec(Compression.RAW, Form.PLAIN)


def record(content: bytes) -> bytes:
    return blob_format.encode_record(CODEC, len(content), hash_bytes(content), content)


def contents(count: int, size: int = 100) -> list[bytes]:
    source = random.Random(count * size)
    return [source.randbytes(source.randrange(size)) for _ in range(count)]


def content_of(found: object) -> bytes:
    assert isinstance(found, Record), found
    content = bytes(found.stored)
    assert found.hash == hash_bytes(content)
    assert found.raw_len == len(content)
    return content


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def packs(directory: Path, store_id: bytes) -> Iterator[PackSet]:
    packs = PackSet(directory, store_id)
    yield packs
    packs.close()


@pytest.fixture
def small(directory: Path, store_id: bytes) -> Iterator[PackSet]:
    packs = PackSet(directory, store_id, segment_bytes=1000)
    yield packs
    packs.close()


def test_records_come_back(packs: PackSet, directory: Path, store_id: bytes) -> None:
    assert packs.end == (1, HEADER_SIZE)
    first, second = record(b"first"), record(b"second")
    assert packs.append([first, second]) == [(1, HEADER_SIZE), (1, HEADER_SIZE + len(first))]
    assert packs.append([]) == []
    packs.sync()
    assert packs.end == packs.synced == (1, HEADER_SIZE + len(first) + len(second))
    assert content_of(packs.read(1, HEADER_SIZE)) == b"first"
    again = PackSet(directory, store_id)
    assert again.end == packs.end
    assert content_of(again.read(1, HEADER_SIZE + len(first))) == b"second"
    again.close()


def test_segments_roll(small: PackSet, directory: Path, store_id: bytes) -> None:
    written = [*contents(40), bytes(3000), b"after a large one"]
    places = small.append([record(content) for content in written])
    assert small.numbers() == list(range(1, small.end[0] + 1))
    assert small.end[0] > 4
    assert all((directory / f"{number:08}.pack").stat().st_size <= 1000 for number in range(1, places[40][0]))
    assert places[40][1] == HEADER_SIZE
    assert [content_of(small.read(*place)) for place in places] == written
    assert [content_of(found) for _, _, found in small.scan()] == written
    again = PackSet(directory, store_id, 1000)
    assert again.end == small.end
    more = again.append([record(b"more")] * 20)
    assert more[-1][0] > small.end[0]
    assert [content_of(again.read(*place)) for place in (*places, *more)] == [*written, *[b"more"] * 20]
    again.close()


def test_only_the_last_pack_is_ever_unsynced(small: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fdatasync
    lengths: dict[int, int] = {}

    def noted(fd: int) -> None:
        stat = os.fstat(fd)
        lengths[stat.st_ino] = stat.st_size
        real(fd)

    monkeypatch.setattr(os, "fdatasync", noted)
    small.append([record(content) for content in contents(40)])
    for number in small.numbers()[:-1]:
        stat = small.path(number).stat()
        assert lengths[stat.st_ino] == stat.st_size
    last = small.path(small.end[0]).stat()
    assert lengths[last.st_ino] == HEADER_SIZE < last.st_size
    assert small.synced < small.end
    small.sync()
    assert lengths[last.st_ino] == last.st_size
    assert small.synced == small.end


def test_nothing_new_needs_no_sync(packs: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    packs.append([record(b"x")])
    packs.sync()

    def fail(fd: int) -> None:
        raise AssertionError

    monkeypatch.setattr(durable, "fdatasync", fail)
    packs.sync()


def test_a_failed_sync_fails_for_good(packs: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    packs.append([record(b"x")])
    with monkeypatch.context() as patch:
        patch.setattr(durable, "fdatasync", fail)
        with pytest.raises(OSError, match="Input/output"):
            packs.sync()
    with pytest.raises(StoreFailed, match="opened again"):
        packs.sync()
    assert packs.synced == (1, HEADER_SIZE)


def test_a_failed_write_adds_nothing(packs: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    [place] = packs.append([record(b"first")])
    end = packs.end

    def full(fd: int, data: bytes, offset: int) -> None:
        os.pwrite(fd, data[:30], offset)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "pwrite_all", full)
        with pytest.raises(OSError, match="No space"):
            packs.append([record(b"lost")])
    assert packs.end == end
    assert packs.append([record(b"second")]) == [end]
    assert [content_of(found) for _, _, found in packs.scan()] == [b"first", b"second"]
    assert content_of(packs.read(*place)) == b"first"


def test_no_record_at_a_place(packs: PackSet) -> None:
    [(_, offset)] = packs.append([record(b"content")])
    with pytest.raises(DamageError, match=r"00000001\.pack, offset 33: no blob record begins here"):
        packs.read(1, offset + 1)
    with pytest.raises(DamageError, match="cut off after 0 bytes"):
        packs.read(1, packs.end[1])
    with pytest.raises(DamageError, match=r"00000002\.pack: the pack is missing"):
        packs.read(2, HEADER_SIZE)


def test_a_length_beyond_the_pack_takes_no_memory(packs: PackSet, directory: Path) -> None:
    [(_, offset)] = packs.append([record(b"content")])
    with (directory / "00000001.pack").open("r+b") as file:
        file.seek(offset + 12)
        file.write((100 << 20).to_bytes(4, "little"))
    real, largest = os.pread, 0

    def noted(fd: int, length: int, offset: int) -> bytes:
        nonlocal largest
        largest = max(largest, length)
        return real(fd, length, offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", noted)
        with pytest.raises(DamageError, match="beyond the end of its pack"):
            packs.read(1, offset)
        [(_, found)] = packs.read_many([(1, offset)])
        assert isinstance(found, DamageError)
        assert all(isinstance(found, Damage) for _, _, found in packs.scan())
    assert largest <= 1 << 20


def test_any_flipped_bit_costs_its_record_alone(packs: PackSet, directory: Path, flip: Flip) -> None:
    written = [b"first content", b"", b"the third", bytes(30), b"last"]
    records = list(map(record, written))
    places = packs.append(records)
    for offset in range(HEADER_SIZE, packs.end[1]):
        hit = max(number for number in range(len(places)) if places[number][1] <= offset)
        for bit in range(8):
            flip(directory / "00000001.pack", offset, bit)
            found = list(packs.scan())
            many = dict(packs.read_many(places))
            with pytest.raises(DamageError):
                packs.read(*places[hit])
            flip(directory / "00000001.pack", offset, bit)
            sound = [content_of(item) for _, _, item in found if isinstance(item, Record)]
            assert sound == written[:hit] + written[hit + 1 :]
            [damage] = [item for _, _, item in found if isinstance(item, Damage)]
            assert (damage.offset, damage.length) == (places[hit][1], len(records[hit]))
            assert isinstance(many.pop(places[hit]), DamageError)
            assert [content_of(item) for item in many.values()] == sound


@settings(max_examples=40)
@given(start=st.integers(0, 4000), junk=st.binary(min_size=1, max_size=300), seed=st.integers(0, 5))
def test_overwritten_stretches_are_read_around(
    tmp_path_factory: pytest.TempPathFactory, start: int, junk: bytes, seed: int
) -> None:
    packs = PackSet(tmp_path_factory.mktemp("packs") / "blobs", bytes(16))
    written = contents(40 + seed, 200)
    places = packs.append([record(content) for content in written])
    start += HEADER_SIZE
    with packs.path(1).open("r+b") as file:
        file.seek(start)
        file.write(junk)
    stop = start + len(junk)
    end = packs.end[1]
    found = list(packs.scan())
    sound = {(number, offset): content_of(item) for number, offset, item in found if isinstance(item, Record)}
    for place, content in zip(places, written, strict=True):
        spared = place[1] + len(record(content)) <= start or place[1] >= stop
        if spared:
            assert sound.pop(place) == content
        else:
            assert sound.pop(place, content) == content
    assert not sound
    lengths = (item.length if isinstance(item, Damage) else len(item.stored) + 52 for _, _, item in found)
    assert sum(lengths) == end - HEADER_SIZE
    packs.close()


def test_a_hole_longer_than_a_read_is_searched_through(packs: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "LONGEST_READ", 100)
    packs.append([record(b"first")])
    length = packs.end[1]
    # at every distance from where a read ends
    for end in range(1200, 1330):
        packs.cut(1, length)
        assert packs.cut(1, end) == length - end
        packs.append([record(b"behind the hole")])
        (_, _, first), (_, at, damage), (_, offset, last) = packs.scan()
        assert (content_of(first), content_of(last), offset) == (b"first", b"behind the hole", end)
        assert (at, damage) == (length, Damage(length, end - length, "no blob record begins here"))


def test_blocks_that_cannot_be_read_are_read_around(packs: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [bytes([number]) * 1000 for number in range(30)]
    places = packs.append([record(content) for content in written])
    real = os.pread

    def failing(fd: int, length: int, offset: int) -> bytes:
        if offset < 12288 and offset + length > 8192:
            raise OSError(5, "Input/output error")
        return real(fd, length, offset)

    spared = [
        content
        for (_, offset), content in zip(places, written, strict=True)
        if offset >= 12288 or offset + 1052 <= 8192
    ]
    monkeypatch.setattr(os, "pread", failing)
    monkeypatch.setattr(pack, "LONGEST_READ", 4096)
    found = [item for _, _, item in packs.scan()]
    assert [content_of(item) for item in found if isinstance(item, Record)] == spared
    [damage] = [item for item in found if isinstance(item, Damage)]
    assert "Input/output error" in damage.reason
    many = [item for _, item in packs.read_many(places)]
    assert [content_of(item) for item in many if isinstance(item, Record)] == spared
    assert len(many) == 30


def test_a_torn_tail_is_damage_at_the_end(packs: PackSet, directory: Path, store_id: bytes) -> None:
    first, second = record(b"first"), record(b"second")
    packs.append([first, second])
    path = directory / "00000001.pack"
    whole = path.read_bytes()
    for cut in range(HEADER_SIZE, len(whole)):
        path.write_bytes(whole[:cut])
        again = PackSet(directory, store_id)
        found = list(again.scan())
        complete = (cut >= HEADER_SIZE + len(first)) + 0
        assert [content_of(item) for _, _, item in found[:complete]] == [b"first"][:complete]
        torn = [offset for _, offset, item in found if isinstance(item, Damage)]
        if torn:
            assert torn == [HEADER_SIZE + complete * len(first)]
            assert again.cut(1, torn[0]) == cut - torn[0]
        assert again.append([second]) == [(1, HEADER_SIZE + complete * len(first))]
        assert [content_of(item) for _, _, item in again.scan()] == [b"first", b"second"][1 - complete :]
        again.close()


def test_cut(small: PackSet, directory: Path) -> None:
    written = contents(40)
    places = small.append([record(content) for content in written])
    sizes = sum(path.stat().st_size - HEADER_SIZE for path in directory.iterdir())
    assert small.cut(*small.end) == 0
    kept = 11
    pack_number, offset = places[kept]
    assert small.cut(pack_number, offset) == sizes - sum(len(record(content)) for content in written[:kept])
    assert small.end == (pack_number, offset)
    assert small.numbers() == list(range(1, pack_number + 1))
    assert [content_of(item) for _, _, item in small.scan()] == written[:kept]
    with pytest.raises(DamageError):
        small.read(*places[-1])
    places = small.append([record(content) for content in written[kept:]])
    assert [content_of(small.read(*place)) for place in places] == written[kept:]


def test_cut_makes_room_for_what_is_missing(packs: PackSet) -> None:
    packs.append([record(b"x")])
    assert packs.cut(3, 500) == HEADER_SIZE - 500
    assert packs.end == (3, 500)
    [place] = packs.append([record(b"behind")])
    assert place == (3, 500)
    found = [(number, item) for number, _, item in packs.scan()]
    assert [number for number, _ in found] == [1, 3, 3]
    assert [isinstance(item, Damage) for _, item in found] == [False, True, False]
    for number, length in ((0, 100), (1, HEADER_SIZE - 1)):
        with pytest.raises(UsageError):
            packs.cut(number, length)


def test_a_damaged_header_costs_no_record(packs: PackSet, directory: Path, store_id: bytes, flip: Flip) -> None:
    places = packs.append([record(b"content")])
    flip(directory / "00000001.pack", 20, 0)
    again = PackSet(directory, store_id)
    assert content_of(again.read(*places[0])) == b"content"
    header, item = again.scan()
    assert header[:2] == (1, 0)
    assert isinstance(header[2], Damage)
    assert "checksum of the file header" in header[2].reason
    assert content_of(item[2]) == b"content"
    assert [content_of(item) for _, _, item in again.scan((1, HEADER_SIZE))] == [b"content"]
    again.close()


def test_another_stores_pack_is_not_read(small: PackSet, directory: Path) -> None:
    small.append([record(content) for content in contents(40)])
    (directory / "00000002.pack").unlink()
    file_header.create(directory / "00000002.pack", PACK, bytes(16))
    with pytest.raises(DamageError, match="belongs to the store"):
        small.read(2, HEADER_SIZE)
    with pytest.raises(DamageError, match="belongs to the store"):
        PackSet(directory, bytes(16))


def test_a_newer_pack_is_said_to_be_new(packs: PackSet, directory: Path, store_id: bytes) -> None:
    path = directory / "00000001.pack"
    head = bytearray(path.read_bytes()[:28])
    head[8] = 2
    path.write_bytes(bytes(head) + zlib.crc32(head).to_bytes(4, "little"))
    with pytest.raises(FormatTooNew):
        PackSet(directory, store_id)
    with pytest.raises(FormatTooNew):
        packs.read(1, HEADER_SIZE)


def test_a_record_of_an_unknown_kind_is_passed_over(packs: PackSet) -> None:
    unknown = blob_format.encode_record(77, 3, bytes(32), record(b"not to be taken for a record of its own"))
    places = packs.append([record(b"first"), unknown, record(b"last")])
    with pytest.raises(FormatTooNew, match=r"00000001\.pack, offset"):
        packs.read(*places[1])
    first, new, last = (item for _, _, item in packs.scan())
    assert (content_of(first), content_of(last)) == (b"first", b"last")
    assert isinstance(new, Damage)
    assert (new.offset, new.length) == (places[1][1], len(unknown))


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_read_many_yields_each_place_once(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    directory = tmp_path_factory.mktemp("packs") / "blobs"
    packs = PackSet(directory, bytes(16), segment_bytes=data.draw(st.sampled_from([500, 5000, 1 << 20])))
    sizes = data.draw(st.lists(st.sampled_from([0, 10, 200, 3000, 80_000]), max_size=30))
    written = [bytes([number]) * size for number, size in enumerate(sizes)]
    places = packs.append([record(content) for content in written])
    wanted: Sequence[int] = data.draw(st.lists(st.integers(0, len(places) - 1), max_size=60)) if places else []
    asked = [places[number] for number in wanted] + [(99, 32), (1, 7)]
    found = list(packs.read_many(asked))
    assert [place for place, _ in found] == sorted(set(asked))
    for place, item in found:
        if place in ((99, 32), (1, 7)):
            assert isinstance(item, DamageError)
        else:
            assert content_of(item) == written[places.index(place)]
    packs.close()


def test_read_many_reads_what_is_near_at_once(packs: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    places = packs.append([record(content) for content in contents(500, 2000)])
    real, reads = os.pread, []

    def noted(fd: int, length: int, offset: int) -> bytes:
        reads.append(length)
        return real(fd, length, offset)

    list(packs.read_many(places[:1]))
    monkeypatch.setattr(os, "pread", noted)
    assert len(list(packs.read_many(places))) == 500
    # the second one finds the end of the file
    assert len(reads) <= 2
    reads.clear()
    # one alone: its head, then exactly itself
    [(_, found)] = packs.read_many([places[7]])
    assert reads == [48, len(content_of(found)) + 52]


def test_open_files_are_bounded(small: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_OPEN_SEGMENTS", 3)
    written = contents(200)
    places = small.append([record(content) for content in written])
    assert small.end[0] > 10
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        for place, content in zip(places, written, strict=True):
            assert content_of(small.read(*place)) == content
    assert len(os.listdir("/proc/self/fd")) <= before + 3


def test_close_leaves_no_file_open(directory: Path, store_id: bytes) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    packs = PackSet(directory, store_id, 1000)
    places = packs.append([record(content) for content in contents(40)])
    assert len(list(packs.read_many(places))) == 40
    packs.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_readers_beside_the_writer(small: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_OPEN_SEGMENTS", 2)
    written: list[tuple[tuple[int, int], bytes]] = []
    done = threading.Event()
    errors: list[BaseException] = []

    def read(seed: int) -> None:
        source = random.Random(seed)
        try:
            while not done.is_set():
                known = written[:]
                if known:
                    place, content = source.choice(known)
                    assert content_of(small.read(*place)) == content
                    some = dict(source.choices(known, k=20))
                    assert {place: content_of(item) for place, item in small.read_many(list(some))} == some
                small.sync()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for content in contents(400):
        [place] = small.append([record(content)])
        written.append((place, content))
    done.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert [content_of(item) for _, _, item in small.scan()] == [content for _, content in written]


def test_many_threads_append(small: PackSet) -> None:
    written: dict[tuple[int, int], bytes] = {}
    errors: list[BaseException] = []

    def write(seed: int) -> None:
        try:
            for content in contents(100 + seed):
                [place, again] = small.append([record(content), record(content)])
                written[place] = written[again] = content
                small.sync()
                assert small.synced >= again
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(written) == 2 * sum(100 + seed for seed in range(4))
    found = list(small.scan())
    assert {(number, offset): content_of(item) for number, offset, item in found} == written
    assert len(found) == len(written)


def test_names_that_are_no_packs_are_left_alone(packs: PackSet, directory: Path, store_id: bytes) -> None:
    for name in ("00000002.pack.new", "notes", "2.pack", "x00000003.pack"):
        (directory / name).write_bytes(b"")
    again = PackSet(directory, store_id)
    assert again.numbers() == [1]
    again.close()


def test_rewritten_packs_lie_beside_the_others(packs: PackSet, directory: Path, store_id: bytes) -> None:
    packs.append([record(b"appended")])
    assert packs.cold() == []
    packs.roll()
    packs.roll()
    assert packs.cold() == [1]
    assert packs.end == (2, HEADER_SIZE)
    assert packs.synced == (1, packs.length(1))
    writer = packs.rewrite()
    places = [writer.append(record(content)) for content in (b"one", bytes(2 << 20), b"two")]
    assert packs.numbers() == [1, 2]
    writer.finish()
    assert packs.numbers() == [1, 2, REWRITTEN + 1]
    assert packs.appended() == [1, 2]
    assert packs.cold() == [1, REWRITTEN + 1]
    assert packs.length(writer.number) == writer.length
    assert content_of(packs.read(*places[2])) == b"two"
    packs.append([record(b"more")])
    assert [number for number, _, _ in packs.scan()] == [1, 2, *[REWRITTEN + 1] * 3]
    assert [content_of(found) for _, _, found in packs.scan((2, HEADER_SIZE), packs.appended())] == [b"more"]
    again = PackSet(directory, store_id)
    assert again.end == packs.end
    other = again.rewrite()
    assert other.number == REWRITTEN + 2
    other.abandon()
    assert again.rewrite().number == REWRITTEN + 3
    again.close()


def test_an_unfinished_pack_goes_when_packs_are_opened(packs: PackSet, directory: Path, store_id: bytes) -> None:
    packs.rewrite().append(record(b"x"))
    assert (directory / "r00000001.pack.new").exists()
    PackSet(directory, store_id).close()
    assert [path.name for path in directory.iterdir()] == ["00000001.pack"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_packs_are_removed(packs: PackSet, directory: Path, store_id: bytes, overwrite: bool) -> None:
    [gone] = packs.append([record(b"a secret")])
    packs.roll()
    [kept] = packs.append([record(b"kept")])
    assert content_of(packs.read(*gone)) == b"a secret"
    kept_open = os.open(directory / "00000001.pack", os.O_RDONLY)
    packs.remove([1], overwrite=overwrite)
    assert packs.numbers() == [2]
    for _ in range(2):
        with pytest.raises(PackRemoved):
            packs.read(*gone)
    found = dict(packs.read_many([gone, kept]))
    assert isinstance(found[gone], PackRemoved)
    assert content_of(found[kept]) == b"kept"
    size = os.fstat(kept_open).st_size
    assert (b"a secret" in os.pread(kept_open, size, 0)) is not overwrite
    if overwrite:
        assert os.pread(kept_open, size, 0) == bytes(size)
        assert os.fstat(kept_open).st_blocks == 0
    os.close(kept_open)
    with pytest.raises(UsageError):
        packs.remove([2])
    again = PackSet(directory, store_id)
    assert again.end == packs.end
    assert [content_of(item) for _, _, item in again.scan()] == [b"kept"]
    # recovery may ask for what lies behind a place in a pack that is gone
    assert [content_of(item) for _, _, item in again.scan((1, 500), again.appended())] == [b"kept"]
    again.close()


def test_a_reader_of_a_pack_that_is_erased_is_sent_away(packs: PackSet, monkeypatch: pytest.MonkeyPatch) -> None:
    [gone] = packs.append([record(b"x")])
    packs.roll()
    reading = packs._segment(1)
    packs.remove([1], overwrite=True)
    monkeypatch.setattr(packs, "_segment", lambda _pack: reading)
    with pytest.raises(PackRemoved):
        packs.read(*gone)


def test_who_was_killed_while_erasing_goes_on(packs: PackSet, directory: Path, store_id: bytes) -> None:
    packs.append([record(b"a secret")])
    packs.roll()
    (directory / "00000001.pack").rename(directory / "00000001.pack.erased")
    kept_open = os.open(directory / "00000001.pack.erased", os.O_RDONLY)
    again = PackSet(directory, store_id)
    assert again.numbers() == [2]
    assert not os.pread(kept_open, 1000, 0).strip(b"\0")
    assert not (directory / "00000001.pack.erased").exists()
    os.close(kept_open)
    again.close()
