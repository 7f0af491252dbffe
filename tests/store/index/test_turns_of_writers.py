"""Those that file very much in the index let others come in between."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from store.events.conversation import EventRow, ResourceRow
from store.events.event import Kind
from store.ids import hash_bytes
from store.index import database
from store.index.index import Index, Places
from store.index.views import Measure, Views
from tests.waiting import PATIENCE, until

MOST = 2048


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "index.db")
    yield index
    index.close()


@contextmanager
def changes(index: Index, of: Callable[[str], bool]) -> Iterator[list[int]]:
    """Yield a list that then has how many rows each transaction changed."""
    asked: list[str] = []
    counts: list[int] = []
    with index.db.writing() as sql:
        sql.set_trace_callback(asked.append)
    yield counts
    with index.db.writing() as sql:
        sql.set_trace_callback(None)
    ends = (one.startswith(("BEGIN", "COMMIT")) for one in asked)
    counts += [
        sum(of(one) for _is_end, one in some)
        for is_end, some in groupby(zip(ends, asked, strict=True), key=lambda one: one[0])
        if not is_end
    ]


def inserted(statement: str) -> bool:
    return statement.startswith("INSERT")


def test_measures_of_many_records(index: Index) -> None:
    rows = [EventRow(turn, turn, Kind.USER, "", 0, 5, 10, 11, 12, 13, False) for turn in range(1, 5001)]
    held = [ResourceRow(turn, turn, 0, f"file:///{turn}", "text", 3, 5, hash_bytes(b"")) for turn in range(1, 3001)]
    views = Views(index.db)
    sums = Measure(5000, events=5000, transcript_size=55_000, json_size=60_000, said=5000)
    with changes(index, inserted) as counts:
        views.add(rows, held, [(1, sums)])
    assert sum(counts) == 8001
    assert max(counts) <= MOST
    assert views.rows([(1, 5000)], 1) == rows
    assert views.resources([(1, 5000)], 1) == held
    assert views.sums([(1, 5000)], 5000) == (5000, sums)
    assert views.measures([1]) == {1: sums}


def test_places_of_many_blobs(index: Index) -> None:
    hashes = [hash_bytes(b"%d" % number) for number in range(10_000)]
    with changes(index, inserted) as counts:
        index.replace_packs(Places((one, (7, 100, at)) for at, one in enumerate(hashes)), {7: 1000}, [])
    assert sum(counts) == 10_001
    assert max(counts) <= MOST
    assert all(index.locate(hashes).values())
    with changes(index, lambda one: one.startswith("DELETE FROM blobs")) as counts:
        index.forget_packs([7])
    assert len(counts) > 10_000 / MOST
    assert index.locate(hashes) == {}


def test_whoever_waits_goes_first(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    asked = threading.Event()
    add = Index._add

    def noting(self: Index, *what: Any) -> None:  # noqa: ANN401 - as the other takes
        add(self, *what)
        order.append("places")
        if len(order) == 1:
            asked.set()
            # within the first of its turns
            until(lambda: bool(index.db._wanting))

    def change() -> None:
        assert asked.wait(PATIENCE)
        with index.db.writing():
            order.append("another")

    monkeypatch.setattr(Index, "_add", noting)
    # however busy the machine is
    monkeypatch.setattr(database, "_WAY_SECONDS", PATIENCE)
    other = threading.Thread(target=change)
    other.start()
    places = Places((hash_bytes(b"%d" % number), (7, 100, number)) for number in range(10_000))
    index.replace_packs(places, {7: 1000}, [])
    other.join()
    assert order[:3] == ["places", "another", "places"]
    assert len(order) == 7
    assert not index.db._wanting
