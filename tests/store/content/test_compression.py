import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.content.compression import GROUP_BYTES, Member, pack_delta, pack_records, pack_single
from store.content.delta import difference
from store.content.shelf import OpenRecord
from store.content.zstd import Dictionary, veil
from store.disk.blob_format import Chunk, Compression, Form, Record, codec, decode_record, encode_chunks, encode_record
from store.errors import DamageError
from store.ids import Hash, hash_bytes
from tests.store.content.noise import noise

TRAINED = b"\x37\xa4\x30\xec" + bytes(200)
WORDS = Dictionary(b'{"type":"assistant","message":{"role":"assistant","content":[' * 30)


def member(body: bytes, form: Form = Form.PLAIN) -> Member:
    return Member(hash_bytes(body), form, len(body), body)


def unpacked(record: bytes) -> tuple[Record, dict[Hash, tuple[int, int, bytes]]]:
    decoded = decode_record(memoryview(record))

    def dictionary(digest: Hash) -> Dictionary:
        assert digest == WORDS.hash
        return WORDS

    opened = OpenRecord(decoded, dictionary)
    return decoded, {digest: (entry[0], entry[1], opened.body(entry)) for digest, entry in opened.members.items()}


@given(
    st.lists(st.binary(max_size=300) | st.binary(max_size=30).map(lambda data: data * 700), unique=True),
    st.booleans(),
)
def test_what_is_packed_is_unpacked(bodies: list[bytes], with_dictionary: bool) -> None:
    members = [Member(hash_bytes(body), Form(len(body) % 2), 3 * len(body), body) for body in bodies]
    found: dict[Hash, tuple[int, int, bytes]] = {}
    order: list[Hash] = []
    for record, hashes in pack_records(members, (WORDS.hash, WORDS.data) if with_dictionary else None):
        decoded, blobs = unpacked(record)
        assert list(blobs) == hashes
        if decoded.compression in (Compression.GROUP, Compression.GROUP_DICT):
            assert hash_bytes(b"".join(body for _, _, body in blobs.values())) == decoded.hash
        found |= blobs
        order += hashes
    assert found == {each.hash: (each.form, each.raw_len, each.body) for each in members}
    assert sorted(order) == sorted(each.hash for each in members)


def test_small_bodies_share_a_record_in_order() -> None:
    members = [member(b"line %d of many" % number) for number in range(100)]
    [(record, hashes)] = pack_records(members)
    assert hashes == [each.hash for each in members]
    assert decode_record(memoryview(record)).compression == Compression.GROUP


def test_groups_have_a_size() -> None:
    members = [member(b"%06d" % number * 500) for number in range(200)]
    sizes = [sum(len(body) for _, _, body in unpacked(record)[1].values()) for record, _ in pack_records(members)]
    assert all(GROUP_BYTES <= size < GROUP_BYTES + 3000 for size in sizes[:-1])


def test_one_body_alone_is_no_group() -> None:
    [(record, hashes)] = pack_records([member(b"alone")])
    decoded = decode_record(memoryview(record))
    assert (decoded.compression, decoded.hash, decoded.raw_len) == (Compression.ZSTD, hash_bytes(b"alone"), 5)
    assert hashes == [decoded.hash]


def test_nothing_is_packed_into_nothing() -> None:
    assert pack_records([]) == []


@pytest.mark.parametrize(
    "body", [pytest.param(b"text " * 60_000, id="large"), pytest.param(os.urandom(9000), id="binary"), TRAINED]
)
def test_some_bodies_stand_alone(body: bytes) -> None:
    around = [member(b"before"), member(body), member(b"behind")]
    records = pack_records(around, (WORDS.hash, WORDS.data))
    assert sorted(len(hashes) for _, hashes in records) == [1, 2]
    alone = next(record for record, hashes in records if hashes == [hash_bytes(body)])
    assert decode_record(memoryview(alone)).compression in (Compression.ZSTD, Compression.RAW)


def test_little_is_compressed_with_the_dictionary_and_much_without() -> None:
    dictionary = (WORDS.hash, WORDS.data)
    little = [member(b'{"type":"assistant","message":{"role":"assistant","content":[%d' % n) for n in range(3)]
    [(with_it, _)] = pack_records(little, dictionary)
    [(without, _)] = pack_records(little)
    assert decode_record(memoryview(with_it)).compression == Compression.GROUP_DICT
    assert len(with_it) < len(without)
    [(alone, _)] = pack_records(little[:1], dictionary)
    assert decode_record(memoryview(alone)).compression == Compression.ZSTD_DICT
    [(much, _)] = pack_records([member(b"%05d" % number * 100) for number in range(100)], dictionary)
    assert decode_record(memoryview(much)).compression == Compression.GROUP


def test_binary_content_that_does_not_shrink_is_stored_raw() -> None:
    noise = os.urandom(5000)
    assert packed(noise).compression == Compression.RAW
    assert packed(bytes(5000)).compression == Compression.ZSTD
    [(record, _)] = pack_records([member(noise)])
    assert unpacked(record)[1] == {hash_bytes(noise): (Form.PLAIN, 5000, noise)}


def packed(data: bytes) -> Record:
    return decode_record(memoryview(pack_single(member(data))))


def test_text_is_always_compressed() -> None:
    assert packed(b"a").compression == Compression.ZSTD
    assert packed(b"").compression == Compression.ZSTD


SECRETS = (b"hunter2", b"the passphrase is battery staple", "pässwörter sind geheim".encode())


@pytest.mark.parametrize("with_dictionary", [False, True])
@pytest.mark.parametrize(
    "around", [b"", b'{"type":"user","message":{"role":"user","content":', os.urandom(7000), bytes(7000)]
)
def test_content_does_not_show_in_a_record(around: bytes, with_dictionary: bool) -> None:
    """Not a line of text alone, nor in what is known from the dictionary, nor among what does not shrink."""
    dictionary = (WORDS.hash, WORDS.data) if with_dictionary else None
    for count in (1, 2, 18):
        members = [member(around + secret + b"%d" % number) for number in range(count) for secret in SECRETS]
        for some in ([each] for each in members) if count == 1 else [members]:
            for record, _ in pack_records(some, dictionary):
                assert not [secret for secret in SECRETS if secret in record]
                found = {digest: body for digest, (_, _, body) in unpacked(record)[1].items()}
                assert found == {each.hash: each.body for each in some if each.hash in found}


def test_a_skeleton_does_not_show_what_it_keeps() -> None:
    body = bytes([200, 0, 1]) + b"my secret"
    record = pack_single(Member(hash_bytes(b"x"), Form.SKELETON, 500, body))
    assert b"secret" not in record
    assert [entry[2] for entry in unpacked(record)[1].values()] == [body]


@pytest.mark.parametrize("around", [b"", b"[%d]" * 9, os.urandom(7000), bytes(7000), noise(30_000)])
def test_a_delta_does_not_show_what_is_fresh_in_it(around: bytes) -> None:
    for secret in SECRETS:
        base, data = around + b"\n" + around, around + secret + around
        record = decode_record(memoryview(pack_delta(member(data), hash_bytes(base), difference(base, data))))
        assert secret not in bytes(record.stored)
        opened = OpenRecord(record, lambda _digest: WORDS)
        with pytest.raises(DamageError):
            opened.body(opened.members[record.hash])
        opened.patch(base)
        assert opened.body(opened.members[record.hash]) == data


@given(st.binary(max_size=400), st.binary(min_size=32, max_size=32))
def test_a_veil_is_lifted_by_another(data: bytes, digest: bytes) -> None:
    veiled = veil(data, Hash(digest))
    assert veil(memoryview(veiled), Hash(digest)) == data
    assert len(data) < 8 or veiled != data


def rewritten(record: bytes, **changes: object) -> Record:
    decoded = decode_record(memoryview(record))
    fields = {name: getattr(decoded, name) for name in ("codec", "raw_len", "hash", "stored")}
    return Record(**(fields | changes))


def no_dictionary(digest: Hash) -> Dictionary:
    raise AssertionError(digest)


def test_a_group_that_contradicts_itself_is_damage() -> None:
    [(record, _)] = pack_records([member(b"one"), member(b"three")])
    with pytest.raises(DamageError):
        OpenRecord(rewritten(record, raw_len=9), no_dictionary)
    stored = bytearray(decode_record(memoryview(record)).stored)
    stored[4 + 42 - 4 : 4 + 42] = (2).to_bytes(4, "little")
    shorter = OpenRecord(rewritten(record, raw_len=7, stored=memoryview(stored)), no_dictionary)
    with pytest.raises(DamageError):
        shorter.body(shorter.members[hash_bytes(b"three")])
    stored[4 + 42 - 4 : 4 + 42] = (4).to_bytes(4, "little")
    longer = OpenRecord(rewritten(record, raw_len=9, stored=memoryview(stored)), no_dictionary)
    with pytest.raises(DamageError):
        longer.body(longer.members[hash_bytes(b"three")])


def test_a_record_that_claims_more_than_any_body_has_is_damage() -> None:
    [(record, _)] = pack_records([member(b"one"), member(b"three")])
    stored = bytearray(decode_record(memoryview(record)).stored)
    stored[4 + 42 - 4 : 4 + 42] = (1 << 30).to_bytes(4, "little")
    with pytest.raises(DamageError):
        OpenRecord(rewritten(record, raw_len=(1 << 30) + 5, stored=memoryview(stored)), no_dictionary)


def test_a_single_record_holds_no_more_than_it_says() -> None:
    record = pack_single(member(b"a" * 1000))
    with pytest.raises(DamageError):
        OpenRecord(rewritten(record, raw_len=999), no_dictionary)


def test_an_open_record_takes_what_it_holds() -> None:
    noise = os.urandom(5000)
    for body in (noise, b"text " * 1000):
        for form in Form:
            record = pack_single(Member(hash_bytes(body), form, 77_000, body))
            assert OpenRecord(decode_record(memoryview(record)), no_dictionary).size == 5000
    listed = encode_chunks([Chunk(hash_bytes(b""), 1 << 31)])
    record = encode_record(codec(Compression.CHUNKS, Form.PLAIN), 1 << 31, hash_bytes(b"whole"), listed)
    assert OpenRecord(decode_record(memoryview(record)), no_dictionary).size < 100
