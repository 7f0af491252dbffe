"""Idempotency keys, looked up many at a time."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from store.commit.writer import Keys
from store.disk.head_format import AppendNoted, HeadFrame
from store.errors import DamageError
from store.ids import now_ms
from store.index.database import Database
from store.index.notes import KEPT_MS, KeyPlace, Notes, file_notes

COUNT = 150
"""More than are asked for in one query."""


LATER = 100
"""Contexts from this on have no keys before the test begins."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "index.db")
    yield database
    database.close()


def appended(context: int, key: bytes, turn: int, time_ms: int) -> HeadFrame:
    return HeadFrame(0, turn, context, AppendNoted(turn, time_ms, key))


def test_filed_ones_and_fresh_ones(database: Database) -> None:
    keys, now = Keys(Notes(database), LATER), now_ms()
    frames = [appended(1 + number % 3, b"%d" % number, 10 + number, now) for number in range(COUNT)]
    with database.writing() as sql:
        file_notes(sql, frames[::2])
    keys.note(frames[1::2])
    places = [(1 + number % 3, b"%d" % number) for number in range(COUNT)]
    # the same key in another context, and a number that no row can hold, are known to nobody
    others = [(4, b"0"), (1, b"1"), (1 << 63, b"0"), ((1 << 64) - 1, b"2")]
    assert keys.look_up([*others, *places]) == {place: 10 + number for number, place in enumerate(places)}
    assert keys.look_up([]) == {}
    assert [keys.get(*place) for place in (places[0], places[1], others[0])] == [10, 11, 0]


def test_the_index_is_asked_for_what_it_may_have(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, now = Notes(database), now_ms()
    keys, asked = Keys(notes, LATER), list[KeyPlace]()
    real = notes.keys

    def looked_up(places: Sequence[KeyPlace]) -> dict[KeyPlace, tuple[int, int] | DamageError]:
        asked.extend(places)
        return real(places)

    monkeypatch.setattr(notes, "keys", looked_up)
    frames = [appended(LATER + number % 3, b"%d" % number, 1 + number, now) for number in range(COUNT)]
    places = [(frame.context, frame.body.key) for frame in frames if isinstance(frame.body, AppendNoted)]
    others = [(LATER - 1, b"0"), (0, b"1")]
    assert keys.look_up([*places, *others]) == {}
    assert asked == others
    keys.note(frames)
    with database.writing() as sql:
        file_notes(sql, frames)
    keys.filed(frames)
    asked.clear()
    assert len(keys) == 0
    assert keys.look_up(places) == {place: at for at, place in enumerate(places, 1)}
    assert asked == places
    # one opened later knows nothing of what was noted
    assert Keys(notes, LATER + 3).look_up(places) == {place: at for at, place in enumerate(places, 1)}


def test_a_key_holds_for_a_day(database: Database) -> None:
    keys, now = Keys(Notes(database), LATER), now_ms()
    times = {b"old": now - KEPT_MS - 1, b"young": now - KEPT_MS + 60_000}
    with database.writing() as sql:
        file_notes(sql, [appended(1, key, 5, time_ms) for key, time_ms in times.items()])
    # the clock was put back since
    keys.note([appended(1, b"ahead", 6, now + KEPT_MS + 60_000)])
    assert keys.look_up([(1, b"old"), (1, b"young"), (1, b"ahead")]) == {(1, b"young"): 5}


def test_a_damaged_row_concerns_its_own_key(tmp_path: Path, database: Database) -> None:
    keys, now = Keys(Notes(database), LATER), now_ms()
    with database.writing() as sql:
        file_notes(sql, [appended(1, key, 5, now) for key in (b"a", b"b")])
    with sqlite3.connect(tmp_path / "index.db") as other:
        other.execute("UPDATE keys SET turn = 6 WHERE key = ?", (b"a",))
    other.close()
    found = keys.look_up([(1, b"a"), (1, b"b"), (1, b"c")])
    assert isinstance(found.pop((1, b"a")), DamageError)
    assert found == {(1, b"b"): 5}
    with pytest.raises(DamageError):
        keys.get(1, b"a")
