"""Memory stays within what the settings say, however small what is kept is."""

import gc
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from fusefs.tree.tree import Tree
from store.content import resolver
from store.content.sparing import sparing
from store.conversations import records
from store.conversations.contexts import Append
from store.service.background import RestingJob
from store.service.client import Client
from store.store import Store
from tests.fusefs.tree.conftest import store_path
from tests.fusefs.tree.mounting import TYPE, Mounted, mounted, user

__all__ = ["store_path"]

BOUND = 3 << 20
ROUNDS = 24 if "CONVFS_LARGE" in os.environ else 2
WARM = max(2, ROUNDS // 2)
"""Rounds until most that may be remembered is: SQLite keeps pages of the index for each thread that reads."""
CONVERSATIONS, TURNS = 25, 40


def grown(work: Callable[[], object]) -> int:
    """Return how many bytes more are taken after the work than before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def filled(root: Path, conversations: int, records: int, settings: str) -> None:
    """Make a store of many small records, which lie in the packs as they would after a while."""
    root.mkdir()
    (root / "convfs.toml").write_text(settings)
    with Store.open(root, renderer=FileRenderer()) as store:
        for number in range(conversations):
            context = store.contexts.create(metadata={"project": "many", "name": f"talk-{number}"}).context
            store.contexts.append_many(
                context, [Append(user(f"{number} {record}", record).encode(), TYPE) for record in range(records)]
            )
            # measured
            assert len([*store.records.rows(store.writer.head(context).tip)]) == records


def test_content_takes_what_it_may(memory_path: Path) -> None:
    root = memory_path / "store"
    filled(root, 1, 12_000, f"content_cache_bytes = {BOUND}\nrow_cache_bytes = 0\n")
    with Store.open(root, renderer=FileRenderer()) as store:
        store.contents.payload(1)

        def read() -> None:
            for turn in range(2, 12_001):
                store.contents.payload(turn)

        taken = grown(read)
        assert BOUND / 4 < taken < BOUND * 1.5


def test_rows_take_what_they_may(memory_path: Path) -> None:
    root = memory_path / "store"
    filled(root, 100, 120, f"row_cache_bytes = {BOUND}\n")
    with Store.open(root, renderer=FileRenderer()) as store:
        tree = Tree(store)

        def read() -> None:
            for context in range(1, 101):
                view = tree.view(tree.view_id(context))
                assert sum(1 for _entry in view.event_entries()) == 120
                assert view.transcript.size > 0
                assert view.json.size > 0

        assert BOUND / 4 < grown(read) < BOUND * 1.5


def test_threads_that_read_through_everything_remember_little(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "_ASIDE_BYTES", 1 << 14)
    monkeypatch.setattr(records, "_ROWS_ASIDE", 1)
    root = memory_path / "store"
    filled(root, 1, 2000, "")
    with Store.open(root, renderer=FileRenderer()) as store:
        head = store.writer.head(1).tip

        def read() -> None:
            for row in store.records.rows(head):
                assert store.contents.payload(row.turn)

        def read_sparingly() -> None:
            with sparing():
                read()

        # what the index is read with, and what is made once, is not counted
        read_sparingly()
        store.blobs.forget()
        store.records.forget_rows()
        least = grown(read_sparingly)
        assert grown(read) > 2 * least


def test_a_store_at_rest_goes_on(memory_path: Path) -> None:
    root = memory_path / "store"
    filled(root, 2, 50, "")
    with Store.open(root, renderer=FileRenderer()) as store:
        job = RestingJob(store)
        while store.texts.step() or store.search.step():
            pass
        rested: list[object] = []
        store.rest = lambda: rested.append(Store.rest(store))  # type: ignore[method-assign]
        for _ in range(3):
            # at the second: at the first it cannot know that nothing happens
            assert not job.step()
        assert len(rested) == 1
        head = store.writer.head(1).tip
        rows = store.records.rows(head)
        assert [text for _row, text in store.texts.files_of(rows[:])] == [
            store.texts._renderer.file(row.number, store.records.event(row)) for row in rows
        ]
        store.contexts.append_many(1, [Append(user("more", 51).encode(), TYPE)])
        assert len([*store.records.rows(store.writer.head(1).tip)]) == 51
        # listing reads no contents, and is work all the same
        until = time.process_time() + 1.0
        while time.process_time() < until:
            assert store.catalogue.page()
        for _ in range(3):
            assert not job.step()
        assert len(rested) == 2


def test_a_store_at_rest_remembers_little(memory_path: Path) -> None:
    root = memory_path / "store"
    filled(root, 1, 4000, "")
    with Store.open(root, renderer=FileRenderer()) as store:
        while store.texts.step():
            pass
        head = store.writer.head(1).tip

        def read() -> None:
            store.blobs.forget()
            store.records.forget_rows()
            rows = store.records.rows(head)[:]
            assert sum(1 for _row, text in store.texts.files_of(rows) if text) == 4000
            assert all(store.contents.payload(row.turn) for row in rows)

        def read_and_rest() -> None:
            read()
            store.rest()

        read_and_rest()
        assert 4 * grown(read_and_rest) < grown(read)


def test_a_store_at_rest_has_forgotten_the_words_that_it_filed(memory_path: Path) -> None:
    root = memory_path / "store"
    filled(root, 1, 1, "")
    with Store.open(root, renderer=FileRenderer()) as store:
        rounds = iter(range(9))

        def file() -> None:
            first = 5000 * next(rounds)
            text = " ".join(f"wörter{first + number}" for number in range(5000))
            store.contexts.append_many(1, [Append(user(text, first + 2).encode(), TYPE)])
            store.checkpointer.flush()
            while store.search.step():
                pass

        def file_and_rest() -> None:
            file()
            store.rest()

        file_and_rest()
        assert 2 * grown(file_and_rest) < grown(file)


def test_a_store_at_rest_has_forgotten_what_it_looked_up_to_write(memory_path: Path) -> None:
    root = memory_path / "store"
    filled(root, 1, 1, "")
    with Store.open(root, renderer=FileRenderer()) as store:
        items = [Append(user(f"{number} " * 10_000, number).encode(), TYPE) for number in range(50)]
        store.contexts.append_many(1, items)
        store.checkpointer.flush()

        def write_again() -> None:
            store.contexts.append_many(1, items)

        def write_again_and_rest() -> None:
            write_again()
            store.rest()

        write_again_and_rest()
        assert 4 * grown(write_again_and_rest) < grown(write_again)


def talked_and_read(mount: Mounted, client: Client, number: int) -> None:
    """Append to new conversations one by one, and read them: as files, as transcripts, with grep."""
    for one in range(CONVERSATIONS):
        name = f"talk-{number}-{one}"
        context = client.create_context(metadata={"project": "many", "name": name}).context
        for turn in range(TURNS):
            client.append(context, user(f"{number} {one} {turn} " + "word " * 200, turn).encode(), TYPE)
    mount.shell(f"cat conversations/many/talk-{number}-*/events/* transcripts/many/talk-{number}-* | wc -c")
    mount.shell(f"grep -c word conversations/many/talk-{number}-*/events.json; ls -lR conversations/many > /dev/null")
    mount.make_kernel_forget()


def resident(mount: Mounted) -> int:
    """Return how many KiB of memory the daemon has."""
    status = Path(f"/proc/{mount.daemon.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.timeout(60 + 60 * ROUNDS)
def test_a_daemon_takes_no_more_the_longer_it_is_used(store_path: Path) -> None:
    store_path.mkdir()
    (store_path / "convfs.toml").write_text(f"content_cache_bytes = {BOUND}\nrow_cache_bytes = {BOUND}\n")
    with mounted(store_path, "serving") as mount, Client.of(store_path) as client:
        for number in range(WARM):
            talked_and_read(mount, client, number)
        warm = resident(mount)
        for number in range(WARM, 2 + ROUNDS):
            talked_and_read(mount, client, number)
        now = resident(mount)
        assert now < 1.3 * warm
