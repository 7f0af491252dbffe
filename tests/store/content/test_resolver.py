import json
import os
import random
import threading
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.content.compression import Member, pack_group, pack_single
from store.content.delta import chunks
from store.content.resolver import Resolver
from store.content.zstd import Dictionary, train
from store.disk import skeleton_format
from store.disk.blob_format import Chunk, Compression, Form, encode_chunks, encode_record
from store.disk.skeleton_format import Spelling
from store.errors import DamageError, FormatTooNew, NotFound
from store.ids import Hash, hash_bytes
from tests.store.content import samples
from tests.store.content.documents import documents
from tests.store.content.packed import Packed, check_flipped_bits, error_of, plain, taken_apart

ABSENT = hash_bytes(b"absent")


def message(text: str, **more: object) -> bytes:
    return json.dumps({"type": "user", "content": text, **more}).encode()


def long_text(number: int) -> str:
    return f'line {number} of "text"\n' * 100


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(documents, min_size=1, max_size=8), st.sampled_from([0, 20, 60]), st.sampled_from([0, 1 << 20]))
def test_what_is_stored_is_resolved(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], limit: int, cache: int
) -> None:
    packed = Packed(tmp_path_factory.mktemp("store") / "blobs")
    half = len(payloads) // 2
    digests = packed.add_payloads(payloads[:half], limit) + packed.add_payloads(payloads[half:], limit)
    resolver = Resolver(packed, cache)
    expected = dict(zip(digests, payloads, strict=True))
    assert resolver.blobs(digests) == expected
    for digest, payload in expected.items():
        assert resolver.blob(digest) == payload
        assert resolver.size(digest) == len(payload)
        assert b"".join(resolver.pieces(digest)) == payload
        assert resolver.part(digest, 3, 10) == payload[3:13]
        resolver.check(digest)


def test_the_samples_are_resolved(packed: Packed, resolver: Resolver) -> None:
    payloads = list(dict.fromkeys(samples.payloads()))
    digests: list[Hash] = []
    for start in range(0, len(payloads), 40):
        digests += packed.add_payloads(payloads[start : start + 40])
    for start in range(0, len(digests), 500):
        some = resolver.blobs(digests[start : start + 500])
        assert [some[digest] for digest in digests[start : start + 500]] == payloads[start : start + 500]


def test_contents_are_found_where_an_earlier_write_put_them(packed: Packed, resolver: Resolver) -> None:
    [first] = packed.add_payloads([message(long_text(1))])
    [second] = packed.add_payloads([message(long_text(1), again=True)])
    assert resolver.blobs([second, first]) == {
        first: message(long_text(1)),
        second: message(long_text(1), again=True),
    }


def test_contents_at_hand_are_not_looked_up(packed: Packed, resolver: Resolver) -> None:
    digests = packed.add_payloads([message(long_text(number)) for number in range(9)])
    resolver.blobs(digests)
    assert packed.asked == digests
    assert packed.reads == 1


def test_open_records_are_not_read_again(packed: Packed) -> None:
    digests = packed.add_payloads([message(long_text(number)) for number in range(9)])
    resolver = Resolver(packed, 1 << 20)
    for digest in digests:
        resolver.blob(digest)
    assert packed.reads == 1


def test_a_blob_asked_for_twice_is_there_once(packed: Packed, resolver: Resolver) -> None:
    [digest] = packed.add_payloads([message("a")])
    assert resolver.blobs([digest, digest]) == {digest: message("a")}
    assert resolver.blobs([]) == {}


def test_a_content_may_be_a_payload_that_was_cut_itself(packed: Packed, resolver: Resolver) -> None:
    inner = message(long_text(1))
    middle = message(inner.decode())
    outer = message(middle.decode())
    for payload in (inner, middle, outer):
        packed.add_payloads([payload])
    assert resolver.blob(hash_bytes(outer)) == outer
    assert resolver.blobs([hash_bytes(each) for each in (outer, inner, middle)]) == {
        hash_bytes(each): each for each in (outer, inner, middle)
    }


def test_what_waits_in_the_journal_is_resolved(packed: Packed, resolver: Resolver) -> None:
    payload = message(long_text(1))
    content, skeleton = taken_apart(payload)
    packed.waiting[skeleton.hash] = (skeleton.form, skeleton.body)
    packed.add([content])
    assert resolver.blob(skeleton.hash) == payload
    assert resolver.size(skeleton.hash) == len(payload)
    packed.waiting[content.hash] = (content.form, content.body)
    assert resolver.blob(skeleton.hash) == payload
    assert resolver.size(content.hash) == len(content.body)
    assert b"".join(resolver.pieces(content.hash)) == content.body


def test_a_damaged_blob_that_waits_is_noticed(packed: Packed, resolver: Resolver) -> None:
    packed.waiting[ABSENT] = (Form.PLAIN, b"something else")
    assert isinstance(error_of(resolver, ABSENT), DamageError)


def test_what_is_absent_is_not_found(packed: Packed, resolver: Resolver) -> None:
    [digest] = packed.add_payloads([message("a")])
    assert isinstance(error_of(resolver, ABSENT), NotFound)
    for ask in (resolver.size, resolver.check):
        with pytest.raises(NotFound):
            ask(ABSENT)
    found = resolver.blobs([ABSENT, digest])
    assert found[digest] == message("a")
    assert isinstance(found[ABSENT], NotFound)


def test_a_payload_with_an_absent_content_is_damaged(packed: Packed, resolver: Resolver) -> None:
    content, skeleton = taken_apart(message(long_text(1)))
    packed.add([skeleton])
    error = error_of(resolver, skeleton.hash)
    assert isinstance(error, DamageError)
    assert content.hash.hex() in str(error)


def test_places_of_other_blobs_are_passed_over(packed: Packed, resolver: Resolver) -> None:
    [wrong] = packed.add_payloads([message("wrong")])
    [right] = packed.add_payloads([message("right")])
    packed.where[right] = packed.where[wrong] + packed.where[right]
    assert resolver.blob(right) == message("right")
    assert resolver.size(right) == len(message("right"))
    packed.where[ABSENT] = packed.where[wrong]
    assert isinstance(error_of(resolver, ABSENT), NotFound)


def damage(packed: Packed, place: tuple[int, int, int], at: int) -> None:
    with packed.packs.path(place[0]).open("r+b") as file:
        file.seek(place[1] + at)
        [byte] = file.read(1)
        file.seek(place[1] + at)
        file.write(bytes([byte ^ 0x40]))


def test_damage_stays_with_those_who_need_it(packed: Packed, resolver: Resolver) -> None:
    bad = packed.add_payloads([message(long_text(number)) for number in range(3)])
    good = packed.add_payloads([message(long_text(number)) for number in range(3, 6)])
    damage(packed, packed.where[bad[0]][0], 300)
    found = resolver.blobs(bad + good)
    assert all(isinstance(found[digest], DamageError) for digest in bad)
    assert all(isinstance(found[digest], bytes) for digest in good)
    with pytest.raises(DamageError):
        resolver.check(bad[1])


def test_an_intact_copy_is_used(packed: Packed, resolver: Resolver) -> None:
    payload = message(long_text(1))
    packed.add_payloads([payload])
    members = taken_apart(payload)
    packed.add(members)
    for member in members:
        first, second = packed.where[member.hash]
        assert first != second
    damage(packed, packed.where[members[0].hash][0], 200)
    assert resolver.blob(members[-1].hash) == payload


def test_a_wrong_content_is_noticed_and_another_copy_used(packed: Packed, resolver: Resolver) -> None:
    payload = message(long_text(1))
    content, skeleton = taken_apart(payload)
    packed.add_record(
        pack_single(Member(content.hash, Form.PLAIN, content.raw_len, content.body[::-1])), [content.hash]
    )
    packed.add([skeleton])
    error = error_of(resolver, skeleton.hash)
    assert isinstance(error, DamageError)
    assert content.hash.hex() in str(error)
    packed.add([content])
    assert resolver.blob(skeleton.hash) == payload


def test_no_flipped_bit_gives_a_wrong_byte(packed: Packed) -> None:
    payloads = [message(long_text(number)) for number in range(3)]
    digests = packed.add_payloads(payloads)
    image = bytearray(os.urandom(9000))
    digests.append(hash_bytes(image))
    packed.add([plain(bytes(image))])
    expected = dict(zip(digests, [*payloads, bytes(image)], strict=True))
    check_flipped_bits(packed, expected, 3)


def test_a_record_of_a_newer_version_is_not_called_damaged(packed: Packed, resolver: Resolver) -> None:
    packed.add_record(encode_record(0x0909, 1, ABSENT, b"a"), [ABSENT])
    assert isinstance(error_of(resolver, ABSENT), FormatTooNew)


# -- dictionaries ------------------------------------------------------------------------------------------------------


def test_blobs_with_a_dictionary_are_resolved(packed: Packed, resolver: Resolver) -> None:
    trained = train([message(str(number), id=number) for number in range(3000)])
    assert trained is not None
    packed.add([plain(trained)])
    dictionary = (hash_bytes(trained), trained)
    group = [plain(message(f"in a group {number}")) for number in range(5)]
    packed.add(group, dictionary)
    packed.add([plain(message("alone"))], dictionary)
    for member in (*group, plain(message("alone"))):
        assert resolver.blob(member.hash) == member.body


def test_a_dictionary_that_is_absent_or_damaged_is_named(packed: Packed, resolver: Resolver) -> None:
    dictionary = (hash_bytes(b"words " * 100), b"words " * 100)
    packed.add([plain(b"words and words")], dictionary)
    digest = hash_bytes(b"words and words")
    assert dictionary[0].hex() in str(error_of(resolver, digest))
    packed.add_record(pack_single(Member(dictionary[0], Form.PLAIN, 600, b"wurds " * 100)), [dictionary[0]])
    assert isinstance(error_of(resolver, digest), DamageError)


def test_a_dictionary_that_waits_in_the_journal_is_used(packed: Packed, resolver: Resolver) -> None:
    data = b"words " * 100
    packed.waiting[hash_bytes(data)] = (Form.PLAIN, data)
    packed.add([plain(b"words and words")], (hash_bytes(data), data))
    assert resolver.blob(hash_bytes(b"words and words")) == b"words and words"


def test_a_dictionary_that_needs_itself_is_damage(packed: Packed, resolver: Resolver) -> None:
    data = b"words " * 100
    packed.add_record(pack_single(plain(data), Dictionary(data)), [hash_bytes(data)])
    assert isinstance(error_of(resolver, hash_bytes(data)), DamageError)


# -- chunks ------------------------------------------------------------------------------------------------------------

HUGE = random.Random(5).randbytes(900_000)


def add_chunked(packed: Packed, data: bytes) -> Hash:
    pieces = [data[start:end] for start, end in chunks(data)]
    digest, listed = hash_bytes(data), encode_chunks([Chunk(hash_bytes(piece), len(piece)) for piece in pieces])
    packed.add([plain(piece) for piece in pieces])
    packed.add_record(encode_record(Compression.CHUNKS, len(data), digest, listed), [digest])
    return digest


def test_a_chunked_blob_is_whole_again(packed: Packed, resolver: Resolver) -> None:
    digest = add_chunked(packed, HUGE)
    pieces = list(resolver.pieces(digest))
    assert len(pieces) > 3
    assert b"".join(pieces) == HUGE
    assert resolver.blob(digest) == HUGE
    assert resolver.size(digest) == len(HUGE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.integers(0, 1_000_000), st.integers(0, 1_000_000))
def test_any_part_of_a_chunked_blob_can_be_read(packed: Packed, start: int, length: int) -> None:
    digest = hash_bytes(HUGE)
    if digest not in packed.where:
        add_chunked(packed, HUGE)
    assert Resolver(packed, 1 << 20).part(digest, start, length) == HUGE[start : start + length]


def test_a_part_needs_its_own_chunks_only(packed: Packed, resolver: Resolver) -> None:
    digest = add_chunked(packed, HUGE)
    start, end = list(chunks(HUGE))[2]
    for other in (0, 1, 3):
        begin, stop = list(chunks(HUGE))[other]
        del packed.where[hash_bytes(HUGE[begin:stop])]
    assert resolver.part(digest, start, end - start) == HUGE[start:end]
    with pytest.raises(DamageError):
        resolver.part(digest, start - 1, 2)
    assert isinstance(error_of(resolver, digest), DamageError)


def test_chunks_that_are_not_the_blobs_are_noticed_at_the_end(packed: Packed, resolver: Resolver) -> None:
    pieces = [b"one", b"two"]
    packed.add([plain(piece) for piece in pieces])
    listed = encode_chunks([Chunk(hash_bytes(piece), 3) for piece in pieces])
    packed.add_record(encode_record(Compression.CHUNKS, 6, ABSENT, listed), [ABSENT])
    with pytest.raises(DamageError):
        resolver.check(ABSENT)
    assert isinstance(error_of(resolver, ABSENT), DamageError)


def test_chunks_of_other_lengths_are_damage(packed: Packed, resolver: Resolver) -> None:
    packed.add([plain(b"one")])
    listed = encode_chunks([Chunk(hash_bytes(b"one"), 4)])
    packed.add_record(encode_record(Compression.CHUNKS, 4, ABSENT, listed), [ABSENT])
    assert isinstance(error_of(resolver, ABSENT), DamageError)
    with pytest.raises(DamageError):
        resolver.check(ABSENT)
    other = hash_bytes(b"other")
    packed.add_record(encode_record(Compression.CHUNKS, 5, other, listed), [other])
    assert isinstance(error_of(resolver, other), DamageError)


# -- hostile stores ----------------------------------------------------------------------------------------------------


def test_a_blob_that_contains_itself_is_damage(packed: Packed, resolver: Resolver) -> None:
    body = skeleton_format.encode(9, [(0, 9, Spelling.RAW, ABSENT)], [])
    packed.add([Member(ABSENT, Form.SKELETON, 9, body)])
    assert isinstance(error_of(resolver, ABSENT), DamageError)
    other = hash_bytes(b"other")
    there = skeleton_format.encode(9, [(0, 9, Spelling.RAW, other)], [])
    back = skeleton_format.encode(9, [(0, 9, Spelling.RAW, hash_bytes(b"back"))], [])
    packed.add([Member(hash_bytes(b"back"), Form.SKELETON, 9, there), Member(other, Form.SKELETON, 9, back)])
    assert isinstance(error_of(resolver, other), DamageError)
    listed = encode_chunks([Chunk(hash_bytes(b"loop"), 9)])
    packed.add_record(encode_record(Compression.CHUNKS, 9, hash_bytes(b"loop"), listed), [hash_bytes(b"loop")])
    assert isinstance(error_of(resolver, hash_bytes(b"loop")), DamageError)
    with pytest.raises(DamageError):
        resolver.check(hash_bytes(b"loop"))


def test_blobs_made_of_each_other_take_no_time(packed: Packed, resolver: Resolver) -> None:
    for level in range(40):
        below = [hash_bytes(b"%d %d" % (level + 1, side)) for side in (0, 1)]
        body = skeleton_format.encode(20, [(0, 10, Spelling.RAW, below[0]), (10, 10, Spelling.RAW, below[1])], [])
        packed.add([Member(hash_bytes(b"%d %d" % (level, side)), Form.SKELETON, 20, body) for side in (0, 1)])
    assert isinstance(error_of(resolver, hash_bytes(b"0 0")), DamageError)


def test_a_skeleton_cannot_blow_up(packed: Packed, resolver: Resolver) -> None:
    content = plain(b"x" * (1 << 20))
    packed.add([content])
    cuts = [(number, 1, Spelling.RAW, content.hash) for number in range(5000)]
    body = skeleton_format.encode(5000, cuts, [])
    packed.add([Member(ABSENT, Form.SKELETON, 5000, body)])
    tracemalloc.start()
    try:
        assert isinstance(error_of(resolver, ABSENT), DamageError)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_group_may_not_claim_what_it_does_not_hold(packed: Packed, resolver: Resolver) -> None:
    lying = pack_group([Member(ABSENT, Form.PLAIN, 1 << 31, b"short"), plain(b"sound")])
    packed.add_record(lying, [ABSENT, hash_bytes(b"sound")])
    assert resolver.blob(hash_bytes(b"sound")) == b"sound"
    assert isinstance(error_of(resolver, ABSENT), DamageError)


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", [0, 30_000, 1 << 20])
def test_threads_may_share_a_resolver(packed: Packed, cache: int) -> None:
    payloads = [message(long_text(number), number=number) for number in range(200)]
    digests: list[Hash] = []
    for start in range(0, len(payloads), 10):
        digests += packed.add_payloads(payloads[start : start + 10])
    expected = dict(zip(digests, payloads, strict=True))
    resolver = Resolver(packed, cache)
    failures: list[object] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(40):
            some = generator.sample(digests, 20)
            try:
                if resolver.blobs(some) != {digest: expected[digest] for digest in some}:
                    failures.append(seed)
                if resolver.size(some[0]) != len(expected[some[0]]):
                    failures.append(seed)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
