"""What answers of models took, as sessions tell it: tokens, and what they cost.

Tools count differently: what some call input includes what was read from a cache, some leave reasoning out of the
output. Here every token is in one of ``input``, ``cache_read``, ``cache_write`` and ``output``, and in only one.
"""

from bisect import bisect_left

from msgspec import Struct

PROMPT_LENGTHS = (100_000, 200_000, 272_000)
"""Prompts of more tokens than one of these are dearer, with some models."""


class Tokens(Struct, frozen=True, gc=False):
    """Tokens of one answer.

    ``input`` were sent and neither read from a cache nor written to one; ``cache_write`` were kept by the provider for
    the next request, ``cache_write_hour`` of them for an hour. ``output`` is all that the model said, ``reasoning``
    that part of it which it thought (0 where the tool does not tell).
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    reasoning: int = 0

    @property
    def prompt(self) -> int:
        """All that was sent."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """All that went back and forth."""
        return self.prompt + self.output

    @property
    def length(self) -> int:
        """How many of ``PROMPT_LENGTHS`` the prompt is longer than."""
        return bisect_left(PROMPT_LENGTHS, self.prompt)


class Usage(Struct, frozen=True, gc=False):
    """What one answer took.

    ``answer`` names it wherever it is told of again: on another line of the same message, in a copy of the session
    ("": nothing names it). ``cost`` is in US dollars, None where the session does not say. ``time_ms`` is 0 where the
    time of the record is meant.
    """

    answer: str
    model: str
    tokens: Tokens
    cost: float | None = None
    time_ms: int = 0


class Running(Struct, frozen=True):
    """What records before one say that goes on to hold: of ``session``, the ``model`` that answers.

    ``counted`` is what a tool that counts on and on had counted; ``time_ms`` when the session was begun, where no later
    record has a time.
    """

    session: str = ""
    model: str = ""
    counted: Tokens = Tokens()
    time_ms: int = 0


NOTHING_RUNNING = Running()
"""What holds before the first record."""
