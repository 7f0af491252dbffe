"""A line of a hit."""

from msgspec import Struct


class Line(Struct, frozen=True, omit_defaults=True):
    """A line of a file; ``number`` counts from 1. ``context``: it stands near one that was asked for."""

    number: int
    text: str
    context: bool = False
