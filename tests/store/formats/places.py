"""Checks that hold for whatever a lens shows: a block's text is what stands at its place in the payload."""

import base64
import json

from store.events.event import Block, Event


def check(event: Event) -> None:
    """Fail unless the event is well formed and each of its blocks is where it says."""
    assert all(isinstance(value, (str, int, float, bool)) for value in event.header.values())
    assert not {"event", "type", "tool", "parent"} & event.header.keys()
    names = [block.name for block in event.blocks if "." in block.name or "[" in block.name]
    assert len(set(names)) == len(names)
    for block in event.blocks:
        assert (block.text is None) != (block.data is None)
        if block.path and not event.lossy:
            _check_place(block, event.native)


def _check_place(block: Block, value: object) -> None:
    for step in block.path:
        if isinstance(value, str):
            # a path may lead into a document that stands in a string
            value = json.loads(value if value[:1] in "{[" else base64.b64decode(value))
        assert isinstance(value, (dict, list))
        value = value[step]  # type: ignore[index, call-overload]
    if block.type == "json" or isinstance(value, dict):
        return
    assert isinstance(value, str)
    if block.encoding == "json" and block.data is not None:
        assert base64.b64decode(value.partition(";base64,")[2]) == block.data
    elif block.encoding == "json":
        assert block.text == value
    elif value.startswith("blob:"):
        assert block.data is not None
    else:
        shown = block.text.encode() if block.text is not None else block.data
        assert shown == base64.b64decode(value)
