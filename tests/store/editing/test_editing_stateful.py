"""Edited conversations against lists, through every order of operations that hypothesis thinks of."""

import json
import shutil

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fusefs.text.render import FileRenderer
from store.commit import intake
from store.conversations.contexts import Append
from store.disk.turn_format import DELETED as FLAG
from store.editing import commit
from store.editing.commit import Changed, Item, Replacement
from store.editing.editor import DELETED, Editor
from store.errors import Conflict
from store.store import Store
from store.upkeep import recovery
from store.upkeep.fsck import fsck
from tests.conftest import scratch
from tests.model import freeze
from tests.store.content.noise import edited, noise
from tests.store.editing.measured import check_branch, check_measures
from tests.store.editing.records import TYPE, called, returned, said

JOURNAL_BYTES = 64 << 10

KEYS = st.sampled_from(["", "a", "b", "c"])
PARENTS = st.sampled_from([None, "a", "b", "c", "gone"])
CALLS = st.sampled_from(["c1", "c2"])
VERSIONS = st.lists(st.sampled_from([0.0, 0.3, 0.6, 1.0]), max_size=3).map(lambda at: edited(noise(4000), *at).decode())
LINES = st.one_of(
    st.builds(said, st.sampled_from(["", "Hello", "x" * 1500]), KEYS, PARENTS),
    st.builds(called, st.sampled_from(["Bash", "Read"]), CALLS, KEYS, PARENTS),
    st.builds(returned, st.sampled_from(["done", "x" * 1200]), CALLS, KEYS, PARENTS),
    st.builds(returned, VERSIONS, CALLS, KEYS, PARENTS),
    st.sampled_from([b"", b"{}", b"\0\xff", b"not json"]),
)
TYPES = st.sampled_from([TYPE, TYPE, TYPE, "jp.event.v1", "unheard.of"])
NAMES = st.sampled_from(["one", "two", "three", "four"])
NUMBERS = st.integers(0, 1000)

Record = tuple[bytes, str, bool]
"""A record's payload and type, and whether it was deleted."""


class Talk:
    """A model of a conversation: its records, its versions, its name."""

    def __init__(self, name: str, records: list[Record]) -> None:
        self.name = name
        self.records = records
        self.versions: list[tuple[str, list[Record]]] = []
        self.past: dict[int, list[Record]] = {}
        """Its earlier states, by the number of the last frame of the head log then."""
        self.labels: list[str] | None = None
        self.trashed = False

    def move(self, action: str, records: list[Record]) -> None:
        if records != self.records:
            self.records = records
            self.versions.append((action, list(records)))


class EditingMachine(RuleBasedStateMachine):
    """Every rule does something to the store and the same to the model."""

    modes: tuple[str, ...] = ("branch",)
    """The values of ``edits``, the first to begin with."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = scratch()
        self.copies = 0
        self.mode = self.modes[0]
        self.talks: dict[int, Talk] = {}
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(recovery, "JOURNAL_BYTES", JOURNAL_BYTES)
        for module in (intake, commit, recovery):
            self.patch.setattr(module, "LEAST_BYTES", 1000)

    @initialize()
    def open(self) -> None:
        self.go_on(Store.open(self.directory / "store", renderer=FileRenderer()))

    def go_on(self, store: Store) -> None:
        self.store, self.editor = store, Editor(store)
        self.switch(self.mode)

    @rule(mode=st.sampled_from(["branch", "overlay"]))
    def switch(self, mode: str) -> None:
        if mode in self.modes:
            self.mode = mode
            self.store.settings = msgspec.structs.replace(self.store.settings, edits=mode)

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                try:
                    self.check_all()
                    assert fsck(self.store) == []
                finally:
                    self.store.close()
                with Store.open(self.store.root, renderer=FileRenderer(), reindex=True) as again:
                    self.go_on(again)
                    self.check_all()
                    check_measures(again)
                    assert fsck(again) == []
        finally:
            self.patch.undo()
            shutil.rmtree(self.directory)

    # -- choosing --------------------------------------------------------------------------------------------------

    def talk(self, number: int) -> tuple[int, Talk]:
        contexts = sorted(self.talks)
        context = contexts[number % len(contexts)]
        return context, self.talks[context]

    def free(self, name: str, context: int = 0) -> bool:
        return not any(
            talk.name == name and not talk.trashed and other != context for other, talk in self.talks.items()
        )

    has_talk = precondition(lambda self: bool(self.talks))

    # -- making ----------------------------------------------------------------------------------------------------

    @rule(name=NAMES, lines=st.lists(st.tuples(LINES, TYPES), max_size=8))
    def create(self, name: str, lines: list[tuple[bytes, str]]) -> None:
        if not self.free(name):
            with pytest.raises(Conflict):
                self.editor.create("p", name)
            return
        context = self.editor.create("p", name).context
        talk = self.talks[context] = Talk(name, [])
        if lines:
            self.store.contexts.append_many(context, [Append(*line) for line in lines])
            talk.move("append", [(*line, False) for line in lines])

    @has_talk
    @rule(number=NUMBERS, name=NAMES, at=NUMBERS)
    def fork(self, number: int, name: str, at: int) -> None:
        context, talk = self.talk(number)
        at = at % (len(talk.records) + 1)
        if not self.free(name):
            with pytest.raises(Conflict):
                self.editor.fork(context, name, at=at)
            return
        fork = self.editor.fork(context, name, at=at).context
        other = self.talks[fork] = Talk(name, [])
        other.labels = talk.labels
        other.move("fork", talk.records[:at] if at else list(talk.records))

    # -- changing --------------------------------------------------------------------------------------------------

    @has_talk
    @rule(
        number=NUMBERS,
        changes=st.dictionaries(NUMBERS, st.one_of(LINES, st.just(DELETED), st.none()), min_size=1, max_size=3),
    )
    def edit(self, number: int, changes: dict[int, Replacement | None]) -> None:
        context, talk = self.talk(number)
        if not talk.records:
            return
        records = list(talk.records)
        wanted: dict[int, Replacement] = {}
        for at, content in changes.items():
            at %= len(records)
            payload, kind, _deleted = talk.records[at]
            # None: what is there, which brings back what was deleted
            wanted[at + 1] = content = payload if content is None else content
            records[at] = (payload, kind, True) if content is DELETED else (content, kind, False)
        self.editor.edit(context, wanted, action="edit")
        talk.move("edit", records)

    @has_talk
    @rule(number=NUMBERS, at=NUMBERS, word=st.sampled_from(["one", "two", "x" * 1300]))
    def correct(self, number: int, at: int, word: str) -> None:
        """Change what a record says, and nothing that others refer to it by."""
        context, talk = self.talk(number)
        if not talk.records:
            return
        records = list(talk.records)
        at %= len(records)
        payload, kind, _deleted = records[at]
        try:
            new = json.dumps({**json.loads(payload), "note": word}).encode()
        except ValueError:
            new = b"not json, " + word.encode()
        records[at] = (new, kind, False)
        turns = self.store.files.turns.count
        self.editor.edit(context, {at + 1: new}, action="edit")
        if self.mode == "overlay":
            assert self.store.files.turns.count == turns
        talk.move("edit", records)

    @has_talk
    @rule(number=NUMBERS, chosen=st.sets(NUMBERS, min_size=1, max_size=3))
    def delete(self, number: int, chosen: set[int]) -> None:
        context, talk = self.talk(number)
        if not talk.records:
            return
        records = list(talk.records)
        numbers = {at % len(records) + 1 for at in chosen}
        for at in numbers:
            records[at - 1] = (*records[at - 1][:2], True)
        turns = self.store.files.turns.count
        self.editor.edit(context, dict.fromkeys(numbers, DELETED), action="delete")
        if self.mode == "overlay":
            assert self.store.files.turns.count == turns
        talk.move("delete", records)

    @has_talk
    @rule(number=NUMBERS, lines=st.lists(st.tuples(LINES, TYPES), min_size=1, max_size=3))
    def append(self, number: int, lines: list[tuple[bytes, str]]) -> None:
        context, talk = self.talk(number)
        self.editor.append(context, [Append(*line) for line in lines], action="add")
        talk.move("add", talk.records + [(*line, False) for line in lines])

    @has_talk
    @rule(number=NUMBERS, line=LINES, kind=TYPES)
    def a_program_appends(self, number: int, line: bytes, kind: str) -> None:
        context, talk = self.talk(number)
        self.store.contexts.append(context, line, kind)
        talk.records = [*talk.records, (line, kind, False)]
        if talk.versions:
            talk.versions[-1] = (talk.versions[-1][0], list(talk.records))
        else:
            talk.versions.append(("append", list(talk.records)))

    @has_talk
    @rule(
        number=NUMBERS,
        items=st.lists(st.one_of(NUMBERS, st.tuples(NUMBERS, LINES), st.tuples(LINES, TYPES)), max_size=10),
        whole=st.booleans(),
    )
    def rewrite(self, number: int, items: list[object], whole: bool) -> None:
        context, talk = self.talk(number)
        count = len(talk.records)
        wanted: list[Item] = list(range(1, count + 1)) if whole else []
        records = list(talk.records) if whole else []
        for item in items:
            match item:
                case int(at) if count:
                    wanted.append(at % count + 1)
                    records.append(talk.records[at % count])
                case (int(at), bytes(line)) if count:
                    wanted.append(Changed(at % count + 1, line))
                    records.append((line, talk.records[at % count][1], False))
                case (bytes(line), str(kind)):
                    wanted.append(Append(line, kind))
                    records.append((line, kind, False))
        self.editor.rewrite(context, wanted)
        # what stands where it stood is what it was; what is written anew is another state, whatever it says
        before = self.heads(context)
        if records != talk.records or (talk.versions and before != len(talk.versions)):
            talk.records = records
            talk.versions.append(("rewrite", list(records)))

    def heads(self, context: int) -> int:
        return len(self.store.catalogue.versions(context))

    @has_talk
    @rule(number=NUMBERS, version=NUMBERS)
    def restore(self, number: int, version: int) -> None:
        context, talk = self.talk(number)
        versions = self.store.catalogue.versions(context)
        if versions:
            chosen = version % len(versions)
            moved = versions[chosen].head != self.store.writer.head(context).tip
            self.editor.restore(context, chosen + 1)
            if moved:
                talk.records = list(talk.versions[chosen][1])
                talk.versions.append((f"restore {chosen + 1}", list(talk.records)))

    # -- keeping ---------------------------------------------------------------------------------------------------

    @has_talk
    @rule(number=NUMBERS, name=NAMES)
    def rename(self, number: int, name: str) -> None:
        context, talk = self.talk(number)
        if talk.trashed:
            return
        if self.free(name, context):
            self.editor.rename(context, "p", name)
            talk.name = name
        else:
            with pytest.raises(Conflict):
                self.editor.rename(context, "p", name)

    @has_talk
    @rule(number=NUMBERS, labels=st.one_of(st.none(), st.lists(NAMES, unique=True)))
    def label(self, number: int, labels: list[str] | None) -> None:
        context, talk = self.talk(number)
        self.editor.describe(context, {"labels": labels})
        talk.labels = labels or None

    @has_talk
    @rule(number=NUMBERS)
    def remove(self, number: int) -> None:
        context, talk = self.talk(number)
        self.editor.remove(context)
        talk.trashed = True

    @has_talk
    @rule(number=NUMBERS, back=st.sampled_from(["", "back"]))
    def bring_back(self, number: int, back: str) -> None:
        context, talk = self.talk(number)
        if not talk.trashed:
            return
        name = back or talk.name
        if self.free(name, context):
            self.editor.bring_back(context, name=back)
            talk.name, talk.trashed = name, False
        else:
            with pytest.raises(Conflict):
                self.editor.bring_back(context, name=back)

    # -- opening and closing ---------------------------------------------------------------------------------------

    @rule()
    def flush(self) -> None:
        self.store.checkpointer.flush()

    @rule(reindex=st.booleans())
    def reopen(self, reindex: bool) -> None:
        self.store.close()
        self.go_on(Store.open(self.store.root, renderer=FileRenderer(), create=False, reindex=reindex))
        assert self.store.recovered == []

    @rule(boot=st.sampled_from(["", "another"]))
    def kill(self, boot: str) -> None:
        """Go on with a copy of the open store: as after kill -9, or in another boot of the machine."""
        self.copies += 1
        copy = freeze(self.store, self.directory / f"copy{self.copies}")
        self.store.close()
        shutil.rmtree(self.store.root)
        with pytest.MonkeyPatch.context() as patch:
            if boot:
                (self.directory / "boot").write_text(f"{boot}{self.copies}")
                patch.setattr(recovery, "_BOOT_ID", self.directory / "boot")
            self.go_on(Store.open(copy, renderer=FileRenderer(), create=False))

    # -- comparing -------------------------------------------------------------------------------------------------

    def records_at(self, head: int) -> list[Record]:
        turns = self.store.turns.path_to_root(head) if head else []
        return [
            (
                self.store.contents.payload(turn.turn_id),
                self.store.contents.type_name(turn.type_tag),
                bool(turn.flags & FLAG),
            )
            for turn in turns
        ]

    @invariant()
    def branches_are_those_of_the_model(self) -> None:
        for context, talk in self.talks.items():
            assert self.records_at(self.store.contexts.tip(context)) == talk.records
            talk.past[self.store.writer.seq] = talk.records

    @has_talk
    @rule(number=NUMBERS)
    def look(self, number: int) -> None:
        """Have what an edit did not measure measured now."""
        context, _talk = self.talk(number)
        check_branch(self.store, self.store.writer.head(context).tip)

    def check_all(self) -> None:
        listed = {talk.id: talk.name for talk in self.store.library.conversations()}
        assert listed == {context: talk.name for context, talk in self.talks.items() if not talk.trashed}
        trashed = {talk.id: talk.name for talk in self.store.library.trash()}
        assert trashed == {context: talk.name for context, talk in self.talks.items() if talk.trashed}
        for context, talk in self.talks.items():
            versions = self.store.catalogue.versions(context)
            assert [version.action for version in versions] == [action for action, _records in talk.versions]
            for version, (_action, records) in zip(versions, talk.versions, strict=True):
                assert self.records_at(version.head) == records
                assert version.records == len(records)
            for seq, records in talk.past.items():
                assert self.records_at(self.store.contexts.tip(context, seq)) == records
            assert self.store.library.conversation(context).metadata.get("labels") == talk.labels
        check_measures(self.store)


class OverlayMachine(EditingMachine):
    """As a store with ``edits = "overlay"``."""

    modes = ("overlay",)


class MixedMachine(EditingMachine):
    """As a store whose setting is changed now and then."""

    modes = ("overlay", "branch")


@pytest.mark.parametrize("machine", [EditingMachine, OverlayMachine, MixedMachine])
def test_editing_behaves_like_the_model(machine: type[EditingMachine]) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
