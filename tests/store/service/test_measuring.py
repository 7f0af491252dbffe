"""Appended turns are measured in the background."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from fusefs.text.render import FileRenderer
from store.commit import pace
from store.conversations.contexts import Append
from store.conversations.library import Library
from store.conversations.viewer import Viewer
from store.errors import DamageError
from store.filing import Filing
from store.index.catalogue import Catalogue, ContextEntry
from store.redaction.redaction import Redaction
from store.service import background as module
from store.service import redacting
from store.service.background import filing, measuring, naming
from store.service.call import Holder
from store.service.naming import Names
from store.store import Store
from tests.waiting import PATIENCE, until

TYPE = "bench.entry.v1"


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


@pytest.mark.logs(r"what was left is not known: (the index is damaged|a fault of convfs: ZeroDivisionError)")
@pytest.mark.parametrize("error", [DamageError("the index is damaged"), ZeroDivisionError()])
@pytest.mark.parametrize(
    ("work", "look"), [(measuring, "unmeasured"), (filing, "without_sums"), (naming, "nameless")]
)
def test_nobody_waits_until_it_is_known_what_was_left(
    memory_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Store], AbstractContextManager[None]],
    look: str,
    error: Exception,
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
        monkeypatch.setattr(Catalogue, look, lambda _catalogue: broken(error))
        with work(store):
            store.contexts.append(store.contexts.create().context, b"more", TYPE)


def broken(error: Exception) -> object:
    raise error


@pytest.mark.logs(r"context 1 (cannot be measured|gets no name): a fault of convfs: ZeroDivisionError")
@pytest.mark.parametrize("work", [measuring, naming])
def test_a_fault_at_one_context_is_told_and_the_others_are_seen_to(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Store], AbstractContextManager[None]]
) -> None:
    measure, failed = Library.measure_some, threading.Event()

    def measured_some(library: Library, context: int, most: int) -> bool:
        if context == 1:
            failed.set()
            raise ZeroDivisionError
        return measure(library, context, most)

    def described(names: Names, entry: ContextEntry) -> dict[str, object]:
        if entry.id == 1:
            failed.set()
            raise ZeroDivisionError
        return {}

    monkeypatch.setattr(Library, "measure_some", measured_some)
    monkeypatch.setattr(Names, "_described", described)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store, work(store):
        first, second = (store.contexts.create().context for _ in range(2))
        store.contexts.append(first, b"{}", TYPE)
        assert failed.wait(PATIENCE)
        store.contexts.append(second, b"{}", TYPE)
        if work is measuring:
            until(lambda: measured(store, [first, second]) == [0, 1])
        else:
            until(lambda: [bool(store.catalogue.entry(one).name) for one in (first, second)] == [False, True])


@pytest.mark.logs(r"filed while nothing else goes on: a fault of convfs: ZeroDivisionError")
def test_a_fault_at_filing_is_told_and_what_comes_after_it_is_filed(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORTH_RECORDS", 1)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.05)
    draw, begun = Filing.draw, threading.Semaphore(0)

    def fails_once(_filing: Filing) -> None:
        monkeypatch.setattr(Filing, "draw", drawn)
        begun.release()
        raise ZeroDivisionError

    def drawn(filing: Filing) -> None:
        draw(filing)
        begun.release()

    monkeypatch.setattr(Filing, "draw", fails_once)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store, filing(store):
        context = store.contexts.create().context
        for number in range(2):
            store.contexts.append(context, b"%d" % number, TYPE)
            assert begun.acquire(timeout=PATIENCE)


def test_it_waits_while_something_is_redacted(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure, meanwhile = Library.measure_some, list[int]()

    def noted(library: Library, context: int, most: int) -> bool:
        if store.redacting.locked():
            meanwhile.append(context)
        return measure(library, context, most)

    monkeypatch.setattr(Library, "measure_some", noted)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store, measuring(store):
        context = store.contexts.create().context
        with store.redacting:
            store.contexts.append(context, b"more", TYPE)
            # twenty times as long as it waits otherwise
            time.sleep(20 * module._PAUSE_SECONDS)
        until(lambda: measured(store, [context]) == [1])
        assert meanwhile == []


def test_a_store_is_not_idle_while_something_is_redacted(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def noting(step: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*what: Any) -> Any:  # noqa: ANN401 - as the step
            seen.extend((store.activity, store.activity))
            return step(*what)

        return noted

    for name in ("find", "prove"):
        monkeypatch.setattr(redacting, name, noting(getattr(redacting, name)))
    monkeypatch.setattr(Redaction, "run", noting(Redaction.run))
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        store.contexts.append(store.contexts.create().context, b"a secret", TYPE)
        Holder(store).call(redacting.redact_plan((b"secret",)))
        Holder(store).call(redacting.redact((b"secret",)))
        assert len(set(seen)) == len(seen) == 8
        assert len({store.activity, store.activity}) == 1


def test_it_waits_while_very_much_is_appended(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_MANY_A_SECOND", 0)
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
