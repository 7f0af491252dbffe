"""Two stores that are changed and carried from at random: in the end both have every state, and nothing more comes."""

import random
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.editing.editor import Editor
from store.editing.keeper import Keeper
from store.events.event import DELETED
from store.store import Store
from store.transfer.states import State, born_of, earlier_states
from store.upkeep.fsck import fsck
from tests.store.importing.sessions import line, lines, session
from tests.store.transfer.stores import brought_in, did, exported, talks, turns

JSON = "application/json"


def present(store: Store) -> set[tuple[str, bytes]]:
    """Return the states that conversations are in, with their births."""
    found = set()
    for talk in talks(store).values():
        state = State(store, talk.head)
        found.add((born_of(store, store.catalogue.entry(talk.id)), state.name(len(state))))
    return found


def known(store: Store) -> set[tuple[str, bytes]]:
    """Return the states that conversations are in or have been in, with their births."""
    found = set()
    for talk in talks(store).values():
        born = born_of(store, store.catalogue.entry(talk.id))
        for state in (State(store, talk.head), *earlier_states(store, talk.id)):
            found |= {(born, state.name(records)) for records in range(len(state) + 1)}
    return found


class Two:
    """Two stores, and a session that lies beside the first."""

    def __init__(self, seed: int, stores: tuple[Store, Store], folder: Path) -> None:
        self.random = random.Random(seed)
        self.stores = stores
        self.session = session(folder, lines("One", "Two", "Three"))
        self.lines = 3
        brought_in(stores[0], self.session)

    def step(self) -> None:
        store = self.random.choice(self.stores)
        talk = self.random.choice([*talks(store).values(), None])
        what = self.random.choice(("append", "edit", "patch", "fork", "carry", "carry", "import", "restore"))
        if talk is None or what == "carry":
            here, there = self.random.sample(self.stores, 2)
            assert "refused" not in did(here, there)
        elif what == "append":
            text = f"word {self.random.random()}"
            store.contexts.append_many(talk.id, [Append(line(text), self._type(store, talk.id))])
        elif what == "edit":
            number = self.random.randint(1, len(turns(store, talk)))
            changed = DELETED if self.random.random() < 0.3 else line(f"edited {self.random.random()}")
            Editor(store).edit(talk.id, {number: changed})
        elif what == "patch":
            turn = self.random.choice([*turns(store, talk)])
            store.contexts.patch(talk.id, {turn.turn_id: DELETED})
        elif what == "fork":
            Keeper(store).fork(talk.id, f"fork-{self.random.random()}", at=1)
        elif what == "restore":
            versions = store.catalogue.versions(talk.id)
            Editor(store).restore(talk.id, self.random.choice(versions).number)
        else:
            with self.session.open("ab") as file:
                file.write(lines(f"more {self.lines}", start=self.lines))
            self.lines += 1
            brought_in(self.stores[0], self.session)

    def _type(self, store: Store, context: int) -> str:
        first = store.contexts.last(context, 1)
        return store.contents.type_name(first[0].type_tag) if first else JSON


@pytest.mark.parametrize("seed", [*range(12), 24, 49, 69])
def test_two_stores_come_to_have_the_same(tmp_path: Path, seed: int) -> None:
    with (
        Store.open(tmp_path / "one", renderer=FileRenderer()) as one,
        Store.open(tmp_path / "other", renderer=FileRenderer()) as other,
    ):
        two = Two(seed, (one, other), tmp_path)
        for _ in range(14):
            two.step()
        for _ in range(2):
            did(one, other)
            did(other, one)
        assert set(did(one, other)) == {"same"}
        assert set(did(other, one)) == {"same"}
        assert present(one) <= known(other)
        assert present(other) <= known(one)
        count = len(talks(one)), len(talks(other))
        did(one, other)
        did(other, one)
        assert (len(talks(one)), len(talks(other))) == count
        for name, talk in talks(one).items():
            there = talks(other).get(name)
            if there is None or "source" not in talk.metadata:
                continue
            here = State(one, talk.head)
            if State(other, there.head).begins_with(len(here), here.name(len(here))) and there.records == len(here):
                files = exported(one, talk, tmp_path / "a" / name)
                assert exported(other, there, tmp_path / "b" / name) == files
        assert fsck(one) == []
        assert fsck(other) == []
