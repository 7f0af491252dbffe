"""The purpose of a store of conversations: content that many of them have in common lies on the disk once."""

import random
from pathlib import Path

import msgspec

from store.conversations.contexts import Append
from store.editing.editor import Editor
from store.store import Store

_PROSE = "the cart is empty after a restart of the cache so look at how sessions are kept when nobody asks for them"


def text(size: int, seed: int) -> str:
    """Return so many characters of prose that does not repeat itself much."""
    chosen = random.Random(seed)
    prose = _PROSE.split()
    words = (f"{chosen.choice(prose)}{chosen.randrange(1000)}" for _ in range(size))
    return " ".join(words)[:size]


def payload(role: str, content: str, number: int) -> bytes:
    return msgspec.json.encode({"type": role, "uuid": f"u{number:08}", "message": {"role": role, "content": content}})


def begin(store: Store, number: int, *said: tuple[str, str]) -> int:
    metadata: dict[str, object] = {"project": "shop", "name": f"talk-{number}"}
    context = store.contexts.create(metadata=metadata).context
    turns = [
        Append(payload(role, content, 1000 * number + at), "claude-code.line.v1")
        for at, (role, content) in enumerate(said)
    ]
    store.contexts.append_many(context, turns)
    return context


def stored(root: Path) -> int:
    """Return how many bytes the packs and the logs of a closed store have."""
    files = [*(root / "blobs").iterdir(), root / "turns" / "turns.log", root / "turns" / "heads.log"]
    return sum(path.stat().st_size for path in files)


def test_five_forks_of_a_conversation_with_a_long_answer(memory_path: Path) -> None:
    said = (("user", text(200, 1)), ("assistant", text(10_000, 2)))
    with Store.open(memory_path / "copy") as store:
        begin(store, 0, *said)
    with Store.open(memory_path / "forks") as store:
        parent = begin(store, 0, *said)
        forks = [Editor(store).fork(parent, f"fork-{number}").context for number in range(5)]
    # not only for compression: each copy is compressed by itself
    assert stored(memory_path / "forks") <= 0.24 * 6 * stored(memory_path / "copy")
    with Store.open(memory_path / "forks") as store:
        for number, fork in enumerate(forks):
            store.contexts.append(
                fork, payload("user", f"Another way: {number}.", 9000 + number), "claude-code.line.v1"
            )
    assert stored(memory_path / "forks") <= 0.24 * 6 * sum(len(payload(*one, 0)) for one in said)


def test_a_hundred_conversations_with_one_system_prompt(memory_path: Path) -> None:
    prompt = text(2000, 3)
    for name, content in (("with", prompt), ("without", "-")):
        with Store.open(memory_path / name) as store:
            for number in range(100):
                begin(store, number, ("system", content), ("user", text(300, 100 + number)))
    cost = stored(memory_path / "with") - stored(memory_path / "without")
    assert 0 < cost <= 0.01 * 100 * len(prompt)
