"""Records that a search has not looked at."""

from msgspec import Struct

from store.errors import DamageError


class Unread(Struct, omit_defaults=True):
    """The number of turns that were not looked at, and why the last of them was not.

    They are damaged, or in a space that is away. What was deleted for good is not counted.
    """

    turns: int = 0
    why: str = ""

    def note(self, error: object, turns: int = 1) -> None:
        """Count turns that could not be read, if there should be something."""
        if isinstance(error, DamageError):
            self.turns += turns
            self.why = str(error)

    def __str__(self) -> str:
        if not self.turns:
            return ""
        return f"{self.turns} {'record was' if self.turns == 1 else 'records were'} not searched: {self.why}"
