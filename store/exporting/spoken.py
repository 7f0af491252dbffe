"""What the messages of all models have in common: texts and images, and names that they take."""

from __future__ import annotations

import re
from base64 import b64encode

from msgspec import Struct

from store.events.event import Block, Kind
from store.exporting.losses import Losses
from store.exporting.steps import Step

_IMAGES = frozenset(("image/gif", "image/jpeg", "image/png", "image/webp"))
_CALLED = {
    Kind.ANSWER: "an answer to a question of the tool",
    Kind.CONFIG: "a change of the configuration",
    Kind.NOTE: "a note of the tool",
    Kind.QUESTION: "a question of the tool",
    Kind.SUMMARY: "a summary",
    Kind.SYSTEM: "a message that the tool slipped in",
}
_unfit = re.compile(r"[^A-Za-z0-9_-]").sub
_LONGEST_NAME = 64


class Piece(Struct, frozen=True):
    """A text, or an image, in base64."""

    text: str = ""
    mime: str = ""
    data: str = ""

    @property
    def url(self) -> str:
        """An image as ``data:`` URL."""
        return f"data:{self.mime};base64,{self.data}"


def is_said(block: Block) -> bool:
    """Say whether a block is a piece of a message: not what is blank, nor content that no model takes."""
    return bool(text_of(block).strip()) if block.data is None else block.mime in _IMAGES


def pieces_of(step: Step, losses: Losses) -> list[Piece]:
    """Return what a step says, without what is blank, which no model takes."""
    pieces = []
    for block in step.blocks:
        if is_said(block):
            pieces.append(_piece(block))
        elif block.data is not None:
            losses.add(f"content that is neither text nor an image of a usual kind ({block.mime})", step.number)
    return pieces


def said(step: Step, losses: Losses) -> str:
    """Return the texts of a step, a blank line between two of them; images are noted as lost."""
    pieces = pieces_of(step, losses)
    if any(piece.data for piece in pieces):
        losses.add("an image", step.number)
    return "\n\n".join(piece.text for piece in pieces if piece.text)


def tool_name(step: Step, losses: Losses) -> str:
    """Return the name of a tool as every model takes it."""
    fit = _unfit("_", step.tool)[:_LONGEST_NAME] or "tool"
    if fit != step.tool:
        losses.add(f"the name of the tool {step.tool!r}: it is called {fit}", step.number)
    return fit


def lost_kind(step: Step) -> str:
    """Return what is lost where there is no way to say a step."""
    return _CALLED.get(step.kind, step.kind.name.lower())


def as_object(arguments: object) -> dict[str, object]:
    """Return a call's arguments as an object, as all tools take them."""
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def _piece(block: Block) -> Piece:
    if block.data is None:
        return Piece(text_of(block))
    return Piece(mime=block.mime, data=b64encode(block.data).decode())


def text_of(block: Block) -> str:
    """Return what is said of a block that holds no other content than text."""
    text = block.text or ""
    # whoever reads an attachment has to know which one it is
    return f"{block.uri}\n\n{text}" if block.type == "resource" and block.uri else text
