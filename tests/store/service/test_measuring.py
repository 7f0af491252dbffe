"""Appended turns are measured in the background."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.conversations.library import Library
from store.conversations.viewer import Viewer
from store.errors import DamageError
from store.index.catalogue import Catalogue
from store.service import background as module
from store.service.background import filing, measuring, naming
from store.store import Store

TYPE = "bench.entry.v1"
PATIENCE = 20


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def measured(store: Store, contexts: list[int]) -> list[int]:
    """Return how many events of each context have been counted."""
    known = store.views.measures(contexts)
    return [known[context].events if context in known else 0 for context in contexts]


def test_what_is_appended_is_measured_though_nobody_looks(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store, measuring(store):
        contexts = [store.contexts.create().context for _ in range(3)]
        for context in contexts:
            store.contexts.append_many(context, [Append(b"%d" % number, TYPE) for number in range(100)])
        until(lambda: measured(store, contexts) == [100, 100, 100])
        store.contexts.append(contexts[1], b"more", TYPE)
        until(lambda: measured(store, contexts) == [100, 101, 100])


@pytest.mark.logs(r"what was left is not known: the index is damaged")
@pytest.mark.parametrize(
    ("work", "look"), [(measuring, "unmeasured"), (filing, "without_sums"), (naming, "nameless")]
)
def test_nobody_waits_until_it_is_known_what_was_left(
    memory_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Store], AbstractContextManager[None]],
    look: str,
) -> None:
    began, may_end = threading.Event(), threading.Event()
    found = getattr(Catalogue, look)

    def slow(catalogue: Catalogue) -> object:
        began.set()
        assert may_end.wait(PATIENCE)
        return found(catalogue)

    monkeypatch.setattr(Catalogue, look, slow)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        with work(store):
            assert began.wait(PATIENCE)
            may_end.set()
        # what is damaged there ends nothing
        monkeypatch.setattr(Catalogue, look, lambda _catalogue: broken())
        with work(store):
            store.contexts.append(store.contexts.create().context, b"more", TYPE)


def broken() -> object:
    raise DamageError("the index is damaged")


def test_it_waits_while_very_much_is_appended(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY_A_SECOND", 0)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store, measuring(store):
        context = store.contexts.create().context
        for number in range(5):
            store.contexts.append(context, b"%d" % number, TYPE)
            time.sleep(module._PAUSE_SECONDS / 4)
        assert store.views.measures([context]) == {}
        # nothing comes any more
        until(
            lambda: store.views.measures([context])[context].events == 5 if store.views.measures([context]) else False
        )


def test_it_leaves_what_is_new_to_those_who_file_it(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store, measuring(store):
        with store.filing:
            context = store.contexts.create().context
            store.contexts.append_many(context, [Append(b"%d" % number, TYPE) for number in range(100)])
            time.sleep(5 * module._PAUSE_SECONDS)
            assert measured(store, [context]) == [0]
        until(lambda: measured(store, [context]) == [100])


def test_a_store_that_is_closed_is_left_alone(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        with measuring(store):
            context = store.contexts.create().context
            store.contexts.append_many(context, [Append(b"%d" % number, TYPE) for number in range(3000)])
        there = measured(store, [context])
        time.sleep(5 * module._PAUSE_SECONDS)
        assert measured(store, [context]) == there
    with Store.open(memory_path / "bare") as store, measuring(store):
        store.contexts.append(store.contexts.create().context, b"{}", TYPE)


def test_it_measures_more_at_a_time_once_nothing_comes_any_more(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    measure = Library.measure_some

    def counted(library: Library, context: int, most: int) -> bool:
        steps.append(most)
        return measure(library, context, most)

    monkeypatch.setattr(Library, "measure_some", counted)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store, measuring(store):
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(b"%d" % number, TYPE) for number in range(3000)])
        until(lambda: measured(store, [context]) == [3000])
    assert len(steps) <= 20
    assert set(steps[2:]) == {module._RECORDS_AT_REST}


def test_a_record_that_cannot_be_read_ends_the_measuring_for_now(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be tried again and again, from the same record on."""
    monkeypatch.setattr(Viewer, "_size", lambda _viewer, _digest: None)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        store.contexts.append_many(context, [Append(b"%d" % number, TYPE) for number in range(300)])
        assert store.library.measure_some(context, 100)


def test_whoever_follows_changes_ends_though_that_is_said_while_it_takes_some() -> None:
    changed = module._Changed()
    changed.put(1)
    assert changed.wait(0)
    changed.close()
    assert changed.take(8) == [1]
    thread = threading.Thread(target=changed.wait, args=(0,), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
