from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.content.shelf import ByteCache, OpenRecord
from store.content.sparing import sparing
from store.content.zstd import Dictionary
from store.conversations.contexts import Append
from store.disk.blob_format import Record
from store.ids import Hash, hash_bytes
from store.store import Store

OPERATIONS = st.lists(st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 9), st.integers(0, 30)))


@given(OPERATIONS)
def test_the_cache_is_bounded_and_keeps_what_was_used_last(operations: list[tuple[str, int, int]]) -> None:
    cache: ByteCache[int, int] = ByteCache(80)
    model: dict[int, int] = {}
    for operation, key, size in operations:
        if operation == "get":
            assert cache.get(key) == model.get(key)
            if key in model:
                model[key] = model.pop(key)
        elif size <= 20:
            cache.put(key, size, size)
            model.pop(key, None)
            model[key] = size
            while sum(model.values()) > 80:
                del model[next(iter(model))]
        else:
            cache.put(key, size, size)
        assert cache.size == sum(model.values()) <= 80


def test_nothing_is_kept_without_room() -> None:
    cache: ByteCache[str, str] = ByteCache(0)
    cache.put("key", "value", 1)
    assert cache.get("key") is None
    assert cache.size == 0


def test_a_group_of_very_many_blobs_is_opened_once(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    payloads = [b"%d" % number for number in range(5000)]
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(payload, "x.v1") for payload in payloads])
        store.checkpointer.flush()
    opened: list[int] = []
    begin = OpenRecord.__init__

    def noted(self: OpenRecord, record: Record, dictionary: Callable[[Hash], Dictionary]) -> None:
        begin(self, record, dictionary)
        opened.append(len(self.members))

    monkeypatch.setattr(OpenRecord, "__init__", noted)
    with Store.open(memory_path / "store") as store, sparing():
        assert [store.blobs.size(hash_bytes(payload)) for payload in payloads] == [*map(len, payloads)]
    assert max(opened) * 400 > 512 << 10, "none of them is too large to be kept"
    assert len(opened) < 20
