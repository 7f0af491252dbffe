import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.content import zstd
from store.content.compression import Member
from store.content.resolver import Resolver
from store.content.sealed import GroupSealer, SealedGroup, names_of
from store.disk import sealed_format, skeleton_format
from store.disk.blob_format import Compression, Form, Record, codec, decode_record, encode_record
from store.disk.sealed_format import Head, Table
from store.disk.skeleton_format import Spelling
from store.errors import DamageError, NotFound
from store.ids import Hash, hash_bytes
from tests.store.content.documents import documents
from tests.store.content.noise import noise
from tests.store.content.packed import Packed, check_flipped_bits, error_of, plain, taken_apart

LONG = "what a tool returned, line after line\n" * 60


def sealed(members: list[Member], records: int = 1 << 30) -> tuple[bytes, list[Hash]]:
    """Seal blobs, each once: skeletons, and the first ``records`` others, as records."""
    sealing = GroupSealer()
    for number, member in enumerate({member.hash: member for member in members}.values()):
        if member.form == Form.SKELETON or number < records:
            sealing.add_record(member)
        else:
            sealing.add_content(member)
    steps = sealing.finish()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            record: bytes = done.value[0]
            return record, done.value[1]


def payload(number: int, text: str = LONG) -> bytes:
    return json.dumps({"type": "user", "content": f"{number} {text}"}).encode()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(documents, min_size=1, max_size=8),
    st.sampled_from([0, 20, 60]),
    st.sampled_from([0, 1 << 20]),
    st.sets(st.integers(0, 20)),
    st.integers(0, 5),
)
def test_what_is_sealed_is_resolved(
    tmp_path_factory: pytest.TempPathFactory,
    payloads: list[bytes],
    limit: int,
    cache: int,
    elsewhere: set[int],
    records: int,
) -> None:
    packed = Packed(tmp_path_factory.mktemp("store") / "blobs")
    members = [member for payload in payloads for member in taken_apart(payload, limit)]
    members = list({member.hash: member for member in members}.values())
    packed.add([member for number, member in enumerate(members) if number in elsewhere])
    together = [member for number, member in enumerate(members) if number not in elsewhere]
    record, names = sealed(together, records)
    packed.add_record(record, names)
    assert names_of(decode_record(memoryview(record))) == names
    assert sorted(SealedGroup(decode_record(memoryview(record))).members(), key=lambda member: member.hash) == sorted(
        together, key=lambda member: member.hash
    )
    resolver = Resolver(packed, cache)
    expected = {hash_bytes(payload): payload for payload in payloads}
    expected |= {member.hash: member.body for member in members if member.form == Form.PLAIN}
    assert resolver.blobs(list(expected)) == expected
    for digest, data in expected.items():
        assert resolver.blob(digest) == data
        assert resolver.size(digest) == len(data)
        assert b"".join(resolver.pieces(digest)) == data
        assert resolver.part(digest, 3, 10) == data[3:13]
        assert resolver.bases(digest) == []
        resolver.check(digest)


def test_contents_of_the_same_group_are_not_looked_up(packed: Packed) -> None:
    members = [member for number in range(5) for member in taken_apart(payload(number))]
    packed.add_record(*sealed(members, 0))
    digests = [hash_bytes(payload(number)) for number in range(5)]
    assert Resolver(packed, 1 << 20).blobs(digests) == {hash_bytes(payload(n)): payload(n) for n in range(5)}
    assert packed.asked == digests
    assert packed.reads == 1


def test_what_is_named_in_a_payload_of_a_group_is_what_lies_elsewhere(packed: Packed) -> None:
    members = [member for number in range(5) for member in taken_apart(payload(number))]
    packed.add_record(*sealed(members, 0))
    digests = {hash_bytes(payload(number)) for number in range(5)}
    assert Resolver(packed, 1 << 20).parts(digests) == digests
    assert set(packed.asked) == digests


def test_names_are_said_only_where_something_lies_elsewhere() -> None:
    members = taken_apart(payload(1)) + taken_apart(payload(2))
    record, names = sealed(members, 0)
    assert not [name for name in names if name in record]
    [content, skeleton] = taken_apart(payload(3))
    record, _ = sealed([*members, skeleton], 0)
    assert content.hash in record
    assert skeleton.hash in record
    assert not [name for name in names if name in record]


def test_nothing_of_the_text_is_readable() -> None:
    members = [plain(b"hunter2 is secret"), plain(noise(9000)), *taken_apart(payload(1, LONG + "hunter2"))]
    record, names = sealed(members, 0)
    assert b"hunter2" not in record
    assert b"line after line" not in record
    assert sealed_format.decode_head(decode_record(memoryview(record)).stored).veiled
    assert names_of(decode_record(memoryview(record))) == names


def test_a_flipped_bit_is_an_error_or_nothing(packed: Packed) -> None:
    payloads = {hash_bytes(payload(number)): payload(number) for number in range(6)}
    members = [member for data in payloads.values() for member in taken_apart(data)]
    packed.add_record(*sealed(members, 0))
    check_flipped_bits(packed, payloads, 5)


def test_damaged_blobs_are_not_sealed() -> None:
    content, skeleton = taken_apart(payload(1))
    wrong = Member(content.hash, content.form, content.raw_len, content.body.replace(b"tool", b"fool"))
    for members in ([wrong], [wrong, skeleton], [content, Member(wrong.hash, Form.PLAIN, 1, b"1")]):
        with pytest.raises(DamageError):
            sealed(members, 0)


def test_the_index_may_name_a_wrong_place(packed: Packed) -> None:
    members = [plain(b"%d of some" % number) for number in range(3)]
    record, names = sealed(members)
    packed.add_record(record, names)
    (pack, offset, _member) = packed.where[names[0]][0]
    resolver = Resolver(packed, 1 << 20)
    # as where two hashes begin alike, and where the index is damaged
    packed.where[names[0]] = [(pack, offset, 1), (pack, offset, 7), (pack, offset, 0)]
    assert resolver.blob(names[0]) == b"0 of some"
    assert resolver.size(names[0]) == 9
    packed.where[hash_bytes(b"never stored")] = [(pack, offset, 1)]
    assert isinstance(error_of(resolver, hash_bytes(b"never stored")), DamageError)
    with pytest.raises(NotFound):
        resolver.size(hash_bytes(b"never stored"))


def group(table: Table, raw_len: int, *, apart: bool = False) -> Record:
    """Return a record of a sealed group of ``{}`` and ``abc`` as another program may write one."""
    bodies = (b"{}", b"abc") if apart else (b"abc{}",)
    compressed = [zstd.compress(part) for part in (sealed_format.encode_table(table), *bodies)]
    counts = (1, 1, 1, [], [], 0, len(compressed[0]))
    stretches = len(table.stretch_contents)
    head = Head(*counts, 0, len(compressed[1]), apart=True) if apart else Head(*counts, stretches)
    stored = sealed_format.encode_head(head) + b"".join(compressed)
    kind = Compression.SEALED_APART if apart else Compression.SEALED
    return decode_record(memoryview(encode_record(codec(kind, Form.PLAIN), raw_len, hash_bytes(b""), stored)))


APART: tuple[list[int], list[int]] = ([], [])
TOGETHER = ([1], [1])


@pytest.mark.parametrize("stretches", [APART, TOGETHER])
@pytest.mark.parametrize(
    ("table", "raw_len"),
    [
        pytest.param(([2], [1], [3], [0], [3], [0], [2]), 5, id="a name too many"),
        pytest.param(([2], [1], [3], [0], [3], [0], [0]), 5, id="of itself"),
        pytest.param(([2], [1], [3], [9], [3], [0], [1]), 5, id="a gap too long"),
        pytest.param(([2], [2], [3], [0], [3], [0], [1]), 5, id="a cut too few"),
        pytest.param(([2], [1], [3], [0], [3], [0], [1]), 6, id="another size"),
        pytest.param(([3], [1], [3], [0], [3], [0], [1]), 6, id="a body too long"),
        pytest.param(([2], [1], [3], [0], [4], [0], [1]), 5, id="a cut too long"),
    ],
)
def test_what_makes_no_sense_is_damage(
    table: tuple[list[int], ...], raw_len: int, stretches: tuple[list[int], list[int]]
) -> None:
    with pytest.raises(DamageError):
        SealedGroup(group(Table(*table, *stretches), raw_len, apart=stretches is APART)).names()


@pytest.mark.parametrize("stretches", [([], []), ([1], [2]), ([0, 0], [1, 0]), ([1] * 3, [0, 1, 0])])
def test_stretches_that_have_other_blobs_are_damage(stretches: tuple[list[int], list[int]]) -> None:
    with pytest.raises(DamageError, match="sealed group"):
        SealedGroup(group(Table([2], [1], [3], [1], [3], [0], [1], *stretches), 5))


@pytest.mark.parametrize("stretches", [APART, TOGETHER, ([1, 0], [0, 1])])
def test_a_group_that_makes_sense_is_read(stretches: tuple[list[int], list[int]]) -> None:
    table = Table([2], [1], [3], [1], [3], [0], [1], *stretches)
    read = SealedGroup(group(table, 5, apart=stretches is APART))
    assert read.names() == [hash_bytes(b"{abc}"), hash_bytes(b"abc")]
    assert [read.length(number) for number in range(2)] == [5, 3]
    for number in (-1, 2):
        with pytest.raises(DamageError):
            read.length(number)
    with pytest.raises(DamageError):
        read.plain(0)


@pytest.mark.parametrize("length", range(0, 90, 7))
def test_a_head_that_is_cut_off_is_damage(length: int) -> None:
    record, _ = sealed([plain(b"some")])
    stored = decode_record(memoryview(record)).stored
    if length < len(stored):
        with pytest.raises(DamageError):
            SealedGroup(Record(codec(Compression.SEALED, Form.PLAIN), 4, hash_bytes(b""), stored[:length])).names()


def test_a_head_that_claims_much_takes_no_memory() -> None:
    claims = [0xFFFF_FFFF] * 3 + [0, 0, 0, 10, 0]
    stored = b"".join(claim.to_bytes(4, "little") for claim in claims) + bytes(40)
    with pytest.raises(DamageError):
        sealed_format.decode_head(memoryview(stored))


def test_a_content_that_has_cuts_itself_is_outside() -> None:
    inner = payload(1)
    outer = skeleton_format.encode(len(inner) + 2, [(1, len(inner), Spelling.RAW, hash_bytes(inner))], [b"<", b">"])
    members = [*taken_apart(inner), Member(hash_bytes(b"<" + inner + b">"), Form.SKELETON, len(inner) + 2, outer)]
    record, names = sealed(members, 0)
    assert decode_record(memoryview(record)).stored[32:96] == hash_bytes(inner) + members[-1].hash
    assert names_of(decode_record(memoryview(record))) == names


def test_what_is_not_damaged_is_read(packed: Packed) -> None:
    payloads = {hash_bytes(data): data for data in (random.Random(number).randbytes(3000) for number in range(300))}
    packed.add_record(*sealed([plain(data) for data in payloads.values()], 0))
    path = packed.packs.path(1)
    data = bytearray(path.read_bytes())
    data[-len(data) // 3] ^= 1
    path.write_bytes(data)
    found = Resolver(packed, 0).blobs(list(payloads))
    whole = [digest for digest, payload in payloads.items() if found[digest] == payload]
    assert all(isinstance(found[digest], DamageError) for digest in payloads if digest not in whole)
    assert whole[:150] == list(payloads)[:150]
    assert len(whole) < 300


def test_who_reads_the_beginning_takes_nothing_from_who_reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [plain(noise(1000, number)) for number in range(20)]
    record, names = sealed(members)
    group = SealedGroup(decode_record(record))
    begins = zstd.beginning

    def beginning(frame: bytes | memoryview, size: int, length: int) -> bytes:
        found = begins(frame, size, length)
        # another thread, meanwhile
        assert group.plain(19) == members[19].body
        return found

    monkeypatch.setattr(zstd, "beginning", beginning)
    assert group.plain(0) == members[0].body
    assert [group.plain(number) for number in range(20)] == [member.body for member in members]
    assert len(names) == 20
