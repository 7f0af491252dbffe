"""Data directories of CXDB's server, taken over. They are written here as its records are laid out."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
import zstandard
from blake3 import blake3

from fusefs.text.render import FileRenderer
from store.importing.cxdb import Taken, is_data, take
from store.store import Store
from store.upkeep.fsck import fsck

BEGAN = 1_772_712_000_000


class Server:
    """The files of a server, to which each call appends as the server does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("turns", "blobs", "fs"):
            (root / name).mkdir(parents=True)
        self.add("blobs/blobs.pack", b"")
        self.turns = self.contexts = 0
        self.depths = {0: -1}
        self.blobs: set[bytes] = set()

    def add(self, name: str, data: bytes) -> None:
        with (self.root / name).open("ab") as file:
            file.write(data)

    def record(self, name: str, data: bytes) -> None:
        self.add(name, data + struct.pack("<I", zlib.crc32(data)))

    def blob(self, data: bytes) -> bytes:
        digest = blake3(data).digest()
        if digest not in self.blobs:
            self.blobs.add(digest)
            packed = zstandard.ZstdCompressor(level=1).compress(data)
            codec, stored = (1, packed) if len(packed) < len(data) else (0, data)
            head = struct.pack("<IHHII32s", 0x42534C42, 1, codec, len(data), len(stored), digest)
            self.record("blobs/blobs.pack", head + stored)
        return digest

    def context(self, base: int = 0) -> int:
        self.contexts += 1
        self.head(self.contexts, base)
        return self.contexts

    def head(self, context: int, turn: int) -> None:
        depth = max(self.depths[turn], 0)
        self.record("turns/heads.tbl", struct.pack("<QQIIQ", context, turn, depth, 0, BEGAN + 1000 * self.turns))

    def append(self, context: int, parent: int, payload: bytes, name: str = "demo.Note", encoding: int = 1) -> int:
        self.turns += 1
        self.depths[self.turns] = self.depths[parent] + 1
        fields = self.turns, parent, self.depths[self.turns], encoding, 0, self.blob(payload), 0
        kind = name.encode()
        self.add("turns/turns.meta", struct.pack("<QI", self.turns, len(kind)) + kind)
        self.add("turns/turns.meta", struct.pack("<IIII", 3, encoding, 0, len(payload)))
        self.record("turns/turns.log", struct.pack("<QQIIQ32sIQ", *fields, BEGAN + 1000 * self.turns))
        self.head(context, self.turns)
        return self.turns

    def attach(self, turn: int, root: bytes) -> None:
        self.record("fs/roots.idx", struct.pack("<Q32s", turn, root))


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path / "cxdb")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as opened:
        yield opened
        assert fsck(opened) == []


def said(store: Store, context: int) -> list[bytes]:
    return [store.contents.payload(turn.turn_id) for turn in store.contexts.last(context, 2000)]


def of(store: Store) -> dict[int, int]:
    """Return the contexts of a store by those that they came from."""
    return {entry.metadata["cxdb"]["context"]: entry.id for entry in store.catalogue.having("cxdb")}


def test_contexts_come_with_their_turns_and_forks(server: Server, store: Store) -> None:
    first = server.context()
    turns = [0]
    for number in range(5):
        turns.append(server.append(first, turns[-1], b"turn %d " % number * 50, encoding=70_000 if number == 3 else 1))
    fork = server.context(turns[3])
    behind = server.append(fork, turns[3], b"another way")
    # the first goes back, and on from there
    last = server.append(first, turns[2], b"instead")
    server.context()
    assert is_data(server.root)
    assert take(store, server.root, dry_run=True) == Taken(imported=3, turns=7)
    assert store.catalogue.ids() == set()
    assert take(store, server.root) == Taken(imported=3, turns=5)
    here = of(store)
    whole = [b"turn %d " % number * 50 for number in range(5)]
    assert said(store, here[first]) == [*whole[:2], b"instead"]
    assert said(store, here[fork]) == [*whole[:3], b"another way"]
    assert said(store, here[3]) == []
    shared = [store.contexts.last(here[context], 9)[1] for context in (first, fork)]
    assert shared[0] == shared[1]
    assert (shared[0].depth, shared[0].created_ms, shared[0].type_version) == (1, BEGAN + 2000, 3)
    assert store.catalogue.entry(here[fork]).metadata["forked_from"]["context"] == here[first]
    assert store.catalogue.entry(here[first]).created_ms == BEGAN
    assert take(store, server.root) == Taken(unchanged=3)
    # what comes later goes on, of an edited conversation, too
    store.contexts.patch(here[fork], {store.contexts.last(here[fork], 1)[0].turn_id: b"corrected"})
    server.append(fork, behind, b"more")
    server.append(first, last, b"and on", encoding=70_000)
    server.append(first, turns[1], b"back again")
    late = server.context(behind)
    assert take(store, server.root) == Taken(imported=1, grown=2, unchanged=1, turns=2)
    here = of(store)
    latest = store.contexts.last(here[fork], 9, latest=True)
    assert [store.contents.payload(turn.turn_id) for turn in latest] == [*whole[:3], b"corrected", b"more"]
    assert said(store, here[first]) == [whole[0], b"back again"]
    assert said(store, here[late]) == [*whole[:3], b"another way"]


def test_an_import_that_was_interrupted_goes_on(server: Server, store: Store) -> None:
    context, turn = server.context(), 0
    for number in range(1200):
        turn = server.append(context, turn, b"%d" % number)
    stop = KeyboardInterrupt("stopped")

    def append_many(own: int, items: list[object], *, parent: int) -> object:
        made = original(own, items, parent=parent)
        if len(store.contexts.last(own, 2000)) > 600:
            raise stop
        return made

    original = store.contexts.append_many
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.contexts, "append_many", append_many)
        with pytest.raises(KeyboardInterrupt):
            take(store, server.root)
    assert take(store, server.root) == Taken(grown=1, turns=200)
    assert said(store, of(store)[context]) == [b"%d" % number for number in range(1200)]


@pytest.mark.parametrize("numbered", [int, str])
def test_trees_of_files_come(server: Server, store: Store, numbered: type[int] | type[str]) -> None:
    def tree(*entries: tuple[str, int, bytes]) -> bytes:
        rows = [
            {numbered(1): name, numbered(2): kind, numbered(3): 0o644, numbered(4): 3, numbered(5): digest}
            for name, kind, digest in entries
        ]
        return server.blob(msgpack.packb(rows))

    inner = tree(("main.py", 0, server.blob(b"print()")), ("missing", 0, bytes(32)))
    root = tree(("link", 2, server.blob(b"src/main.py")), ("src", 1, inner))
    context = server.context()
    turn = server.append(context, 0, b"with files")
    server.attach(turn, blake3(b"never uploaded").digest())
    server.attach(turn, root)
    assert take(store, server.root) == Taken(imported=1, turns=1)
    [here] = store.contexts.last(of(store)[context], 1)
    assert store.contexts.fs_root(here.turn_id) == root
    assert store.blobs.blob(root) == msgpack.packb(msgpack.unpackb(store.blobs.blob(root), strict_map_key=False))
    for data in (b"print()", b"src/main.py"):
        assert store.blobs.blob(blake3(data).digest()) == data


def test_what_is_damaged_is_told_and_what_is_before_it_comes(server: Server, store: Store) -> None:
    broken = server.context()
    turn = server.append(broken, 0, b"there")
    server.append(broken, turn, b"gone " * 100)
    whole = server.context()
    server.append(whole, 0, b"all of it")
    pack = server.root / "blobs" / "blobs.pack"
    data = pack.read_bytes()
    at = data.index(struct.pack("<32s", blake3(b"gone " * 100).digest())) + 40
    pack.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for name in ("turns.log", "heads.tbl"):
        server.add(f"turns/{name}", b"unfinished")
    taken = take(store, server.root)
    assert (taken.imported, taken.turns, len(taken.errors)) == (2, 2, 1)
    assert f"context {broken}: " in taken.errors[0]
    assert said(store, of(store)[broken]) == [b"there"]
    assert said(store, of(store)[whole]) == [b"all of it"]
    pack.write_bytes(data)
    assert take(store, server.root) == Taken(grown=1, unchanged=1, turns=1)
    assert said(store, of(store)[broken]) == [b"there", b"gone " * 100]
