"""Which conversations are subagents', and which listings leave out, whatever the order in which they come."""

import json
from itertools import permutations
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.index.asides import UNTITLED, USUAL, WARM_UP, kind_of
from store.index.catalogue import Among
from store.store import Store
from tests.store.formats.rollouts import message, meta, written
from tests.store.importing.sessions import by_source, imported, line, session

PARENT, CHILD = "0199a213-81c0-7800-8aa1-bbab2a035a53", "0199a213-81c0-7800-8aa1-bbab2a035a54"


def rollout(folder: Path, own: str, **fields: object) -> Path:
    path = folder / f"rollout-2026-03-05T12-00-00-{own}.jsonl"
    path.write_bytes(written(meta(id=own, **fields), message("user", f"Work of {own[-1]}")))
    return path


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_run_is_in_the_session_that_started_it(memory_path: Path, tmp_path: Path, order: tuple[int, ...]) -> None:
    thread = {"subagent": {"thread_spawn": {"parent_thread_id": CHILD, "agent_nickname": "deep"}}}
    paths = [
        rollout(tmp_path, PARENT),
        rollout(tmp_path, CHILD, parent_thread_id=PARENT),
        rollout(tmp_path, f"{CHILD[:-1]}5", source=thread),
    ]
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        for at in order:
            imported(store, paths[at])
        parent, child, deep = (by_source(store, path).id for path in paths)
        catalogue = store.catalogue
        assert [catalogue.place(context) for context in (parent, child, deep)] == [
            (0, False),
            (parent, False),
            (child, False),
        ]
        assert [entry.id for entry in catalogue.page(among=Among.LISTED)] == [parent]
        nested = [one.id for one in store.library.nested(store.library.conversation(parent), every=False)]
        assert nested == [parent, child, deep]


def test_of_copies_the_nearest_session_has_it(store: Store, tmp_path: Path) -> None:
    agent = line("Look", agentId="a", isSidechain=True) + b"\n"
    found = {}
    for place in ("one", "two"):
        main = session(tmp_path / place, line(f"Fix it {place}") + b"\n", json.loads(line("x"))["sessionId"])
        run = session(tmp_path / place, agent, f"agent-{place}")
        imported(store, main, run)
        found[by_source(store, run).id] = by_source(store, main).id
    assert {run: store.catalogue.place(run)[0] for run in found} == found


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"title": "Warmup", "agent": "a", "naming": {"title": 2}}, WARM_UP),
        ({"title": "warmup ", "naming": {"title": 1}}, WARM_UP),
        ({"title": "Warmup", "naming": {"title": 2}}, USUAL),
        ({"title": "Warmup", "agent": "a"}, USUAL),
        ({"title": "Warmup", "agent": "a", "naming": {}, "pinned": True}, USUAL),
        ({"agent": "a", "naming": {}}, WARM_UP),
        ({"naming": {}}, UNTITLED),
        ({"naming": {}, "title": "Fix it"}, USUAL),
        ({"naming": {}, "title": 7}, USUAL),
    ],
)
def test_kinds(said: dict[str, object], kind: int) -> None:
    assert kind_of({"source": "/s", **said}) == kind
    assert kind_of(said) == USUAL
