"""Derived databases that are begun anew, as by a redaction, while somebody asks them: the answer is as it was."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread

import pytest

from fusefs.text.render import FileRenderer
from store.backlinks import Backlinks
from store.ids import hash_bytes
from store.index.database import Database, Row, asked_again
from store.store import Store
from tests.store.editing.records import called, conversation, dialogue, returned, said

_PATIENCE_SECONDS = 0.05
"""The time after which whoever begins one anew waits for the one who asks."""

QUESTIONS: dict[str, Callable[[Store], object]] = {
    # once somebody has seen a hit, only they can begin again
    "search": asked_again(lambda store: sorted(str(hit.row) for hit in store.search.run("line"))),
    "URIs": lambda store: store.search.holders.uris(100),
    "turns of a URI": lambda store: store.search.holders.turns_with_uri("file:///src/talk.py"),
    "turns of a content": lambda store: store.search.holders.turns_with(hash_bytes(b"talk is read\n" * 90)),
    "places": lambda store: [*store.search.holders.places(range(1, 16))],
    "files": lambda store: store.known_files.rows(1, store.writer.head(1).tip),
    "URIs of files": lambda store: store.known_files.uris(100),
    "backlinks": lambda store: sum(1 for _ in Backlinks(store).of_uris(["file:///src/talk.py"])),
}


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    """A store that has filed all of its two conversations."""
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        for name in ("talk", "other"):
            records = [said("a lock is held"), called("Read", name), returned(f"{name} is read\n" * 90, name)]
            conversation(store, [*records, *dialogue(6)], name)
        while store.search.step() or store.known_files.step():
            pass
        yield store


@pytest.mark.parametrize("question", QUESTIONS)
def test_who_asks_meanwhile_is_answered_as_before(store: Store, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are begun anew before each look into one."""
    ask, query = QUESTIONS[question], Database.query
    expected = ask(store)
    assert expected
    left = 0
    threads: list[Thread] = []

    def renew() -> None:
        for derived in (store.search, store.known_files):
            derived.renew()

    def query_later(database: Database, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        nonlocal left
        if database is not store.files.index.db:
            left -= 1
            if left == 0:
                threads.append(Thread(target=renew))
                threads[-1].start()
                threads[-1].join(_PATIENCE_SECONDS)
        return query(database, sql, parameters)

    monkeypatch.setattr(Database, "query", query_later)
    looks = 0
    while left <= 0:
        looks += 1
        left = 0
        while store.search.step() or store.known_files.step():
            pass
        left = looks
        assert ask(store) == expected, f"begun anew before look {looks}"
        for thread in threads:
            thread.join()
    assert looks > 1


@pytest.mark.parametrize("ask", [lambda store: store.insight.models(), lambda store: store.insight.report()])
def test_who_asks_for_counts_meanwhile_is_not_refused(
    store: Store, ask: Callable[[Store], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.insight.count()
    query, renewed = Database.query, []

    def query_later(database: Database, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        if database is not store.files.index.db and not renewed:
            renewed.append(True)
            store.insight.renew()
        return query(database, sql, parameters)

    monkeypatch.setattr(Database, "query", query_later)
    ask(store)
    assert renewed
