"""What is told of a context to those who follow the store."""

from msgspec import Struct


class Change(Struct, frozen=True):
    """What one request has changed of a context, once it is durable.

    ``tip`` and ``depth`` are where its head was then; ``moved`` says that this is new (``created``: so is the context),
    ``described`` that its metadata changed, ``streamed`` that an open turn of it was begun, has grown, or ended.
    ``deleted`` that it is there no more.
    ``seq`` rises from change to change of a context: one that is told later than another may have happened before.
    """

    context_id: int
    created: bool
    moved: bool = False
    described: bool = False
    streamed: bool = False
    tip: int = 0
    depth: int = 0
    seq: int = 0
    deleted: bool = False
