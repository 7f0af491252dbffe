"""Blobs that are stored as deltas, read back: alone and many at once, damaged and hostile ones, too."""

import json
import os
import random
import threading
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.content.compression import Member, pack_delta, pack_single
from store.content.delta import Delta, difference
from store.content.resolver import Resolver
from store.content.zstd import compress
from store.disk import blob_format
from store.disk.blob_format import Compression, Form, Stretch
from store.disk.skeleton_format import Spelling
from store.disk.skeleton_format import encode as skeleton
from store.errors import ConvfsError, DamageError, NotFound
from store.ids import Hash, hash_bytes
from tests.store.content.packed import Packed, check_flipped_bits, error_of, plain, taken_apart

ABSENT = hash_bytes(b"absent")


def text(number: int) -> bytes:
    """Return lines of digits of which version ``number`` has as many changed ones."""
    lines = random.Random(5).randbytes(20_000).hex(" ", 20).encode().split(b" ")
    for line in range(number):
        lines[line * 37 % len(lines)] = b"line %d was edited" % line
    return b"\n".join(lines)


def message(*contents: bytes, **more: object) -> bytes:
    return json.dumps({"type": "user", "content": [content.decode() for content in contents], **more}).encode()


def add_delta(packed: Packed, base: bytes, member: Member) -> Hash:
    record = pack_delta(member, hash_bytes(base), difference(base, member.body))
    packed.add_record(record, [member.hash])
    return member.hash


def add_chain(packed: Packed, length: int) -> list[Hash]:
    """Pack a text and versions of it, each a delta against the one before."""
    packed.add([plain(text(0))])
    return [hash_bytes(text(0))] + [add_delta(packed, text(at), plain(text(at + 1))) for at in range(length)]


def test_each_version_is_read(packed: Packed, resolver: Resolver) -> None:
    chain = add_chain(packed, 8)
    versions = {digest: text(number) for number, digest in enumerate(chain)}
    for digest, data in versions.items():
        assert resolver.blob(digest) == data
        assert resolver.size(digest) == len(data)
        assert b"".join(resolver.pieces(digest)) == data
        assert resolver.part(digest, 700, 50) == data[700:750]
        resolver.check(digest)
    assert resolver.blobs(chain) == resolver.blobs(chain[::-1]) == versions
    assert packed.packs.end[1] < len(text(0)) * 2


def test_what_a_blob_is_made_from(packed: Packed, resolver: Resolver) -> None:
    chain = add_chain(packed, 3)
    assert resolver.bases(chain[0]) == []
    assert resolver.bases(chain[3]) == chain[2::-1]
    with pytest.raises(NotFound):
        resolver.bases(ABSENT)
    packed.waiting[chain[1]] = (Form.PLAIN, text(1))
    assert resolver.bases(chain[3]) == [chain[2], chain[1]]


def test_what_was_read_is_kept(packed: Packed) -> None:
    chain = add_chain(packed, 2)
    resolver = Resolver(packed, 1 << 20)
    resolver.blob(chain[2])
    assert packed.reads == 3
    for digest in chain:
        resolver.blob(digest)
    assert packed.reads == 3


def test_contents_that_are_deltas(packed: Packed, resolver: Resolver) -> None:
    add_chain(packed, 3)
    payloads = [message(text(number), text(number + 1)) for number in range(3)]
    packed.add([taken_apart(payload)[-1] for payload in payloads])
    assert resolver.blobs([hash_bytes(payload) for payload in payloads]) == {
        hash_bytes(payload): payload for payload in payloads
    }


def short(number: int) -> bytes:
    """Return a payload with one large content, and much that stays in its skeleton."""
    return message(text(number // 3), *[b"item %d" % item for item in range(900)], edits=number)


def add_skeletons(packed: Packed, length: int) -> list[Hash]:
    """Pack payloads whose skeletons are deltas, each against the payload before."""
    found: list[Hash] = []
    for number in range(length):
        *contents, own = taken_apart(short(number))
        packed.add([content for content in contents if content.hash not in packed.where])
        if number:
            assert add_delta(packed, short(number - 1), own) == own.hash
        else:
            packed.add([own])
        found.append(own.hash)
    return found


@pytest.mark.parametrize("order", [1, -1])
def test_skeletons_that_are_deltas(packed: Packed, resolver: Resolver, order: int) -> None:
    versions = {digest: short(number) for number, digest in enumerate(add_skeletons(packed, 7))}
    assert resolver.blobs(list(versions)[::order]) == versions
    for digest, payload in versions.items():
        assert Resolver(packed, 0).blob(digest) == payload
        assert resolver.size(digest) == len(payload)


def test_a_skeleton_of_a_batch_needs_no_salvage(packed: Packed, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = add_skeletons(packed, 7)
    monkeypatch.setattr("store.content.resolver.salvage", lambda *_: pytest.fail("read the slow way"))
    for order in (1, -1):
        assert len(Resolver(packed, 0).blobs(digests[::order])) == 7


def test_a_base_may_wait_in_the_journal(packed: Packed, resolver: Resolver) -> None:
    base, edited = message(text(0)), message(text(0), edited=1)
    packed.waiting[hash_bytes(base)] = (Form.PLAIN, base)
    assert resolver.blob(add_delta(packed, base, plain(edited))) == edited


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=2000), st.booleans()), max_size=9), st.randoms())
def test_any_tree_of_versions(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, bytes, bool]], order: random.Random
) -> None:
    packed = Packed(tmp_path_factory.mktemp("store") / "blobs")
    versions = [message(text(0))]
    packed.add_payloads(versions)
    for parent, data, whole in rows:
        base = versions[parent % len(versions)]
        payload = base[:-1] + b',"%d":"%s"}' % (len(versions), data.hex().encode())
        if hash_bytes(payload) in packed.where:
            continue
        *contents, own = taken_apart(payload)
        packed.add([content for content in contents if content.hash not in packed.where])
        add_delta(packed, base, plain(payload) if whole else own)
        versions.append(payload)
    order.shuffle(versions)
    expected = {hash_bytes(payload): payload for payload in versions}
    assert Resolver(packed, 1 << 20).blobs(list(expected)) == Resolver(packed, 0).blobs(list(expected)) == expected


# -- damage ------------------------------------------------------------------------------------------------------------


def damage(packed: Packed, digest: Hash, at: int, place: int = 0) -> None:
    pack, offset, _member = packed.where[digest][place]
    with packed.packs.path(pack).open("r+b") as file:
        file.seek(offset + at)
        [byte] = file.read(1)
        file.seek(offset + at)
        file.write(bytes([byte ^ 0x40]))


def test_damage_stays_with_those_who_need_it(packed: Packed, resolver: Resolver) -> None:
    chain = add_chain(packed, 4)
    side = add_delta(packed, text(1), plain(text(30)))
    damage(packed, chain[2], 60)
    found = resolver.blobs([*chain, side])
    assert [isinstance(found[digest], bytes) for digest in (*chain, side)] == [True, True, False, False, False, True]
    for digest in chain[2:]:
        assert isinstance(error_of(resolver, digest), DamageError)
        with pytest.raises(DamageError):
            resolver.check(digest)


def test_a_base_that_is_absent_is_named(packed: Packed, resolver: Resolver) -> None:
    digest = add_delta(packed, text(0), plain(text(1)))
    error = error_of(resolver, digest)
    assert isinstance(error, DamageError)
    assert hash_bytes(text(0)).hex() in str(error)


def test_an_intact_copy_of_a_base_is_used(packed: Packed, resolver: Resolver) -> None:
    chain = add_chain(packed, 2)
    packed.add([plain(text(1))])
    damage(packed, chain[1], 60)
    assert resolver.blob(chain[2]) == text(2)
    packed.add([plain(text(0))])
    damage(packed, chain[0], 60)
    damage(packed, chain[1], 60, 1)
    assert isinstance(error_of(Resolver(packed, 0), chain[2]), DamageError)


def test_a_wrong_base_is_noticed_and_another_copy_used(packed: Packed, resolver: Resolver) -> None:
    base = plain(text(0))
    packed.add_record(pack_single(Member(base.hash, Form.PLAIN, base.raw_len, base.body[::-1])), [base.hash])
    digest = add_delta(packed, text(0), plain(text(1)))
    error = error_of(resolver, digest)
    assert isinstance(error, DamageError)
    assert base.hash.hex() in str(error)
    packed.add([base])
    assert resolver.blob(digest) == text(1)


def test_no_flipped_bit_gives_a_wrong_byte(packed: Packed) -> None:
    digests = add_skeletons(packed, 4)
    packed.add([plain(text(0)[::-1])])
    digests.append(add_delta(packed, text(0)[::-1], plain(text(20)[::-1])))
    expected = Resolver(packed, 0).blobs(digests)
    check_flipped_bits(packed, expected, 7 if os.environ.get("CONVFS_LARGE_TESTS") else 31)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_sound_record_that_says_something_else_gives_no_wrong_byte(
    tmp_path_factory: pytest.TempPathFactory, source: st.DataObject
) -> None:
    """Checksums hold: somebody has made the record so."""
    packed = Packed(tmp_path_factory.mktemp("store") / "blobs")
    packed.add([plain(text(0))])
    form = source.draw(st.sampled_from(Form))
    delta = difference(text(0), text(3))
    stored = bytearray(blob_format.encode_delta_table(hash_bytes(text(0)), delta.stretches) + delta.frame)
    stored[source.draw(st.integers(0, len(stored) - 1))] ^= 1 << source.draw(st.integers(0, 7))
    digest = hash_bytes(text(3))
    raw_len = source.draw(st.sampled_from([len(text(3)), 0, 1 << 31]))
    record = blob_format.encode_record(blob_format.codec(Compression.DELTA, form), raw_len, digest, bytes(stored))
    packed.add_record(record, [digest])
    found = Resolver(packed, 0).blobs([digest])[digest]
    assert isinstance(found, ConvfsError) or found == text(3)


# -- hostile stores ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", Form)
def test_deltas_against_themselves_are_damage(packed: Packed, resolver: Resolver, form: Form) -> None:
    one, other = hash_bytes(b"one"), hash_bytes(b"other")
    copied = Delta([Stretch(0, 0, 9)], compress(b""))
    for digest, base in ((ABSENT, ABSENT), (one, other), (other, one)):
        packed.add_record(pack_delta(Member(digest, form, 9, b""), base, copied), [digest])
        packed.where.setdefault(digest, [])
    found = resolver.blobs([ABSENT, one, other])
    assert all(isinstance(error, DamageError) for error in found.values())
    for digest in found:
        assert isinstance(error_of(resolver, digest), DamageError)
        with pytest.raises(DamageError, match="itself"):
            resolver.bases(digest)


def test_a_skeleton_that_is_a_delta_against_what_it_contains(packed: Packed, resolver: Resolver) -> None:
    body = skeleton(9, [(0, 9, Spelling.RAW, ABSENT)], [])
    packed.add_record(pack_delta(Member(ABSENT, Form.SKELETON, 9, body), ABSENT, difference(b"", body)), [ABSENT])
    assert isinstance(error_of(resolver, ABSENT), DamageError)


def test_a_delta_is_no_dictionary(packed: Packed, resolver: Resolver) -> None:
    words = b"words " * 100
    packed.add([plain(b"words")])
    packed.add([plain(b"words and words")], (hash_bytes(words), words))
    add_delta(packed, b"words", plain(words))
    assert isinstance(error_of(resolver, hash_bytes(b"words and words")), DamageError)


def test_a_chain_without_end_is_damage(packed: Packed, resolver: Resolver) -> None:
    packed.add([plain(b"0" * 100)])
    names = [b"%d" % number * 100 for number in range(200)]
    for base, data in pairwise(names):
        add_delta(packed, base, plain(data))
    assert isinstance(error_of(Resolver(packed, 0), hash_bytes(names[-1])), DamageError)
    assert resolver.blob(hash_bytes(names[20])) == names[20]


def test_a_delta_takes_no_more_memory_than_it_may(packed: Packed) -> None:
    base = b"x" * (1 << 20)
    packed.add([plain(base)])
    for raw_len, delta in (
        (5, Delta([Stretch(0, 0, 1 << 20)], compress(b""))),
        (5, Delta([Stretch(0, 0, 1 << 31)], compress(b""))),
        (1 << 31, Delta([Stretch(0, 0, 1 << 31)], compress(b""))),
        (5, Delta([], compress(bytes(64 << 20)))),
        (5, Delta([Stretch(1 << 31, 0, 4)], compress(b"a"))),
    ):
        digest = hash_bytes(str((raw_len, delta)).encode())
        packed.add_record(pack_delta(Member(digest, Form.PLAIN, raw_len, b""), hash_bytes(base), delta), [digest])
        tracemalloc.start()
        try:
            assert isinstance(error_of(Resolver(packed, 0), digest), DamageError)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


def test_threads_may_share_deltas(packed: Packed) -> None:
    digests = add_skeletons(packed, 7) + add_chain(packed, 5)
    expected = Resolver(packed, 0).blobs(digests)
    assert not any(isinstance(found, ConvfsError) for found in expected.values())
    resolver = Resolver(packed, 300_000)
    failures: list[object] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(30):
            some = generator.sample(digests, 5)
            try:
                if resolver.blobs(some) != {digest: expected[digest] for digest in some}:
                    failures.append(seed)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
