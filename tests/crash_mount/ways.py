"""Every way to save: its program, what it saves, and what may be seen of it when it was interrupted."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from store.editing.editor import Editor
from store.store import Store
from tests.crash_mount.harness import NAME, PROJECT, Bench, Seen, State, Told, look
from tests.crash_mount.programs import PROGRAMS, senseless, twice
from tests.fusefs.editing.talk import FIRST
from tests.fusefs.tree.mounting import TYPE, keep_each_save
from tests.store.editing.records import returned


def said_otherwise(old: bytes) -> bytes:
    """Return the file of the first event with another word in it."""
    assert b"Hello" in old
    return old.replace(b"Hello", b"Goodbye")


def with_more(old: bytes) -> bytes:
    """Return the file with a line more."""
    return old + b"One more line.\n"


def much_more(old: bytes) -> bytes:
    """Return the file with so much more that half of it makes sense."""
    return said_otherwise(old) + b"One more line.\n" * 20


def one_thing_more(_old: bytes) -> bytes:
    """Return the text of a new event."""
    return b"One thing more.\n"


Between = Callable[[State, State, bytes, bytes], list[State]]
"""Makes, of the state before and after and of the file's old and new content, the states that may lie between."""


def nothing(_old: State, _new: State, _before: bytes, _after: bytes) -> list[State]:
    return []


def drawn(text: bytes) -> bytes:
    """Return the text of an event as it is drawn again: there is a newline at its end."""
    return text if text.endswith(b"\n") else text + b"\n"


def first_word_more(old: State, _new: State, before: bytes, after: bytes) -> list[State]:
    """The content that was closed first is a state to save: the other descriptor may never write."""
    return [old.edited(FIRST, drawn(after[: len(before) + 5]))]


def first_half(old: State, _new: State, _before: bytes, after: bytes) -> list[State]:
    """The same, where what is closed first is the first half."""
    return [old.edited(FIRST, drawn(after[: len(after) // 2]))]


def as_long(old: State, _new: State, before: bytes, after: bytes) -> list[State]:
    """The file has been made longer, and closed, when what was mapped is written."""
    return [old.edited(FIRST, drawn(before.ljust(len(after), b"\0")))]


def both(old: State, _new: State, before: bytes, _after: bytes) -> list[State]:
    """The first of two saves."""
    return [old.edited(FIRST, twice(before))]


def without(old: State, action: str) -> State:
    """Return the state in which the first event is not there, in a version more."""
    key = f"{PROJECT}/{NAME}"
    talk = old.talks[key]
    events = {name: text for name, text in talk.events.items() if name != FIRST}
    left = replace(talk, events=events, versions=(*talk.versions, action))
    return replace(old, talks=old.talks | {key: left})


def gone_meanwhile(old: State, _new: State, _before: bytes, _after: bytes) -> list[State]:
    """The event was removed, which is a version until the program goes on."""
    return [without(old, f"delete-{FIRST[:5]}")]


def conversation_by_conversation(old: State, new: State, _before: bytes, _after: bytes) -> list[State]:
    """The conversation has begun, and has no event yet."""
    key = "fresh/talk"
    talk = new.talks[key]
    empty = replace(talk, events={}, versions=talk.versions[:-1])
    return [type(new)(old.talks | {key: empty}, old.trash)]


JSON, METADATA, RESOURCE = "../events.json", "../metadata.json", "../resources/src/c1.py"


def given_in_json(old: bytes) -> bytes:
    """Return ``events.json`` with the content of the first event given inline, and the last event taken out."""
    events = json.loads(old)
    events[0]["message"]["content"] = {"text": "Goodbye there"}
    return json.dumps(events[:-1], indent=2).encode() + b"\n"


def titled(old: bytes) -> bytes:
    """Return ``metadata.json`` with another title and a label."""
    return json.dumps(json.loads(old) | {"title": "Another talk", "labels": ["kept"]}, indent=2).encode() + b"\n"


@dataclass(frozen=True)
class Way:
    """A way to save.

    ``scratch`` are the names of what may be left beside the event, ``edits`` whether it is an edit of the first event
    to what ``text`` makes of it; ``name`` is the file that it is of. ``prepare`` changes the store before.
    ``removal``: what is removed is gone a while later. ``moves_away``: the program removes the event or moves it away
    first; where it ends then because something else fails, the event is gone, as it would be on any disk.
    ``vanishes``: so does all of the conversation.
    """

    program: str
    scratch: str = ""
    text: Callable[[bytes], bytes] = said_otherwise
    between: Between = nothing
    edits: bool = True
    name: str = FIRST
    removal: bool = False
    prepare: Callable[[Store], None] = lambda store: None
    saves: int = 1
    moves_away: bool = False
    vanishes: bool = False

    @property
    def id(self) -> str:
        """The name of the way."""
        return self.program if self.name == FIRST else f"{self.program}, {self.name[3:]}"

    def may_leave(self, name: str) -> bool:
        """Say whether a file of this name may be left in ``events/``."""
        return re.fullmatch(self.scratch.replace("FILE", re.escape(self.name)), name) is not None


def trash(store: Store) -> None:
    conversation = store.library.find(PROJECT, NAME)
    assert conversation is not None
    fork = Editor(store).fork(conversation.id, "gone")
    Editor(store).remove(fork.context)


def as_patches(store: Store) -> None:
    """Have edits kept as patches."""
    keep_each_save(store.root, 'edits = "overlay"')


def with_resource(store: Store) -> None:
    """Have the conversation go on with a file that a tool returned."""
    conversation = store.library.find(PROJECT, NAME)
    assert conversation is not None
    store.contexts.append(conversation.id, returned("def one():\n    pass\n", "c1", "r5"), TYPE)


def defined_otherwise(old: bytes) -> bytes:
    """Return the file with another name in it."""
    assert b"one" in old
    return old.replace(b"one", b"another")


_VIM = r"\.FILE\.sw[px]|4913|FILE~"

WAYS = [
    Way("vim", _VIM, moves_away=True),
    Way("vim slowly", _VIM, between=gone_meanwhile, moves_away=True),
    Way("vim backupcopy", _VIM),
    Way("vim twice", _VIM, between=both, saves=2, moves_away=True),
    Way("nano"),
    Way("emacs", r"\.#FILE|FILE~", moves_away=True),
    Way("emacs precious", r"\.#FILE|FILE~|tmpSIguBH"),
    Way("ed"),
    Way("sed i", "sed4NdwAA"),
    Way("sed i bak", r"sed4NdwAA|FILE\.bak", moves_away=True),
    Way("perl pi", "XXJHbiMk"),
    Way("rsync", r"\.FILE\.sEVBoN"),
    Way("cp a"),
    Way("install", moves_away=True),
    Way("tar", moves_away=True),
    Way("redirected"),
    Way("appended", text=with_more, between=first_word_more),
    Way("tee a", text=with_more),
    Way("vscode"),
    Way("sync often"),
    Way("cut after"),
    Way("cut by name"),
    Way("backwards"),
    Way("mapped", between=as_long),
    Way("mapped lazily", between=as_long),
    Way("duplicated", text=much_more, between=first_half),
    Way("inherited", text=much_more, between=first_half),
    Way("beside and rename", r"FILE\.[0-9]+\.tmp"),
    Way("rename while open", r"\.FILE\.swx"),
    Way("renamed onto", "draft of mine"),
    Way("new event", "user.md", text=one_thing_more, edits=False),
    Way("new event renamed", "tmp", text=one_thing_more, edits=False),
    Way("removed", edits=False, removal=True),
    Way("removed and synced", edits=False),
    Way("forked", edits=False),
    Way("begun", "user.md", text=one_thing_more, edits=False, between=conversation_by_conversation),
    Way("moved", edits=False),
    Way("vim twice", _VIM, between=both, saves=2, moves_away=True, prepare=as_patches),
    Way("duplicated", text=much_more, between=first_half, prepare=as_patches),
    Way("removed and synced", edits=False, prepare=as_patches),
    Way("removed as a whole", edits=False, vanishes=True),
    Way("brought back", edits=False, prepare=trash),
    Way("nano", text=given_in_json, edits=False, name=JSON),
    Way("beside and rename", r"FILE\.[0-9]+\.tmp", text=given_in_json, edits=False, name=JSON),
    Way("nano", text=defined_otherwise, edits=False, name=RESOURCE, prepare=with_resource),
    Way(
        "beside and rename",
        r"FILE\.[0-9]+\.tmp",
        text=defined_otherwise,
        edits=False,
        name=RESOURCE,
        prepare=with_resource,
    ),
    Way("nano", text=titled, edits=False, name=METADATA),
    Way("beside and rename", r"FILE\.[0-9]+\.tmp", text=titled, edits=False, name=METADATA),
    Way("scratch", "work/.*|renamed", edits=False),
    Way("refused", edits=False),
]


def test_every_program_is_driven() -> None:
    assert {way.program for way in WAYS} == set(PROGRAMS)


class Known:
    """A save that nothing interrupts: the files before and after, and the number of its steps."""

    def __init__(self, here: Bench, way: Way, template: Path) -> None:
        self.way = way
        here.begin(template)
        assert here.mount() is None, here.said()
        seen = look(here.root)
        self.old = seen.state
        self.before = (here.events / way.name).read_bytes()
        self.after = way.text(self.before)
        told = here.run(way.program, way.name, self.after)
        assert told.errno == 0, (told, here.said())
        here.settle(removal=way.removal)
        ended = here.unmount()
        assert ended["status"] == 0, here.said()
        seen = here.check_after(self.old)
        self.new = seen.state
        self.texts = [self.after, *(change(self.before) for change in (twice, senseless))]
        self.texts.append(self.before.ljust(len(self.after), b"\0"))
        between = way.between(self.old, self.new, self.before, self.after)
        if way.edits:
            expected = between[-1] if way.saves > 1 else self.old
            expected = expected.edited(FIRST, drawn(self.after))
            assert self.new == expected, f"{self.new} is not {expected}"
        self.states = [self.old, *between, self.new]
        self.failed_states = self.states[:]
        if way.moves_away:
            self.failed_states.append(without(self.old, f"delete-{FIRST[:5]}"))
        if way.saves > 1:
            # the first waited for room, and then the second was there
            self.failed_states.append(self.old.edited(FIRST, self.after))
        self.check_rest(seen, told)

    def check(self, seen: Seen, told: Told, *, failed: bool = False) -> None:
        """Check what is left of a save that was interrupted, or that ``failed``, after the next start."""
        states = self.failed_states if failed else self.states
        assert seen.state in states, f"{seen.state} is none of {states}"
        if told.saved >= self.way.saves:
            assert seen.state == self.new or (failed and told.saved > 1 and seen.state == states[-1])
        elif told.saved:
            assert seen.state != self.old
        if told.synced and seen.state == self.old:
            assert seen.scratch[f"{self.way.name}.draft"] in self.texts
        self.check_rest(seen, told, failed=failed)

    def check_rest(self, seen: Seen, told: Told, *, failed: bool = False) -> None:
        """Check the files beside the event."""
        for name, data in told.has.items():
            assert seen.scratch.get(name) == data, name
        left = {name for name in seen.scratch if not self.way.may_leave(name)}
        draft = f"{self.way.name}.draft"
        if draft in left and draft not in told.has:
            # what was being synced when the daemon was killed is kept, whether or not the program was told
            assert seen.state != self.new or self.new == self.old or failed
            assert any(text.startswith(seen.scratch[draft]) for text in self.texts)
        assert left <= {draft}, f"there are {left}"
