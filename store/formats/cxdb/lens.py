"""The lens for ``cxdb.ConversationItem``."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from store.events.event import Event, Kind, Path
from store.formats.cxdb import items
from store.formats.cxdb.compose import compose
from store.formats.cxdb.fields import CONVERSATION_ITEM
from store.formats.editing import Place
from store.formats.json_view import Decoded, JsonObject, as_list, as_object, as_text, scalar
from store.formats.lens import Before, Lens
from store.formats.msgpack_lens import MsgpackLens, UnknownMsgpackLens
from store.formats.msgpack_view import Schema
from store.formats.shown import Header
from store.formats.times import milliseconds

_LAST_MS = 1 << 53


class ConversationItemLens(MsgpackLens):
    """Sees conversation items. Those of kinds that are not known are notes that hold what they say as JSON."""

    schema: ClassVar[Schema] = CONVERSATION_ITEM

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def shown(self, decoded: Decoded, before: Before) -> Event:
        """Return the event that an item tells of."""
        item = decoded.value
        if not isinstance(item, dict):
            return _NOT_AN_ITEM.shown(decoded, before)
        holder, view = items.VIEWS.get(as_text(item.get("item_type")), ("", items.unknown))
        shown = (view if isinstance(item.get(holder), dict) else items.unknown)(item, before)
        header = _envelope(item) | shown.header if shown.kind is not Kind.RECORD else {}
        return Event(
            shown.kind,
            shown.tool,
            header,
            shown.blocks,
            _time(item.get("timestamp")),
            0,
            shown.defines,
            (),
            item,
            decoded.lossy,
        )

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where an item holds field ``key``."""
        return items.place(record, key)

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield the other texts to change where the one at ``path`` changes."""
        return items.twins(record, path, old, new)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return what a user, an assistant or the system says."""
        return compose(kind, text, previous, now_ms)


def _envelope(item: JsonObject) -> Header:
    """Return what the head shows of every item: its id, its state, and what the first one says of the conversation."""
    header: Header = {}
    if identifier := scalar(item.get("id")):
        header["item"] = identifier
    if (status := scalar(item.get("status"))) and status != "complete":
        header["state"] = status
    about = as_object(item.get("context_metadata"))
    labels = ", ".join(as_text(label) for label in as_list(about.get("labels")))
    for name, value in (("conversation", about.get("title")), ("client", about.get("client_tag")), ("labels", labels)):
        if said := scalar(value):
            header[name] = said
    return header


def _time(stamp: object) -> int:
    """Return a timestamp in Unix milliseconds: as a number, as its digits, or as MessagePack's own."""
    if isinstance(stamp, dict):
        return milliseconds(stamp.get("$timestamp"))
    if isinstance(stamp, str) and stamp.isascii() and stamp.isdecimal() and len(stamp) <= len(str(_LAST_MS)):
        stamp = int(stamp)
    return stamp if type(stamp) is int and 0 <= stamp <= _LAST_MS else 0


_NOT_AN_ITEM = UnknownMsgpackLens()
LENSES: Sequence[Lens] = tuple(
    # the second is what earlier clients call it
    ConversationItemLens(name)
    for name in ("cxdb.ConversationItem", "cxdb.v3:ConversationItem")
)
