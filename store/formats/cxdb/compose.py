"""New conversation items, as CXDB's clients write them."""

import msgspec

from store.errors import UsageError
from store.events.event import Kind
from store.formats.composing import check_text
from store.formats.msgpack_spans import Family, token

_Item = dict[int, object]


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return an item whose fields are numbered as in ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    check_text(text)
    what: tuple[str, int, _Item]
    match kind:
        case Kind.USER:
            what = "user_input", 10, {1: text}
        case Kind.ASSISTANT:
            what = "assistant_turn", 11, {1: text}
        case Kind.SYSTEM:
            what = "system", 12, {1: "info", 3: text}
        case _:
            name = kind.name.lower()
            raise UsageError(f"a {name} cannot be written by hand in CXDB: write user, assistant or system")
    item: _Item = {1: what[0], 2: "complete", 3: now_ms, what[1]: what[2]}
    return msgspec.msgpack.encode(item if previous and _in_integers(previous) else _in_texts(item))


def _in_integers(previous: bytes) -> bool:
    """Say whether the first field of a record is numbered by an integer."""
    try:
        start = token(previous, 0)
        return start.family is Family.MAP and token(previous, start.start).family is Family.INTEGER
    except UsageError:
        return False


def _in_texts(item: _Item) -> dict[str, object]:
    return {str(key): _in_texts(value) if isinstance(value, dict) else value for key, value in item.items()}
