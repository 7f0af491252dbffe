"""Records as tools write them, with one value in them replaced: what a lens has to bear."""

import copy
import json

from hypothesis import strategies as st

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from([[], {}, [[]], [None], [{}], [""], {"type": []}, {"text": 1}, [{"type": "text"}], ["a", 1]]),
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every value inside ``value``."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inside for found in ((*path, key), *places(item, (*path, key)))]


def mutated(records: list[dict[str, object]]) -> st.SearchStrategy[bytes]:
    """Draw one of ``records`` with one or two of its values replaced or removed, as JSON."""

    @st.composite
    def draw_record(draw: st.DrawFn) -> bytes:
        record = copy.deepcopy(draw(st.sampled_from(records)))
        for _ in range(draw(st.integers(0, 2))):
            path = draw(st.sampled_from(places(record) or [()]))
            if not path:
                break
            holder: object = record
            for step in path[:-1]:
                holder = holder[step]  # type: ignore[index, call-overload]
            if draw(st.booleans()):
                holder[path[-1]] = copy.deepcopy(draw(ODD))  # type: ignore[index, call-overload]
            else:
                del holder[path[-1]]  # type: ignore[attr-defined, call-overload]
        return json.dumps(record).encode()

    return draw_record()
