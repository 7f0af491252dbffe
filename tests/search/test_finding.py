"""Searching, against looking at the files of all events."""

import random
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import DELETED, Editor
from store.ids import turn_of
from store.search.search import Search
from store.store import Append, Store
from tests.editing.records import TYPE, called, conversation, returned, said
from tests.search.looking import looked, searched

WORDS = ("the", "lock", "file", "of", "a", "daemon", "Was", "not", "removed", "ÄRGER", "über-all", "straße", "東京都")


def text(chance: random.Random) -> str:
    lines = (" ".join(chance.choices(WORDS, k=chance.randrange(12))) for _ in range(chance.randrange(1, 5)))
    return "\n".join(lines)


def records(chance: random.Random, count: int) -> list[bytes]:
    found: list[bytes] = []
    for number in range(count):
        call = f"c{number}"
        found += chance.choice(
            [
                [said(text(chance))],
                [called("Read", call), returned(text(chance) * chance.choice([1, 40]), call)],
            ]
        )
    return found


@pytest.mark.parametrize("edits", ["branch", "overlay"])
@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_there_is_found_and_nothing_else(memory_path: Path, edits: str, seed: int) -> None:
    chance = random.Random(seed)
    (memory_path / "store").mkdir()
    (memory_path / "store" / "convfs.toml").write_text(f'edits = "{edits}"\n')
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        search = Search.of(store)
        contexts = [conversation(store, records(chance, 6), f"talk{number}") for number in range(4)]
        for _step in range(40):
            context = chance.choice(contexts)
            what = chance.randrange(7)
            length = store.entry(context).records
            if what == 0:
                store.append_many(context, [Append(payload, TYPE) for payload in records(chance, 2)])
            elif what == 1:
                changes = {chance.randrange(length) + 1: chance.choice([said(text(chance)), DELETED])}
                Editor(store).edit(context, changes)
            elif what == 2 and len(contexts) < 9:
                at = turn_of(chance.choice(store.rows(store.head(context).tip)).turn)
                name = f"talk{len(contexts)}"
                contexts.append(store.fork(context, at, metadata={"project": "q", "name": name}).context)
            elif what == 3:
                search.step()
            else:
                line = chance.choice(text(chance).split("\n"))
                start = chance.randrange(len(line) + 1)
                part = line[start : start + chance.randrange(1, 9)].strip()
                if part and '"' not in part:
                    expected = looked(store, part, ignore_case=part == part.lower())
                    assert searched(search, f'"{part}"') == expected
