"""Large contents that are appended or imported: what they share with earlier ones is there once, before any sealing."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from store.disk.blob_format import Compression
from store.disk.file_header import Damage
from store.ids import Hash
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.content.noise import edited, noise
from tests.store.editing.records import TYPE
from tests.store.importing.sessions import by_source, imported, line, native, session

KIB, MIB = 1 << 10, 1 << 20
FEW = 4 * KIB
"""The cost of a commit, some rows of the index and a delta."""

MORE = b" 8 bytes"


def said(text: bytes) -> bytes:
    """Return a record with a long string."""
    return json.dumps({"type": "user", "message": {"role": "user", "content": text.decode()}}).encode()


def listed(text: bytes) -> bytes:
    """Return a record of short strings, and one that leaves it."""
    return json.dumps({"systemPrompt": "Be brief.", "lines": text.decode().split("\n")}).encode()


def plain(text: bytes) -> bytes:
    """Return a record in which nothing is looked for."""
    return text


def packed(store: Store) -> int:
    """Return the bytes of all packs, with everything in them that was committed."""
    store.checkpointer.flush()
    return sum(store.files.packs.length(number) for number in store.files.packs.numbers())


def deltas(store: Store) -> int:
    """Return how many records are deltas."""
    store.checkpointer.flush()
    records = (record for _, _, record in store.files.packs.scan())
    return sum(not isinstance(record, Damage) and record.compression == Compression.DELTA for record in records)


@pytest.mark.parametrize("make", [said, listed, plain])
@pytest.mark.parametrize("size", [20 * KIB, MIB, 3 * MIB])
def test_an_append_of_eight_bytes_more(memory_path: Path, make: Callable[[bytes], bytes], size: int) -> None:
    """The store was closed between; the payload goes through the journal or, if it is large, to the packs at once."""
    text = noise(size)
    payloads = [make(text), make(text + MORE), make(text[: size // 2] + MORE + text[size // 2 :])]
    sizes = [0]
    for payload in payloads:
        with Store.open(memory_path / "store") as store:
            context = store.contexts.create().context
            store.contexts.append(context, payload, "some.type")
            sizes.append(packed(store))
    grown = [after - before for before, after in pairwise(sizes)]
    assert grown[0] > size / 3
    assert max(grown[1:]) < FEW
    with Store.open(memory_path / "store") as store:
        found = dict(store.contents.payloads([1, 2, 3]))
        assert list(found.values()) == payloads
        assert fsck(store) == []


def test_appends_that_wait_together(memory_path: Path) -> None:
    """All in one checkpoint: what one of them is made from cannot be read before that is through."""
    texts = [noise(60 * KIB, seed) for seed in range(3)]
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        payloads = [said(edited(text, place)) for place in (0.2, 0.5, 0.8) for text in texts]
        for payload in payloads:
            store.contexts.append(context, payload, "some.type")
        assert deltas(store) == 6
        assert [store.contents.payload(turn) for turn in range(1, 10)] == payloads
        assert fsck(store) == []


def test_one_that_grows(memory_path: Path) -> None:
    """As an output does that is appended again whenever there is more of it."""
    text = noise(2 * MIB)
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        for end in range(100 * KIB, len(text), 100 * KIB):
            store.contexts.append(context, said(text[:end]), "some.type")
            store.checkpointer.flush()
        assert packed(store) < 2 * MIB
        for turn in range(1, store.writer.turns.count + 1):
            [content] = store.blobs.references([store.turns.get(turn).payload_hash]).popitem()[1]
            assert len(store.blobs.bases(content)) <= 8
        assert fsck(store) == []


def test_imports_before_sealing(memory_path: Path) -> None:
    """In one import, and in a later one; the sessions are exported as they came."""
    text = noise(MIB)

    def read(what: bytes, at: int) -> bytes:
        block = {"type": "tool_result", "tool_use_id": f"c{at}", "content": what.decode()}
        return line("", at, message={"role": "user", "content": [block]})

    data = b"".join(read(text + b"%d" % at * 8, at) + b"\n" for at in range(1, 5))
    path = session(memory_path, data)
    with Store.open(memory_path / "store") as store:
        imported(store, path)
        first = packed(store)
        assert first < MIB
        more = data + read(edited(text, 0.5), 5) + b"\n"
        path.write_bytes(more)
        imported(store, path)
        assert packed(store) - first < 2 * FEW
        assert native(store, path) == more
        assert by_source(store, path).records == 5
        assert fsck(store) == []


def test_what_is_short_or_shares_nothing_is_stored_with_its_neighbours(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        for text in (noise(10 * KIB), noise(10 * KIB) + MORE, noise(90 * KIB, 1), noise(90 * KIB, 2)):
            store.contexts.append(context, said(text), "some.type")
        assert deltas(store) == 0
        rows = store.files.index.db.query("SELECT hash FROM sketches")
        assert len(set(rows)) == 2


def test_what_it_resembles_was_damaged(memory_path: Path) -> None:
    root, text = memory_path / "store", noise(300 * KIB)
    with Store.open(root) as store:
        context = store.contexts.create().context
        store.contexts.append(context, said(text), "some.type")
    path = root / "blobs" / "00000001.pack"
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with Store.open(root) as store:
        store.contexts.append(context, said(text + MORE), "some.type")
        assert deltas(store) == 0
        assert store.contents.payload(2) == said(text + MORE)
        # and itself, once more
        store.contexts.append(context, said(text), "some.type")
        store.checkpointer.flush()
        assert [store.contents.payload(turn) for turn in (1, 2, 3)] == [
            said(text),
            said(text + MORE),
            said(text),
        ]
        # the damaged record itself stays
        assert [finding.check for finding in fsck(store)] == ["packs"]


def test_a_rebuilt_index_learns_them_anew(memory_path: Path) -> None:
    root, text = memory_path / "store", noise(100 * KIB)
    with Store.open(root) as store:
        context = store.contexts.create().context
        store.contexts.append(context, said(text), "some.type")
    with Store.open(root, reindex=True) as store:
        store.contexts.append(context, said(text + MORE), "some.type")
        assert deltas(store) == 0
        store.contexts.append(context, said(text + MORE + MORE), "some.type")
        assert deltas(store) == 1
        assert fsck(store) == []


def test_nothing_is_made_from_what_was_redacted(memory_path: Path) -> None:
    """The clean content resembles the one with the secret, which is gone: also its sketch."""
    root, text, secret = memory_path / "store", noise(40 * KIB), b"sk-verysecretverysecret0123456789"
    secrets = Secrets([secret])
    with_secret = secret.join(text[start : start + 2 * KIB] for start in range(0, len(text), 2 * KIB))
    with Store.open(root) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        store.contexts.append(context, said(with_secret), TYPE)
        store.contexts.append(context, said(with_secret + MORE), TYPE)
        assert deltas(store) == 1
        done = Redaction(store, secrets).run()
        for turn in (1, 2):
            payload = store.contents.payload(turn)
            assert secret not in payload
            assert len(payload) > 35 * KIB
        assert not {Hash(digest) for (digest,) in store.files.index.db.query("SELECT hash FROM sketches")} & done.gone
        assert prove(store, secrets, done.gone).found == []
        assert fsck(store) == []
