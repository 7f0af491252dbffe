"""Places of blobs that wait to be filed: whoever looks finds them, and the index is the same in the end."""

import subprocess
import sys
import threading
import tracemalloc
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.disk import durable
from store.errors import StoreFull
from store.ids import Hash, hash_bytes, hash_key
from store.index import index as indexing
from store.index.fresh import Fresh, KeyPlace, Sieve
from store.index.index import Index, Places
from store.paths import REMOTE
from store.store import Store
from store.upkeep.fsck import fsck
from tests.bench import corpus
from tests.conftest import scratch_file

NAMES = [hash_bytes(b"%d" % number) for number in range(40)]
KEYS = [hash_key(name) for name in NAMES]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(KEYS), st.integers(1, 3), st.sampled_from([0, 7, (1 << 40) + 5]), st.integers(0, (1 << 32) - 1)
    ),
    max_size=12,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ROWS, st.dictionaries(st.integers(1, 3), st.integers(1, 99), max_size=2)),
        st.tuples(st.just("sketch"), st.dictionaries(st.integers(1, 4), st.sampled_from(NAMES), max_size=3)),
        st.tuples(st.just("remote"), st.sampled_from(KEYS)),
        st.tuples(st.just("replace"), ROWS),
        st.tuples(st.just("forget"), st.integers(1, 3)),
        st.tuples(st.just("forget remote"), st.sampled_from(KEYS)),
        st.tuples(st.just("look"), st.lists(st.sampled_from(NAMES), max_size=20)),
        st.tuples(st.just("begin")),
        st.tuples(st.just("end")),
    ),
    max_size=25,
)


def test_rows_that_wait_take_little_memory_in_few_pieces() -> None:
    fresh = Fresh()
    tracemalloc.start()
    try:
        fresh.add([(hash_key(hash_bytes(b"%d" % one)), 1, one << 10, one % 50) for one in range(20_000)], {}, {})
        assert tracemalloc.get_traced_memory()[0] < 60 * len(fresh)
        assert sum(one.count for one in tracemalloc.take_snapshot().statistics("filename")) < len(fresh) / 2
    finally:
        tracemalloc.stop()


def known(index: Index) -> object:
    """Return all that an index tells of blobs."""
    located = {name: sorted(places) for name, places in index.locate(NAMES).items()}
    alone = {name: sorted(places) for name in NAMES for places in index.locate([name]).values()}
    by_key = {name: sorted(index.places_of(hash_key(name))) for name in located}
    assert located == alone == by_key
    here = [index.has_here([key]) for key in KEYS]
    assert here == [any(place[0] < REMOTE for place in located.get(name, ())) for name in NAMES]
    return located, index.sketched(range(1, 5)), index.remote_places()


@given(steps=STEPS, most=st.sampled_from([0, 3, 1000]), worth=st.sampled_from([1, 1000, 10_000_000]))
def test_what_waits_is_found_as_what_is_filed(steps: list[tuple], most: int, worth: int) -> None:  # type: ignore[type-arg]
    with (
        pytest.MonkeyPatch.context() as patch,
        scratch_file("a.db") as here,
        scratch_file("b.db") as there,
        ExitStack() as gathering,
    ):
        patch.setattr(indexing, "_MOST_FRESH", most)
        # how soon a sieve is made
        patch.setattr(indexing, "_WORTH", worth)
        index, plain = Index(here), Index(there)
        for what, *given_ in steps:
            if what == "begin":
                gathering.enter_context(index.gathering())
            elif what == "end":
                gathering.close()
            for one in (index, plain):
                match what, given_:
                    case "add", [rows, packs]:
                        one.add_blobs(rows, packs)
                    case "sketch", [sketches]:
                        one.add_blobs((), {}, sketches)
                    case "remote", [key]:
                        one.add_remote(REMOTE + 1, [(key, 5, 0)], 10, "{}")
                    case "replace", [rows]:
                        places = Places()
                        for key, _pack, offset, member in rows:
                            places.file(key, (9, offset, member))
                        one.replace_packs(places, {9: 50}, [1])
                    case "forget", [pack]:
                        one.forget_packs([pack])
                    case "forget remote", [key]:
                        one.forget_remote([key])
                    case "look", [names]:
                        one.locate(names)
            assert known(index) == known(plain)
        gathering.close()
        assert index.packs() == plain.packs()
        assert known(index) == known(plain)
        index.close(sync=True)
        plain.close(sync=True)
        again = Index(here)
        plain = Index(there)
        assert known(again) == known(plain)
        assert again.packs() == plain.packs()
        for one in (again, plain):
            one.close()


def test_a_sieve_lets_all_pass_that_it_has_and_few_others() -> None:
    keys = [hash_key(hash_bytes(b"k%d" % number)) for number in range(300_000)]
    sieve = Sieve(100_000)
    sieve.add(keys[:100_000])
    assert sieve.passing(keys[:100_000]) == keys[:100_000]
    assert not sieve.is_full
    assert len(sieve.passing(keys[200_000:])) < 100_000 / 8
    sieve.add(keys[100_000:])
    assert sieve.is_full
    assert sieve.passing(keys) == keys
    assert not Sieve(1 << 40).is_full


def test_a_sieve_that_is_full_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sieve] = []

    class Small(Sieve):
        def __init__(self, _room: int) -> None:
            super().__init__(1)
            self._taken = bytearray(64)
            made.append(self)

    monkeypatch.setattr(indexing, "Sieve", Small)
    monkeypatch.setattr(indexing, "_MOST_FRESH", 0)
    monkeypatch.setattr(indexing, "_ROWS_A_PAGE", 0)
    index = Index(tmp_path / "index.db")
    with index.gathering():
        for number in range(20):
            index.locate(NAMES[2 * number : 2 * number + 2])
            index.add_blobs([(key, 1, 5, 0) for key in KEYS[2 * number : 2 * number + 2]])
            assert index.locate(NAMES).keys() == set(NAMES[: 2 * number + 2])
    assert len(made) > 2
    index.close()


def test_without_room_what_waits_goes_on_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(tmp_path / "index.db")
    rows: list[KeyPlace] = [(key, 1, 5, 0) for key in KEYS]
    with monkeypatch.context() as full:
        with index.gathering():
            index.add_blobs(rows, {1: 50})
            full.setattr(durable, "free_bytes", lambda _path: 0)
        assert index.locate(NAMES) == {name: [(1, 5, 0)] for name in NAMES}
        with pytest.raises(StoreFull):
            index.add_blobs([(1, 1, 9, 0)])
        with pytest.raises(StoreFull):
            index.settle()
        assert index.places_of(KEYS[3]) == [(1, 5, 0)]
    index.add_blobs([(1, 1, 9, 0)])
    assert index.db.query("SELECT count(*) FROM blobs") == [(len(KEYS) + 1,)]
    assert index.packs() == {1: 50}
    index.close()


def test_threads_that_look_find_what_is_being_filed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "_MOST_FRESH", 50)
    index = Index(tmp_path / "index.db")
    names = [hash_bytes(b"n%d" % number) for number in range(4000)]
    lacking: list[Hash] = []
    done = 0
    ended = threading.Event()

    def look() -> None:
        at = 0
        while not ended.is_set():
            upto = done
            some = [names[number % upto] for number in range(at, at + 7)] if upto else []
            at += 13
            lacking.extend(set(some) - index.locate(some).keys())

    readers = [threading.Thread(target=look) for _ in range(2)]
    with index.gathering():
        for reader in readers:
            reader.start()
        for start in range(0, len(names), 20):
            some = enumerate(names[start : start + 20])
            index.add_blobs([(hash_key(name), 1, start, number) for number, name in some])
            done = start + 20
    ended.set()
    for reader in readers:
        reader.join()
    assert not lacking
    assert index.locate(names).keys() == set(names)
    index.close()


def test_rows_tell_what_waits() -> None:
    fresh = Fresh()
    assert not fresh
    rows: list[KeyPlace] = [(-5, 1, 2, 3), (7, REMOTE + 3, (1 << 47) + 1, 9), (-5, 2, 0, 0), (-5, 1, 2, 3)]
    fresh.add(rows, {1: 4}, {})
    assert sorted(row for part in fresh.parts() for row in part) == sorted(set(rows))
    assert len(list(fresh.parts())) == 2
    assert fresh.of(-5) == [(1, 2, 3), (2, 0, 0)]
    assert fresh.of(6) == []
    assert len(fresh) == 3


KILLED = """
import os, sys
from pathlib import Path
from fusefs.text.render import FileRenderer
from store.importing import importer
from store.importing.importer import Importer
from store.store import Store
importer.MUCH_BYTES = 1
importer.processes = lambda: 0
store = Store.open(Path(sys.argv[1]), renderer=FileRenderer())
real = store.files.index.settle
store.files.index.settle = lambda: os._exit(9)
Importer(store).run([Path(sys.argv[2])])
"""


def test_what_waited_when_the_process_was_killed_is_filed_at_the_next_opening(tmp_path: Path) -> None:
    corpus.write_corpus(tmp_path / "sessions", sessions=6, events=40)
    root = tmp_path / "store"
    done = subprocess.run([sys.executable, "-c", KILLED, root, tmp_path / "sessions"], check=False)
    assert done.returncode == 9
    with Store.open(root, renderer=FileRenderer()) as store:
        assert len(store.library.conversations()) == 6
        assert fsck(store) == []
