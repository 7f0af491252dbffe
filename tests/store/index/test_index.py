"""The index: frames of the head log, and where blobs lie."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk.head_format import (
    Alias,
    Body,
    Commit,
    ContextCreated,
    Dictionary,
    HeadFrame,
    HeadMoved,
    Metadata,
    Patched,
    TypeRegistered,
)
from store.errors import DamageError
from store.events.conversation import labels_of
from store.ids import Hash, hash_bytes, hash_key, tip_of, type_tag
from store.index.catalogue import Called, Catalogue
from store.index.database import DERIVED_FROM_LOGS
from store.index.frames import day_of, merge
from store.index.index import Index
from tests.conftest import scratch_file

CONTEXTS = st.integers(1, 3)
JSON = st.sampled_from(
    [
        b"{}",
        b"no json",
        b"[1]",
        b'{"project":"p","name":"a"}',
        b'{"project":"p","name":"b","title":"T"}',
        b'{"name":null}',
        b'{"project":5,"name":["x"]}',
        b'{"started_ms":1772739114356,"updated_ms":7}',
        b'{"started_ms":"soon","updated_ms":null}',
        b'{"started_ms":99999999999999999999999,"source":"/x","format":"jp"}',
        b'{"title":{"nested":[1.5,null,true]}}',
        b'{"project":"p","name":"c","labels":["bug","later"],"pinned":true}',
        b'{"labels":["later","a/b","",7,"later"],"archived":true}',
        b'{"labels":"bug","pinned":"yes","archived":null}',
        b'{"labels":null,"trashed_ms":5}',
        b'{"trashed_ms":null}',
    ]
)
BODIES = st.one_of(
    st.builds(ContextCreated, st.just(0), st.integers(0, 1 << 40), st.just(0)),
    st.builds(
        HeadMoved,
        st.builds(tip_of, st.integers(0, 50), st.sampled_from([0, 0, 0, 1, 2])),
        st.integers(0, 50),
        st.integers(0, 1 << 40),
        st.sampled_from(["append", "append", "edit"]),
    ),
    st.builds(
        Patched,
        st.integers(1, 4),
        st.integers(0, 3),
        st.integers(0, 1 << 40),
        st.lists(st.tuples(st.integers(1, 9), st.just(hash_bytes(b"")), st.integers(0, 3), st.just(7)), max_size=2).map(
            tuple
        ),
        st.just("edit"),
    ),
    st.builds(Metadata, st.integers(0, 1 << 40), JSON),
    st.sampled_from(["x.v1", "y.v2"]).map(lambda name: TypeRegistered(type_tag(name), 0, name)),
    st.builds(lambda data: Alias(hash_bytes(data), "sha256", data), st.binary(max_size=2)),
    st.builds(lambda data: Dictionary(0, hash_bytes(data)), st.binary(max_size=1)),
    st.just(Commit(0, 1, 32, 32)),
)


def frames_of(bodies: list[tuple[int, Body]]) -> list[HeadFrame]:
    return [HeadFrame(0, seq, context, body) for seq, (context, body) in enumerate(bodies, 1)]


def rows(index: Index) -> dict[str, list[tuple[object, ...]]]:
    return {table: sorted(index.db.query(f"SELECT * FROM {table}"), key=repr) for table in DERIVED_FROM_LOGS}


@given(st.lists(st.tuples(CONTEXTS, BODIES), max_size=30), st.lists(st.integers(1, 8), max_size=30))
def test_in_whatever_batches_frames_come_the_rows_are_the_same(
    bodies: list[tuple[int, Body]], sizes: list[int]
) -> None:
    frames = frames_of(bodies)
    found = []
    for batches in ([len(frames)], [1] * len(frames), sizes):
        with scratch_file("index.db") as path:
            index = Index(path)
            rest = frames
            for size in batches:
                index.apply(rest[:size])
                rest = rest[size:]
            index.apply(rest)
            assert index.seq == len(frames)
            found.append(rows(index))
            # everything can be read back, and has its checksum
            catalogue = Catalogue(index.db)
            for context in range(1, 4):
                entry, head = catalogue.by_id(context), catalogue.head(context)
                assert (entry is None) == (head is None)
                if entry is not None:
                    assert (entry.head, entry.records) == head
                    catalogue.versions(context)
            index.type_names()
            index.dictionaries()
            named = [entry for entry in map(catalogue.by_id, range(1, 4)) if entry and entry.name]
            assert catalogue.labels() == sorted({label for entry in named for label in labels_of(entry.metadata)})
            for label in catalogue.labels():
                labelled = [entry for entry in named if label in labels_of(entry.metadata)]
                assert catalogue.labelled(label) == [Called(entry.id, entry.project, entry.name) for entry in labelled]
            index.close()
    assert found[0] == found[1] == found[2]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / "index.db")


def described(index: Index, *changes: bytes) -> list[tuple[str, str]]:
    """Create contexts with this metadata, and return their projects and names."""
    for context, change in enumerate(changes, 1):
        index.apply([HeadFrame(0, 2 * context, context, ContextCreated(0, 5, 0))])
        index.apply([HeadFrame(0, 2 * context + 1, context, Metadata(6, change))])
    entries = (Catalogue(index.db).by_id(context) for context in range(1, len(changes) + 1))
    return [(entry.project, entry.name) for entry in entries if entry]


def test_two_of_one_name(index: Index) -> None:
    same = b'{"project":"p","name":"n"}'
    assert described(index, same, same, b'{"project":"q","name":"n"}', same) == [
        ("p", "n"),
        ("p", "n~2"),
        ("q", "n"),
        ("p", "n~4"),
    ]
    # its own name again is no conflict, and a name that was given up can be taken
    index.apply([HeadFrame(0, 20, 1, Metadata(6, same)), HeadFrame(0, 21, 1, Metadata(6, b'{"name":"m"}'))])
    index.apply([HeadFrame(0, 22, 2, Metadata(6, b'{"title":"t"}'))])
    names = [(entry.id, entry.name) for entry in Catalogue(index.db).page("p")]
    assert names == [(1, "m"), (2, "n"), (4, "n~4")]


def test_metadata_that_is_not_what_it_should_be(index: Index) -> None:
    assert described(index, b'{"project":"p","name":7}', b'{"name":"n"}', b"[]", b"no json") == [("", "")] * 4
    entry = Catalogue(index.db).by_id(1)
    assert entry is not None
    assert entry.metadata == {"project": "p", "name": 7}


def test_a_context_that_was_never_created_is_passed_over(index: Index) -> None:
    index.apply([HeadFrame(0, 1, 9, HeadMoved(5, 4, 1, "append")), HeadFrame(0, 2, 9, Metadata(1, b'{"title":"x"}'))])
    assert Catalogue(index.db).by_id(9) is None
    assert index.seq == 2


def test_places_of_blobs(index: Index) -> None:
    names = [hash_bytes(b"%d" % number) for number in range(1200)]
    index.add_blobs([(hash_key(name), 1, 100 * number, number % 7) for number, name in enumerate(names)])
    index.add_blobs([(hash_key(names[3]), 2, 50, 0)] * 2)
    assert index.locate([names[3]]) == {names[3]: [(1, 300, 3), (2, 50, 0)]}
    found = index.locate([*names, hash_bytes(b"unknown")])
    assert len(found) == 1200
    assert found[names[3]] == [(1, 300, 3), (2, 50, 0)]
    assert found[names[1199]] == [(1, 119900, 1199 % 7)]
    assert index.locate([hash_bytes(b"unknown")]) == {}
    assert index.locate([]) == {}


def test_hashes_that_begin_alike(index: Index) -> None:
    """The index files eight bytes of a hash: who asks for several gets all places for each."""
    first, second = Hash(bytes(8) + b"a" * 24), Hash(bytes(8) + b"b" * 24)
    index.add_blobs([(hash_key(first), 1, 10, 0), (hash_key(second), 1, 20, 0)])
    both = [(1, 10, 0), (1, 20, 0)]
    assert index.locate([first, second]) == {first: both, second: both}
    assert index.locate([first]) == {first: both}


def test_names_of_types_vouch_for_themselves(index: Index) -> None:
    name = "claude-code.line.v1"
    tag = type_tag(name)
    index.apply(
        [HeadFrame(0, 1, 0, TypeRegistered(tag, 0, name)), HeadFrame(0, 2, 0, TypeRegistered(type_tag("x"), 0, "x"))]
    )
    assert index.type_names() == {tag: name, type_tag("x"): "x"}
    with index.db.writing() as sql:
        sql.execute("UPDATE types SET name = 'claude-code.line.v2' WHERE name = ?", (name,))
    with pytest.raises(DamageError, match="convfs reindex"):
        index.type_names()
    assert index.db.damaged


def test_aliases(index: Index) -> None:
    index.apply([HeadFrame(0, 1, 0, Alias(hash_bytes(b"x"), "sha256", b"d" * 32))])
    assert index.alias("sha256", b"d" * 32) == hash_bytes(b"x")
    assert index.alias("sha1", b"d" * 32) is None
    with index.db.writing() as sql:
        sql.execute("UPDATE aliases SET hash = ?", (hash_bytes(b"y"),))
    with pytest.raises(DamageError):
        index.alias("sha256", b"d" * 32)


def test_merging_metadata() -> None:
    assert merge({"a": 1, "b": 2}, {"b": None, "c": 3, "d": None}) == {"a": 1, "c": 3}


@pytest.mark.parametrize(
    ("time", "day"),
    [(0, "1970-01-01"), (1772739114356, "2026-03-05"), (-1, "1969-12-31"), (1 << 62, ""), (None, ""), ("1", "")],
)
def test_days(time: object, day: str) -> None:
    assert day_of(time) == day
