"""What is told of a context to those who follow the store."""

from msgspec import Struct


class Change(Struct, frozen=True):
    """A context was created, or its head or metadata changed."""

    context_id: int
    created: bool
