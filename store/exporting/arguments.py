"""A tool's arguments, put together again from the blocks that they are shown as (``store.formats.blocks``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from store.events.event import Block
from store.formats.blocks import DEEPEST
from store.formats.json_view import decode, is_object

_PLACEHOLDER = "$block"
_steps = re.compile(r"\.([^.\[\]]*)|\[(\d+)\]").findall


def joined(blocks: Sequence[Block], name: str) -> object:
    """Return the JSON value that ``blocks`` show, which are named ``name`` or after places within that.

    An empty object where there are none. A text that is all there is, is a string.
    """
    document = next((block for block in blocks if block.type == "json" and block.name == name), None)
    texts = {block.name: block.text for block in blocks if block is not document and block.text is not None}
    if document is None and list(texts) == [name]:
        return texts[name]
    decoded = decode((document.text or "").encode("utf-8", "replace")) if document else None
    value = _filled(decoded.value, texts, DEEPEST) if decoded else {}
    for place, text in texts.items():
        # what stood at the top of an object was left out of the JSON
        steps = _steps(place.removeprefix(name))
        if is_object(value) and len(steps) == 1 and not steps[0][1]:
            value[unquote(steps[0][0])] = text
    return value


def _filled(value: object, texts: dict[str, str], depth: int) -> object:
    """Return ``value`` with the texts that placeholders stand for."""
    if not depth:
        return value
    if is_object(value):
        if len(value) == 1 and isinstance(name := value.get(_PLACEHOLDER), str) and name in texts:
            return texts[name]
        return {key: _filled(item, texts, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, texts, depth - 1) for item in value]
    return value
