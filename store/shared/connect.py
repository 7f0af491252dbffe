"""From where a space is to the space."""

from pathlib import Path

from store.shared import directory
from store.shared.space import Place, Space


def create(place: Place, name: str) -> None:
    """Make the empty space ``name`` at a place. Raises UsageError if there is one, and Unreachable."""
    directory.create(Path(place.directory) / name)


def connect(place: Place, name: str) -> Space:
    """Return the space ``name`` at a place. Raises NotFound, Unreachable, DamageError, FormatTooNew, UsageError."""
    return directory.connect(Path(place.directory) / name)
