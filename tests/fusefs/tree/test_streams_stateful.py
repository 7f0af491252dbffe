"""Open turns in the tree, through every order of what may happen, told of late: what is listed is what is read."""

import json
import shutil
from functools import partial

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from fusefs.inodes import Place
from fusefs.text.render import FileRenderer
from fusefs.tree.events import EventsDirectory
from fusefs.tree.node import File
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from store.conversations.open_turns import OpenTurn
from store.disk.turn_format import Encoding
from store.editing.editor import DELETED, Editor
from store.events.conversation import Change
from store.store import Store
from tests.conftest import scratch
from tests.fusefs.tree.mounting import TYPE, add, assistant, user
from tests.model import findings

_WHOLE = 1 << 40
TEXTS = st.text(st.sampled_from('ab é😀\n`"\\'), max_size=12) | st.sampled_from(["", "\n````block text\n", "![x](y "])
JSON_TYPES = (TYPE, "jp.event.v1", "somebody.else.v1")


def record(type_name: str, text: str) -> bytes:
    """Return a record that says ``text``."""
    if type_name == TYPE:
        return assistant(text, 7).encode()
    said = {"timestamp": "2026-03-05 12:00:04.0", "type": "chat_response", "message": text}
    return json.dumps(said, ensure_ascii=False).encode()


class StreamsMachine(RuleBasedStateMachine):
    """A tree that is told of what happens some time after it did."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = scratch()
        self.store = Store.open(self.directory / "store", renderer=FileRenderer())
        self.context = add(self.store, [user("first", 1)])
        self.tree = Tree(self.store)
        self.router = Router(self.tree)
        self.told: list[Change] = []
        self.store.observers.add(self.told.append, texts=True)
        self.turns: list[tuple[OpenTurn, bytes]] = []
        self.shown = b""

    def teardown(self) -> None:
        assert findings(self.store) == []
        self.store.close()
        shutil.rmtree(self.directory)

    @rule(kind=st.sampled_from(["assistant", "note", "user"]))
    def open_text(self, kind: str) -> None:
        self.turns.append((self.store.open_turns.open(self.context, f"text.{kind}.v1"), b""))

    @rule(type_name=st.sampled_from(JSON_TYPES), text=TEXTS)
    def open_record(self, type_name: str, text: str) -> None:
        turn = self.store.open_turns.open(self.context, type_name, encoding=Encoding.JSON)
        self.turns.append((turn, record(type_name, text)))

    @rule(encoding=st.sampled_from([Encoding.MSGPACK, Encoding.RAW_BYTES, Encoding.JSON]), data=st.binary(max_size=9))
    def open_other(self, encoding: int, data: bytes) -> None:
        self.turns.append((self.store.open_turns.open(self.context, "somebody.else.v1", encoding=encoding), data))

    has_open = precondition(lambda self: bool(self.turns))

    @has_open
    @rule(at=st.integers(0, 9), size=st.integers(1, 60), text=TEXTS)
    def go_on(self, at: int, size: int, text: str) -> None:
        at %= len(self.turns)
        turn, rest = self.turns[at]
        piece = rest[:size] or text.encode()
        turn.add(piece)
        self.turns[at] = (turn, rest[size:])

    @has_open
    @rule(at=st.integers(0, 9))
    def seal(self, at: int) -> None:
        turn, rest = self.turns.pop(at % len(self.turns))
        turn.add(rest)
        turn.seal()

    @has_open
    @rule(at=st.integers(0, 9))
    def drop(self, at: int) -> None:
        self.turns.pop(at % len(self.turns))[0].abort()

    @rule()
    def append(self) -> None:
        self.store.contexts.append(self.context, user("beside", 3).encode(), TYPE)

    @rule(text=st.sampled_from([user("changed", 1).encode(), DELETED]))
    def edit(self, text: bytes) -> None:
        Editor(self.store).edit(self.context, {1: text})

    @rule()
    def be_told(self) -> None:
        for change in self.told:
            view_id = self.tree.view_id(change.context_id)
            if change.moved or change.described:
                self.tree.changed(view_id)
            for stale in self.tree.streams.stale(view_id):
                assert stale.name is None or stale.name.endswith(b".md")
        self.told.clear()

    @rule(
        kind=st.sampled_from(["assistant", "reasoning"]),
        words=st.lists(st.sampled_from(["a", "b c", " é", "😀", "\n", "`"]), max_size=5),
        tells=st.lists(st.booleans(), min_size=7, max_size=7),
    )
    def write(self, kind: str, words: list[str], tells: list[bool]) -> None:
        """While a text is written and nothing else happens, what was shown goes on as it was, and so in the end."""
        while self.turns:
            self.drop(0)
        self.be_told()
        turn = self.store.open_turns.open(self.context, f"text.{kind}.v1")
        steps = [*(partial(turn.add, word.encode()) for word in words), turn.seal]
        self.look()
        for step, told in zip(steps, tells, strict=False):
            before = self.shown
            step()
            if told:
                self.be_told()
            self.look()
            assert self.shown.startswith(before)
        self.be_told()
        before = self.shown
        self.look()
        assert self.shown == before

    @invariant()
    def look(self) -> None:
        view_id = self.tree.view_id(self.context)
        transcript = self.router.place(view_id, Place.TRANSCRIPT)
        assert isinstance(transcript, File)
        size = transcript.attributes().size
        text = transcript.open().read(0, _WHOLE)
        assert len(text) == size
        assert text[7:] == transcript.open().read(7, _WHOLE)
        # after the head, in which the time of the last change stands
        self.shown = text.partition(b"\n# ")[2]
        events = self.router.place(view_id, Place.EVENTS)
        assert isinstance(events, EventsDirectory)
        listed = list(events.entries(0))
        assert [entry.position for entry in listed] == sorted({entry.position for entry in listed})
        assert list(events.entries(max((entry.position for entry in listed), default=0))) == []
        for entry in listed:
            found = self.router.find(events, entry.name.decode())
            node = self.router.node(entry.attributes.ino)
            assert isinstance(found, File)
            assert isinstance(node, File)
            assert found.attributes() == node.attributes() == entry.attributes
            assert len(node.open().read(0, _WHOLE)) == entry.attributes.size
            assert node.xattrs()["event"] == str(int(entry.name[:5]))


def test_open_turns_are_shown_as_they_are() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        StreamsMachine,
        settings=settings(
            max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
