"""The resources that a step delivers, and which of its blocks holds which.

A resource is a block of its own, or the text in which a tool told it: a file with its lines numbered, for instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from store.events.event import Block, Kind, Resource
from store.exporting.steps import Step
from store.formats.twins import standing_in
from store.ids import Hash, hash_bytes


class Content(Struct, frozen=True):
    """A resource: its URI as it was given, the BLAKE3 of its bytes, and how many there are."""

    uri: str
    hash: Hash
    size: int


class Held(Struct, frozen=True):
    """A resource that the block at ``at`` of a step holds.

    ``before`` and ``after`` are lines around it in a text. ``is_file`` says that it is no picture between texts.
    """

    at: int
    content: Content
    before: str = ""
    after: str = ""
    is_file: bool = True

    def replaced(self, message: str) -> str:
        """Return what is sent in place of the block."""
        return "\n".join(lines for lines in (self.before, message, self.after) if lines.strip())


def contents_of(step: Step, is_sent: Callable[[Step, Block], bool]) -> Iterator[Held]:
    """Yield the resources of a step, in the order of its blocks; ``is_sent`` says which blocks are sent at all."""
    left = list(step.resources)
    for at, block in enumerate(step.blocks):
        if not is_sent(step, block):
            continue
        if block.uri:
            for resource in left:
                if resource.uri == block.uri and resource.content == (block.text if block.data is None else block.data):
                    left.remove(resource)
                    yield Held(at, content_of(resource), is_file=block.type == "resource")
                    break
        elif step.kind is Kind.TOOL_RESULT and block.type == "text" and (told := _told(step, block, left)):
            resource, before, after = told
            left.remove(resource)
            yield Held(at, content_of(resource), before, after)


def content_of(resource: Resource) -> Content:
    """Return what a resource is known by."""
    data = resource.data
    return Content(resource.uri, hash_bytes(data), len(data))


def _told(step: Step, block: Block, resources: list[Resource]) -> tuple[Resource, str, str] | None:
    """Return the resource that a text tells, and the lines around it there; None where it tells none.

    What stands in a block of its own is told by that, and text is then text.
    """
    own = {block.uri for block in step.blocks if block.uri}
    for resource in resources:
        if resource.uri in own or not isinstance(resource.content, str):
            continue
        if (around := standing_in(block.text or "", resource.content)) is not None:
            return resource, *around
    return None
