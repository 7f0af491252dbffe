"""The file of the index: kept up, damaged, made anew, made smaller."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.errors import DamageError
from store.ids import hash_bytes
from store.paths import SEARCH
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.retention.pruner import delete
from store.search import follower
from store.search.search import Search
from store.store import Store
from tests.model import freeze
from tests.store.editing.records import TYPE, called, conversation, dialogue, returned, said
from tests.store.search.looking import looked, searched
from tests.store.upkeep.test_gc import collect

FOUND = "a lock is held"


def filed(search: Search) -> None:
    while search.step():
        pass
    assert search.unfiled == 0


def talk(store: Store, name: str = "talk") -> int:
    records = [said(FOUND), called("Read", name), returned(f"{name} is read\n" * 90, name), *dialogue(20)]
    return conversation(store, records, name)


def check(store: Store) -> None:
    search = store.search
    for text in (FOUND, "is read", "line 1", "ne"):
        expected = looked(store, text, ignore_case=True)
        assert expected
        assert searched(search, f'"{text}"') == expected


def test_a_deleted_index_is_made_anew(memory_path: Path) -> None:
    for _ in range(2):
        with Store.open(memory_path, renderer=FileRenderer()) as store:
            if not len(store.catalogue.page()):
                talk(store)
            check(store)
            filed(store.search)
            check(store)
            assert os.stat(memory_path / SEARCH).st_mode & 0o777 == 0o600
        (memory_path / SEARCH).unlink()


def test_another_renderer_needs_another_index(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        talk(store)
        filed(store.search)
    monkeypatch.setattr(FileRenderer, "version", FileRenderer.version + 1)
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        assert store.search.unfiled == 23
        check(store)


def test_an_index_of_another_store_is_not_used(memory_path: Path) -> None:
    for name in "ab":
        with Store.open(memory_path / name, renderer=FileRenderer()) as store:
            talk(store, name)
            filed(store.search)
    (memory_path / "a" / SEARCH).replace(memory_path / "b" / SEARCH)
    with Store.open(memory_path / "b", renderer=FileRenderer()) as store:
        check(store)


@pytest.mark.of_one_machine("a replica fetches what it lacks")
def test_an_index_that_knows_more_than_the_logs_is_not_used(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        talk(store)
        earlier = freeze(store, memory_path / "earlier")
        talk(store, "more")
        filed(store.search)
    (memory_path / "store" / SEARCH).replace(earlier / SEARCH)
    with Store.open(earlier, renderer=FileRenderer()) as store:
        store.contexts.append_many(1, [Append(said("something else"), TYPE)] * 40)
        check(store)
        assert searched(store.search, "more") == {}


def test_a_killed_process_goes_on_where_it_was(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        talk(store)
        filed(store.search)
        talk(store, "more")
        left = freeze(store, memory_path / "killed")
    with Store.open(left, renderer=FileRenderer()) as store:
        assert store.search.unfiled == 23
        check(store)
        filed(store.search)
        check(store)


@pytest.mark.parametrize("place", range(12))
def test_damage_is_found_out_or_harms_nothing(memory_path: Path, place: int) -> None:
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        talk(store)
        filed(store.search)
    path = memory_path / SEARCH
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(size * place // 12)
        file.write(b"\xff" * 64)
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        talk(store, "more")
        with suppress(DamageError):
            store.search.step()
        for _ in range(3):
            try:
                list(store.search.run("lock"))
            except DamageError:
                continue
            break
        else:
            raise AssertionError("it stays damaged")


def test_what_was_deleted_for_good_is_dropped(memory_path: Path) -> None:
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        search = store.search
        gone = talk(store, "gone")
        talk(store, "kept")
        filed(search)
        assert search.holders.uris(limit=1000) == ["file:///src/gone.py", "file:///src/kept.py"]
        delete(store, gone, store.writer.head(gone).tip)
        assert searched(search, "gone") == {}
        store.checkpointer.flush()
        assert collect(store).turns == 23
        assert search.holders.uris(limit=1000) == ["file:///src/kept.py"]
        assert search.holders.turns_with(hash_bytes(b"gone is read\n" * 90)) == []
        filed(search)
        check(store)
        # made anew from what is left
        search.renew()
        check(store)
        filed(search)
        check(store)


def test_an_index_of_nothing_but_what_is_gone_is_made_anew(memory_path: Path) -> None:
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        search = store.search
        for number in range(5):
            gone = talk(store, f"gone{number}")
            filed(search)
            delete(store, gone, store.writer.head(gone).tip)
        talk(store, "kept")
        store.checkpointer.flush()
        collect(store)
        filed(search)
        check(store)
    with sqlite3.connect(memory_path / SEARCH) as sql:
        assert sql.execute("SELECT value FROM state WHERE key = 'dropped'").fetchall() == []


def test_what_was_filed_bit_by_bit_is_merged(memory_path: Path) -> None:
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        search = store.search
        context = talk(store)
        for number in range(60):
            store.contexts.append_many(context, [Append(said(f"text {number} " * 50 + f"{number * 7919}"), TYPE)])
            search._file_some()
        segments = "SELECT count(*) FROM segments"
        before = search.db.query(segments)
        filed(search)
        assert not search.step()
        assert search.db.query(segments) < before
        check(store)
        assert len(searched(search, "text")) == 60


def test_the_proof_looks_into_words_and_a_redaction_empties_them(memory_path: Path) -> None:
    secret = "tr0ub4dor_and_3"
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        conversation(store, [said(f"it is {secret}"), *dialogue(4)], "talk")
        filed(store.search)
        secrets = Secrets([secret.encode()])
        assert any(SEARCH in where for where in prove(store, secrets, ()).found)
        done = Redaction(store, secrets).run()
        filed(store.search)
        assert prove(store, secrets, done.gone).found == []
        assert searched(store.search, secret) == {}


def test_what_goes_while_it_is_read_is_not_filed(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_TURNS_AT_ONCE", 5)
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        search = store.search
        gone = talk(store, "gone")
        talk(store, "kept")
        # all of the first is read, some of the second, and none is filed
        for _ in range(6):
            assert search._file_some()
        assert search.unfiled == 46
        delete(store, gone, store.writer.head(gone).tip)
        store.checkpointer.flush()
        assert collect(store).turns == 23
        filed(search)
        assert search.holders.uris(limit=1000) == ["file:///src/kept.py"]
        assert search.db.query("SELECT count(*) FROM turns") == [(23,)]
        check(store)


def test_what_was_read_when_the_time_is_up_is_filed(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_TURNS_AT_ONCE", 5)
    with Store.open(memory_path, renderer=FileRenderer()) as store:
        talk(store)
        assert store.search._file_some()
        store.search.file_until(0.0)
        assert store.search.unfiled == 18
        check(store)
