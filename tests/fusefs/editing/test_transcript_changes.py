"""Edited transcripts of real sessions: what is changed reaches its event, and no byte of any other record."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusefs.editing.desk import Desk
from fusefs.editing.targets import TRANSCRIPT_KEY
from fusefs.text import prose, transcript
from fusefs.text.parse import ParseError
from fusefs.text.transcript import Part
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from fusefs.tree.waiting import Later
from store.conversations.contexts import Append
from store.editing.editor import Editor
from store.errors import ConvfsError
from store.events.conversation import EventRow
from store.events.event import Event, Kind
from store.importing.importer import Importer
from store.store import Store
from tests.fusefs.editing.transcript_door import texts_of
from tests.fusefs.tree.mounting import REPOSITORY, TYPE, add, assistant, new_store, until, user
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES

NEW = "A question that nobody has asked yet."
MOST_EVENTS = 3000
"""Longer conversations are not edited: each example draws all of one."""


class Edited:
    """A conversation whose transcript is edited."""

    def __init__(self, store: Store, context: int) -> None:
        tree = Tree(store)
        self.store = store
        self.context = context
        target = Desk(Router(tree)).targets.keyed(tree.view_id(context), TRANSCRIPT_KEY)
        assert target is not None
        self.target = target
        self.rows = list(store.records.rows(store.library.conversation(context).head))
        shown = [row for row in self.rows if row.kind is not Kind.RECORD]
        self.events: list[tuple[EventRow, Event]] = []
        for row, event in store.viewer.events(shown):
            assert not isinstance(event, ConvfsError)
            self.events.append((row, event))

    def payloads(self) -> list[bytes]:
        """Return the bytes of all records, as they are now."""
        rows = self.store.records.rows(self.store.library.conversation(self.context).head)
        return [self.store.contents.payload(row.turn) for row in rows]

    def save(self, data: bytes) -> None:
        prepared = self.target.prepare(self.target.state(), data)
        if prepared is not None:
            prepared.commit(0)


def texts_in(text: str) -> Iterator[str]:
    """Yield a text, and the texts in it if it is JSON: a short one has no block of its own there."""
    yield text
    try:
        pending = [json.loads(text)]
    except ValueError:
        return
    while pending:
        value = pending.pop()
        if isinstance(value, str) and value != text:
            yield from texts_in(value)
        elif isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value


def edit_at_random(edited: Edited, data: st.DataObject) -> None:
    """Change, remove and add sections, save, and look at every record."""
    sections = {row.number: transcript.section(row.number, event).decode() for row, event in edited.events}
    before = edited.payloads()
    chosen = data.draw(st.lists(st.sampled_from(edited.events), max_size=3, unique_by=lambda one: one[0].number))
    expected: dict[int, tuple[Part, str]] = {}
    gone: set[int] = set()
    for row, event in chosen:
        texts = texts_of(row.number, event)
        if texts and data.draw(st.integers(0, 3)):
            at, part = data.draw(st.sampled_from(texts))
            cut = data.draw(st.integers(0, len(part.text)))
            more = data.draw(st.sampled_from(["X", " more ", "\nA line\n", "`", "**", "## "]))
            text = part.text[:cut] + more + part.text[cut:]
            expected[row.number] = part, (prose.read if part.is_prose else prose.read_code)(text)
            section = sections[row.number]
            sections[row.number] = section[:at] + text + section[at + len(part.text) :]
        else:
            gone.add(row.number)
            del sections[row.number]
    order = list(sections)
    # one in the place of one of its kind would be that
    new = data.draw(st.booleans()) and not any(row.kind is Kind.USER for row, _event in chosen if row.number in gone)
    if new:
        order.insert(data.draw(st.integers(0, len(order))), 0)
        sections[0] = f"\n## user\n\n{NEW}\n"
    head = transcript.head(edited.store.library.conversation(edited.context)).decode()
    try:
        edited.save((head + "".join(sections[number] for number in order)).encode())
    except ParseError:
        # what cannot be changed in an event's file cannot be changed here, either
        assert edited.payloads() == before
        return
    after = edited.payloads()
    rows = list(edited.store.records.rows(edited.store.library.conversation(edited.context).head))
    if new:
        (place,) = (place for place, payload in enumerate(after) if NEW.encode() in payload)
        assert edited.store.records.event(rows[place]).kind is Kind.USER
        del after[place], rows[place]
    assert len(after) == len(before)
    for row, was, now in zip(edited.rows, before, after, strict=True):
        if row.number not in expected:
            lens = edited.store.viewer.lens(edited.store.turns.get(row.turn))
            # a record that repeats another for the tool's own screen follows it
            assert now == was or (row.kind is Kind.RECORD and lens.reach), row.number
        assert rows[row.number - 1].deleted == (row.number in gone)
    for number, (part, text) in expected.items():
        event = edited.store.records.event(rows[number - 1])
        assert part.block is not None
        if text.strip("\n") != (part.block.text or "").strip("\n"):
            assert text.strip("\n") in [one.strip("\n") for block in event.blocks for one in texts_in(block.text or "")]


def edit_all(store: Store, examples: int) -> int:
    """Edit every conversation of a store, as often as there are to be examples; return how many there were."""
    done = 0
    for conversation in list(store.library.conversations()):
        edited = Edited(store, conversation.id)
        if not edited.events or len(edited.rows) > MOST_EVENTS:
            continue
        first = len(store.catalogue.versions(conversation.id))

        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(st.data())
        def edit(data: st.DataObject) -> None:
            Editor(store).restore(conversation.id, first)  # noqa: B023  (called at once)
            edit_at_random(Edited(store, conversation.id), data)  # noqa: B023

        edit()
        done += 1
    return done


@pytest.fixture
def store(store_path: Path) -> Iterator[Store]:
    with new_store(store_path) as store:
        yield store


def test_the_demo_set(store: Store) -> None:
    Importer(store).run([REPOSITORY / "fusefs/cli/demo"])
    assert edit_all(store, 30)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
def test_every_sample(store: Store) -> None:
    Importer(store).run([SAMPLES])
    assert edit_all(store, 3 if os.environ.get("CONVFS_LARGE_TESTS") else 2)


def test_a_save_is_worked_out_by_a_thread_while_the_mount_goes_on(store: Store) -> None:
    context = add(store, [user("Hello there", 1), assistant("word " * 100_000, 2)])
    tree = Tree(store)
    desk = Desk(Router(tree))
    target = desk.targets.keyed(tree.view_id(context), TRANSCRIPT_KEY)
    assert target is not None
    data = target.drawn().replace(b"Hello", b"Goodbye")
    role = desk.saves.open(target.ino, target, anew=True)
    role.write(0, data)
    let_go = threading.Event()
    others = [tree.workers.begin(let_go.wait) for _thread in range(4)]
    with pytest.raises(Later) as later:
        role.flush()
    assert not later.value.work.is_done
    let_go.set()
    until(lambda: later.value.work.is_done and all(other.is_done for other in others))
    role.flush()
    role.release()
    assert b"Goodbye there" in target.drawn()
    assert len(store.catalogue.versions(context)) == 2
    tree.workers.end()


def test_a_new_section_before_all_others_is_shown(store: Store) -> None:
    """Though the record before it is of a type for what nobody says."""
    context = add(store, [])
    elsewhere = Append(b'{"type":"summary","summary":"Another","leafUuid":"x"}', "claude-code.elsewhere.v1")
    store.contexts.append_many(context, [elsewhere, Append(user("Hello there", 1).encode(), TYPE)])
    edited = Edited(store, context)
    text = edited.target.drawn().decode()
    edited.save(text.replace("\n## 2 ", f"\n## user\n\n{NEW}\n\n## 2 ").encode())
    shown = edited.target.drawn().decode()
    assert shown.index(f"\n\n{NEW}\n") < shown.index("Hello there")
    assert edited.payloads()[0] == elsewhere.payload
