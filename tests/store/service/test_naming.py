"""Contexts that programs make without a name, and how they are found."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.commit.request import Request
from store.disk.turn_format import Encoding
from store.events.event import Kind
from store.service.background import naming
from store.service.client import Client
from store.service.server import Service, serving
from store.store import Store
from tests.store.formats.conversation_items import TALK, TYPE, in_integers, in_texts, item, user

DAY = 1_772_712_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        yield store


def context(store: Store, **metadata: object) -> int:
    return store.contexts.create(metadata={"started_ms": DAY, **metadata}).context


def say(store: Store, context: int, said: object) -> None:
    store.contexts.append(context, in_texts(said), TYPE, encoding=Encoding.MSGPACK, type_version=3)


def name_of(store: Store, context: int) -> str:
    """Return what a context is called, once it is called something."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        entry = store.catalogue.entry(context)
        if entry.name:
            return f"{entry.project}/{entry.name}"
        time.sleep(0.005)
    raise AssertionError("it has no name")


def test_a_context_is_named_by_what_its_first_turn_says(store: Store) -> None:
    with naming(store):
        made = context(store)
        say(store, made, TALK[0])
        assert name_of(store, made) == "cxtx/2026-03-05-a-talk"
        entry = store.catalogue.entry(made)
        assert (entry.title, entry.format, entry.metadata["labels"]) == ("A talk", "cxdb", ["a", "b"])
        for said in TALK[1:]:
            say(store, made, said)
    found = store.library.find("cxtx", "2026-03-05-a-talk")
    assert found is not None
    assert found.events == len(TALK)


def test_what_says_nothing_of_itself(store: Store) -> None:
    with naming(store):
        asked, told, opaque = context(store), context(store), context(store)
        say(store, asked, user("# Fix the login:\n\nit fails"))
        say(store, told, item("system", system={"kind": "info", "content": "started"}))
        store.contexts.append(opaque, b"\0\xff", "com.example.opaque", encoding=Encoding.RAW_BYTES)
        assert name_of(store, asked) == "appended/2026-03-05-fix-the-login-it-fails"
        assert name_of(store, told) == f"appended/2026-03-05-context-{told}"
        assert name_of(store, opaque) == f"appended/2026-03-05-context-{opaque}"


def test_names_that_are_taken(store: Store) -> None:
    with naming(store):
        made = [context(store) for _ in range(3)]
        for one in made:
            say(store, one, TALK[0])
        names = {name_of(store, one) for one in made}
    assert names == {f"cxtx/2026-03-05-a-talk{number}" for number in ("", "-2", "-3")}


def test_programs_that_begin_together_share_no_name(store: Store) -> None:
    made = [context(store) for _ in range(100)]
    with naming(store):
        for one in made:
            say(store, one, TALK[0])
        names = [name_of(store, one) for one in made]
    assert set(names) == {"cxtx/2026-03-05-a-talk", *(f"cxtx/2026-03-05-a-talk-{number}" for number in range(2, 101))}


def test_a_name_that_somebody_else_takes_meanwhile(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    quicker, submit_all = context(store), store.writer.submit_all
    taken = ("cxtx", "2026-03-05-a-talk")

    def take_first(requests: Sequence[Request]) -> None:
        if any(request.name == taken for request in requests) and not store.catalogue.entry(quicker).name:
            store.contexts.set_metadata(quicker, {"project": taken[0], "name": taken[1]})
        submit_all(requests)

    monkeypatch.setattr(store.writer, "submit_all", take_first)
    made = [context(store), context(store)]
    for one in made:
        say(store, one, TALK[0])
    with naming(store):
        names = {name_of(store, one) for one in made}
    assert names == {"cxtx/2026-03-05-a-talk-2", "cxtx/2026-03-05-a-talk-3"}
    assert name_of(store, quicker) == "/".join(taken)


def test_what_a_program_said_stays(store: Store) -> None:
    with naming(store):
        half = context(store, project="shop", title="Mine", labels=["x"])
        whole = context(store, project="shop", name="own")
        for one in (half, whole):
            say(store, one, TALK[0])
        assert name_of(store, half) == "shop/2026-03-05-mine"
        assert store.catalogue.entry(half).metadata["labels"] == ["x"]
        assert name_of(store, whole) == "shop/own"
        assert "labels" not in store.catalogue.entry(whole).metadata


def test_a_client_of_the_wire_protocol_is_read_as_a_conversation(store: Store, runtime_path: Path) -> None:
    with serving(Service(store, ())) as place, Client(place.socket) as client:
        made = client.create_context().context
        for said in TALK:
            client.append(made, in_texts(said), TYPE, encoding=Encoding.MSGPACK, type_version=3)
        project, _, name = name_of(store, made).partition("/")
    found = store.library.find(project, name)
    assert found is not None
    assert [row.kind for row in store.records.rows(found.head)][:3] == [Kind.USER, Kind.ASSISTANT, Kind.SYSTEM]


def test_empty_ones_and_the_trash_wait_and_earlier_ones_are_found(store: Store) -> None:
    early, empty, gone = context(store), context(store), context(store, trashed_ms=DAY)
    for one in (early, gone):
        store.contexts.append(one, in_integers(TALK[0]), TYPE, encoding=Encoding.MSGPACK)
    with naming(store):
        assert name_of(store, early) == "cxtx/2026-03-05-a-talk"
        say(store, early, TALK[1])
        assert not store.catalogue.entry(empty).name
        assert not store.catalogue.entry(gone).name
    # nobody names anything any more
    say(store, empty, TALK[0])
    time.sleep(0.05)
    assert not store.catalogue.entry(empty).name
    assert store.catalogue.nameless() == [empty]
