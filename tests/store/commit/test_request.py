"""Appends that are worked out by themselves: the same bytes, answers and errors as of any other request."""

from pathlib import Path

import pytest

from store import paths
from store.commit import request
from store.conversations import contexts
from store.conversations.contexts import Append
from store.errors import Conflict, NotFound
from store.retention import pruner
from store.retention.pruner import delete
from store.store import Store

NOW = 1_770_000_000_000


def logs(root: Path, monkeypatch: pytest.MonkeyPatch, *, plain: bool) -> list[object]:
    """Append in all ways that there are; return what was answered, and the bytes of the logs behind their headers."""
    for module in (request, contexts, pruner):
        monkeypatch.setattr(module, "now_ms", lambda: NOW)
    found: list[object] = []
    with Store.open(root) as store:
        first, second, gone = (store.contexts.create().context for _ in range(3))
        store.contexts.append(first, b"root", "t.v1", encoding=7)
        store.contexts.append(gone, b"gone", "t.v1", encoding=7)
        delete(store, gone, store.writer.head(gone).tip)
        made = [
            store.contexts.appending(context, Append(payload, "t.v1", created_ms=NOW), idempotency_key=key)
            for context, payload, key in [
                (first, b"one", b""),
                (second, b"two", b"key"),
                (second, b"two", b"key"),
                (second, b"other", b"key"),
                (first, b"one", b""),
                (99, b"nowhere", b""),
                (gone, b"gone", b""),
            ]
        ]
        some = [one for one in made if one is not None]
        assert len(some) == len(made)
        assert all(one.plain for one in some)
        for one in some:
            one.plain = plain
        store.writer.submit_all(some)
        for one in some:
            found += [type(one.error), str(one.error), one.written, one.head, one.seq if one.error is None else 0]
        assert [type(one.error) for one in some] == [*[type(None)] * 3, Conflict, type(None), NotFound, NotFound]
        assert some[2].repeated
        assert some[1].written == some[2].written
    for name in (paths.TURN_LOG, paths.HEAD_LOG):
        found.append((root / name).read_bytes()[4096:])
    return found


def test_they_are_what_others_are(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = [logs(memory_path / str(plain), monkeypatch, plain=plain) for plain in (True, False)]
    assert apart[0] == apart[1]
