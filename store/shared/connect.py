"""From where a space is to the space."""

from pathlib import Path

from store.shared.directory import Directory
from store.shared.space import Place, Space


def connect(place: Place, name: str) -> Space:
    """Return the space ``name`` at a place. Raises NotFound, Unreachable, FormatTooNew, UsageError."""
    return Directory(Path(place.directory) / name)
