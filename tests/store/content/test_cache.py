from hypothesis import given
from hypothesis import strategies as st

from store.content.shelf import ByteCache

OPERATIONS = st.lists(st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 9), st.integers(0, 30)))


@given(OPERATIONS)
def test_the_cache_is_bounded_and_keeps_what_was_used_last(operations: list[tuple[str, int, int]]) -> None:
    cache: ByteCache[int, int] = ByteCache(160)
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
            while sum(model.values()) > 160:
                del model[next(iter(model))]
        else:
            cache.put(key, size, size)
        assert cache.size == sum(model.values()) <= 160


def test_nothing_is_kept_without_room() -> None:
    cache: ByteCache[str, str] = ByteCache(0)
    cache.put("key", "value", 1)
    assert cache.get("key") is None
    assert cache.size == 0
