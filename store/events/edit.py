"""Edits: what a person changed in the view of one event, for a lens to carry into the payload."""

from typing import Literal

from msgspec import Struct

from store.events.event import Path


class BlockEdit(Struct, frozen=True):
    """New content for the block that came from ``path`` of the payload.

    ``text`` is what the block shows now; for a ``json`` block the whole document, with its ``$block`` placeholders.
    ``name`` and ``encoding`` are the block's own, as the lens gave them.
    """

    path: Path
    text: str
    name: str = ""
    type: Literal["text", "resource", "json"] = "text"
    encoding: Literal["json", "base64"] = "json"


class FieldEdit(Struct, frozen=True):
    """A new value for a field of the event's head (``is_error``, ``tool``, …)."""

    key: str
    value: str | int | float | bool


class EventEdit(Struct, frozen=True):
    """All that was changed in one event; empty where nothing was."""

    blocks: tuple[BlockEdit, ...] = ()
    fields: tuple[FieldEdit, ...] = ()
