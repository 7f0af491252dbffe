"""Look-ups of conversations, against going through all of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from store.disk.head_format import ContextCreated, Deleted, HeadFrame, HeadMoved, Metadata, VersionsPruned
from store.errors import DamageError
from store.index.catalogue import Catalogue, ContextEntry
from store.index.database import Database, Row
from store.index.index import Index

DAY = 86_400_000
FIRST = 1_772_323_200_000
"""2026-03-01."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "index.db")
    frames, seq = [], 0
    for context in range(1, 41):
        named = context % 5 != 0
        metadata: dict[str, object] = {"title": f"title {context}", "format": "jp", "source": f"/s/{context % 30}"}
        if named:
            metadata |= {
                "project": f"p{context % 3}",
                "name": f"name-{context:02}",
                "started_ms": FIRST + context * DAY,
            }
        for body in (
            ContextCreated(0, FIRST, 0),
            Metadata(5, msgspec.json.encode(metadata)),
            HeadMoved(context * 10, 4, FIRST + (context * 7 % 40) * 1000, "import"),
            HeadMoved(context * 10 + 1, 5, FIRST + (context * 7 % 40) * 1000, "append"),
        ):
            seq += 1
            frames.append(HeadFrame(0, seq, context, body))
    index.apply(frames)
    yield index
    index.close()


@pytest.fixture
def catalogue(index: Index) -> Catalogue:
    return Catalogue(index.db)


@pytest.fixture
def entries(catalogue: Catalogue) -> list[ContextEntry]:
    """Return every context, one by one."""
    found = [catalogue.by_id(context) for context in range(1, 41)]
    return [entry for entry in found if entry is not None]


def named(entries: list[ContextEntry]) -> list[ContextEntry]:
    return sorted((entry for entry in entries if entry.name), key=lambda entry: (entry.project, entry.name))


def test_one_context(catalogue: Catalogue, entries: list[ContextEntry]) -> None:
    assert len(entries) == 40
    entry = entries[6]
    assert (entry.id, entry.project, entry.name, entry.title) == (7, "p1", "name-07", "title 7")
    assert (entry.format, entry.source, entry.head, entry.records) == ("jp", "/s/7", 71, 6)
    assert (entry.created_ms, entry.updated_ms) == (FIRST + 7 * DAY, FIRST + 9000)
    assert entry.metadata["started_ms"] == entry.created_ms
    assert (entries[4].project, entries[4].name) == ("", "")
    assert catalogue.head(7) == (71, 6)
    assert catalogue.head(41) is None
    assert catalogue.by_id(41) is None
    assert catalogue.last_id() == 40


def test_by_name(catalogue: Catalogue, entries: list[ContextEntry]) -> None:
    for entry in named(entries):
        assert catalogue.by_name(entry.project, entry.name) == entry
    assert catalogue.by_name("p0", "name-01") is None
    assert catalogue.by_name("", "") is None


def test_by_source_the_newest_counts(catalogue: Catalogue, entries: list[ContextEntry]) -> None:
    assert catalogue.by_source("/s/3") == entries[32]
    assert catalogue.by_source("/s/20") == entries[19]
    assert catalogue.by_source("/s/99") is None
    assert catalogue.by_source("") is None


def test_pages(catalogue: Catalogue, entries: list[ContextEntry]) -> None:
    assert catalogue.page() == named(entries)
    assert catalogue.page(limit=3) == named(entries)[:3]
    for project in ("p0", "p1", "p2", "p3"):
        of_it = [entry for entry in named(entries) if entry.project == project]
        assert catalogue.page(project) == of_it
        found: list[ContextEntry] = []
        while some := catalogue.page(project, after=found[-1].name if found else "", limit=4):
            found += some
        assert found == of_it


def test_projects_and_counts(catalogue: Catalogue, entries: list[ContextEntry]) -> None:
    assert catalogue.projects() == ["p0", "p1", "p2"]
    assert len(catalogue.page()) == len(named(entries)) == 32


def test_projects_come_and_go_with_their_conversations(index: Index, catalogue: Catalogue) -> None:
    counted = "SELECT project, count(*) FROM contexts WHERE name IS NOT NULL GROUP BY project ORDER BY project"

    def changed(context: int, **changes: object) -> list[str]:
        seq = index.seq + 1
        index.apply([HeadFrame(0, seq, context, Metadata(6, msgspec.json.encode(changes)))])
        assert index.db.query("SELECT name, conversations FROM projects ORDER BY name") == index.db.query(counted)
        return catalogue.projects()

    assert changed(5, project="new", name="first") == ["new", "p0", "p1", "p2"]
    assert changed(5, name="other") == ["new", "p0", "p1", "p2"]
    assert changed(5, trashed_ms=7) == ["p0", "p1", "p2"]
    assert changed(5, trashed_ms=None) == ["new", "p0", "p1", "p2"]
    assert changed(5, project="p1") == ["p0", "p1", "p2"]
    for context in (1, 4, 7):
        assert changed(context, project="beside") == ["beside", "p0", "p1", "p2"]
    for context in (1, 4):
        index.apply([HeadFrame(0, index.seq + 1, context, Deleted(8))])
    assert changed(10, title="nobody") == ["beside", "p0", "p1", "p2"]
    index.apply([HeadFrame(0, index.seq + 1, 7, Deleted(9))])
    assert changed(10, title="of none") == ["p0", "p1", "p2"]


def test_projects_are_found_in_one_look_up(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = Database.query

    def query(db: Database, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        asked.append(sql)
        return real(db, sql, parameters)

    monkeypatch.setattr(Database, "query", query)
    assert catalogue.projects() == ["p0", "p1", "p2"]
    assert len(asked) == 1


def test_days(catalogue: Catalogue, entries: list[ContextEntry]) -> None:
    assert catalogue.days("") == ["2026"]
    assert catalogue.days("2026") == ["2026-03", "2026-04"]
    days = catalogue.days("2026-03")
    assert days[0] == "2026-03-02"
    assert "2026-03-06" not in days
    assert len(days) == 24
    assert catalogue.days("2025") == []
    assert catalogue.by_day("2026-03-02") == [entries[0]]
    assert catalogue.by_day("2026-03-06") == []


def test_days_are_skipped_through(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    real = Database.query

    def query(db: Database, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        found = real(db, sql, parameters)
        rows.append(len(found))
        return found

    monkeypatch.setattr(Database, "query", query)
    # a row a group, and one look-up that finds no more
    for prefix, groups in (("", 1), ("2026", 2), ("2026-03", 24)):
        rows.clear()
        catalogue.days(prefix)
        assert rows == [1] * groups + [0]


def test_recent(catalogue: Catalogue, entries: list[ContextEntry]) -> None:
    newest = sorted(named(entries), key=lambda entry: (entry.updated_ms, entry.id), reverse=True)
    assert catalogue.recent(5) == newest[:5]
    assert catalogue.recent(1000) == newest


def test_what_is_pinned_comes_first_and_the_archive_not_at_all(
    catalogue: Catalogue, index: Index, entries: list[ContextEntry]
) -> None:
    newest = catalogue.recent(1000)
    pinned, archived = newest[-1], newest[0]
    index.apply([HeadFrame(0, 900, pinned.id, Metadata(1, b'{"pinned":true}'))])
    index.apply([HeadFrame(0, 901, archived.id, Metadata(1, b'{"pinned":true,"archived":true}'))])
    assert [entry.id for entry in catalogue.recent(3)] == [pinned.id, newest[1].id, newest[2].id]
    assert len(catalogue.recent(1000)) == len(newest) - 1
    assert catalogue.changed_ms() == archived.updated_ms == max(entry.updated_ms for entry in named(entries))
    index.apply([HeadFrame(0, 902, archived.id, Metadata(1, b'{"archived":false}'))])
    assert [entry.id for entry in catalogue.recent(3)] == [archived.id, pinned.id, newest[1].id]


def test_labels(catalogue: Catalogue, index: Index) -> None:
    assert (catalogue.labels(), catalogue.labelled("bug")) == ([], [])
    for seq, (context, labels) in enumerate([(3, '["later","bug"]'), (2, '["bug"]'), (5, '["a/b"]')], 900):
        index.apply([HeadFrame(0, seq, context, Metadata(1, b'{"labels":%s}' % labels.encode()))])
    # the fifth has no name
    assert catalogue.labels() == ["bug", "later"]
    assert [entry.id for entry in catalogue.labelled("bug")] == [2, 3]
    assert catalogue.labelled("a/b") == []
    index.apply([HeadFrame(0, 910, 3, Metadata(1, b'{"trashed_ms":7}'))])
    assert ([entry.id for entry in catalogue.labelled("bug")], catalogue.labels()) == ([2], ["bug"])
    index.apply([HeadFrame(0, 911, 3, Metadata(1, b'{"trashed_ms":null,"labels":["later"]}'))])
    assert ([entry.id for entry in catalogue.labelled("bug")], catalogue.labels()) == ([2], ["bug", "later"])


def test_a_damaged_label_is_told(catalogue: Catalogue, index: Index) -> None:
    index.apply([HeadFrame(0, 900, 2, Metadata(1, b'{"labels":["bug"]}'))])
    with index.db.writing() as sql:
        sql.execute("UPDATE labels SET name = 'bog'")
    with pytest.raises(DamageError):
        catalogue.labels()
    with pytest.raises(DamageError):
        catalogue.labelled("bog")


def test_names_like(catalogue: Catalogue) -> None:
    assert catalogue.names_like("p1", "name-0") == {"name-01", "name-04", "name-07"}
    assert catalogue.names_like("p1", "") == {entry.name for entry in catalogue.page("p1")}
    assert catalogue.names_like("p1", "z") == set()


def test_versions(catalogue: Catalogue) -> None:
    [version] = catalogue.versions(7)
    # what was appended since is part of it
    assert (version.number, version.head, version.records, version.action) == (1, 71, 6, "import")
    assert catalogue.versions(99) == []


@pytest.mark.parametrize(
    "change",
    ["head = 5", "records = 1", "updated_ms = 1", "title = 'other'", "metadata = '{}'", "created_ms = 7", "sum = 0"],
)
def test_a_row_that_was_changed_behind_our_back_is_refused(index: Index, catalogue: Catalogue, change: str) -> None:
    with index.db.writing() as sql:
        sql.execute(f"UPDATE contexts SET {change} WHERE id = 7")
    with pytest.raises(DamageError, match=r"contexts is damaged.*reindex"):
        catalogue.by_id(7)
    with pytest.raises(DamageError):
        catalogue.page()
    assert catalogue.by_id(8) is not None
    if change.startswith(("head", "records", "updated")):
        with pytest.raises(DamageError):
            catalogue.head(7)


def test_a_version_that_was_changed_behind_our_back_is_refused(index: Index, catalogue: Catalogue) -> None:
    with index.db.writing() as sql:
        sql.execute("UPDATE versions SET head = 3 WHERE context = 7")
    with pytest.raises(DamageError):
        catalogue.versions(7)


def test_what_is_asked_of_one_conversation_goes_through_no_others(
    index: Index, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Sequence[object]]] = []
    query = Database.query

    def noted(db: Database, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        asked.append((sql, parameters))
        return query(db, sql, parameters)

    monkeypatch.setattr(Database, "query", noted)
    catalogue.entry(1)
    catalogue.place(1)
    catalogue.subagents(1)
    catalogue.with_subagents([1])
    catalogue.started_by(1)
    catalogue.forks(1)
    catalogue.versions(1)
    catalogue.by_name("p1", "name-01")
    plans = [(sql, row[-1]) for sql, values in asked for row in query(index.db, f"EXPLAIN QUERY PLAN {sql}", values)]
    assert len(plans) >= 8
    assert [plan for plan in plans if plan[1].startswith("SCAN")] == []


def test_what_changes_in_one_conversation_goes_through_no_others(index: Index) -> None:
    metadata = {"project": "p1", "name": "other", "labels": ["bug"], "session": "s", "title": "another"}
    bodies = (
        Metadata(5, msgspec.json.encode(metadata)),
        HeadMoved(12, 6, FIRST, "edit"),
        HeadMoved(13, 7, FIRST, "append"),
        VersionsPruned(5, 100),
        Deleted(6),
    )
    asked: list[str] = []
    with index.db.writing() as sql:
        sql.set_trace_callback(asked.append)
        index.apply(HeadFrame(0, 1000 + number, 1, body) for number, body in enumerate(bodies))
        sql.set_trace_callback(None)
    plans = [(one, row[-1]) for one in asked for row in index.db.query(f"EXPLAIN QUERY PLAN {one}")]
    assert any(one.startswith("DELETE FROM labels") for one, _plan in plans)
    # of open turns there are few
    assert {plan for _one, plan in plans if plan.startswith("SCAN")} <= {"SCAN open_turns"}
    assert [index.db.query(f"SELECT * FROM {table} WHERE context = 1") for table in ("labels", "origins")] == [[], []]


def test_forks_are_found_by_what_they_branched_off(index: Index, catalogue: Catalogue) -> None:
    forked = [(41, {"context": 7, "turn": 70}), (42, {"context": 8, "turn": 80}), (43, {"context": 7, "turn": 71})]
    others: list[tuple[int, object]] = [(44, "a session"), (45, {"session": 7}), (46, None)]
    for context, origin in [*forked, *others]:
        metadata = {"project": "p", "name": f"fork-{context}", "forked_from": origin}
        frames: tuple[HeadFrame, ...] = (
            HeadFrame(0, 1000 + 2 * context, context, ContextCreated(0, FIRST, 0)),
            HeadFrame(0, 1001 + 2 * context, context, Metadata(5, msgspec.json.encode(metadata))),
        )
        index.apply(frames)
    assert [entry.id for entry in catalogue.forks(7)] == [41, 43]
    assert [entry.id for entry in catalogue.forks(8)] == [42]
    assert catalogue.forks(9) == []
