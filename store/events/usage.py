"""Usage: the tokens and the cost of models' answers, as recorded in sessions.

Tools count differently: some include tokens read from a cache in the input, some leave reasoning out of the output.
Here every token is in one of ``input``, ``cache_read``, ``cache_write`` and ``output``, and in only one.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from operator import add
from typing import TypeVar

from msgspec import Struct, structs

S = TypeVar("S", bound=Struct)

PROMPT_LENGTHS = (100_000, 200_000, 272_000)
"""Lengths of prompts, in tokens, above which some models cost more."""


class Tokens(Struct, frozen=True, gc=False):
    """Tokens of one answer.

    ``input`` were sent and neither read from a cache nor written to one; ``cache_write`` were kept by the provider for
    the next request, ``cache_write_hour`` of them for an hour. ``output`` is everything that the model
    produced, ``reasoning`` the part of it that is thoughts (0 if the tool does not record it).
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    reasoning: int = 0

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """All tokens of prompt and answer."""
        return self.prompt + self.output

    @property
    def length(self) -> int:
        """The number of ``PROMPT_LENGTHS`` that the prompt exceeds."""
        return bisect_left(PROMPT_LENGTHS, self.prompt)


def combined(one: S, other: S, how: Callable[[int, int], int] = add) -> S:
    """Return two values of one type as one: field by field their sums, or what ``how`` makes of two."""
    return type(one)(*map(how, structs.astuple(one), structs.astuple(other)))


class Usage(Struct, frozen=True, gc=False):
    """The usage of one answer.

    ``answer`` identifies repetitions of it: on another line of the same message, in a copy of the session ("": it has
    no id). ``cost`` is in US dollars, None if the session does not record it. ``time_ms`` is 0 for the time of the
    record. ``credits`` are a unit of the tool's maker, whose price is nowhere told.
    """

    answer: str
    model: str
    tokens: Tokens
    cost: float | None = None
    time_ms: int = 0
    credits: float | None = None


MOST, MOST_DOLLARS = 1 << 48, 1 << 30
"""The most tokens of a kind, and US dollars, that are believed of what is told in one place."""

USAGE = "usage"
"""The metadata of a conversation whose tool tells what all its answers took."""


def as_metadata(usage: Usage) -> dict[str, object]:
    """Return the metadata that tells of usage: the model, its tokens, credits, and the cost in US dollars, if known."""
    told = {"model": usage.model, **structs.asdict(usage.tokens), "credits": usage.credits}
    return {name: value for name, value in told.items() if value} | ({} if usage.cost is None else {"cost": usage.cost})


def summed_up(metadata: Mapping[str, object]) -> Usage | None:
    """Return the usage that the metadata of a conversation tells of, None if it tells of none."""
    told = metadata.get(USAGE)
    if not isinstance(told, dict):
        return None
    # another store, or another version, may have told it
    counts = ((name, told.get(name)) for name in Tokens.__struct_fields__)
    tokens = {name: value for name, value in counts if type(value) is int and 0 <= value <= MOST}
    model, cost, credit = told.get("model"), _amount(told.get("cost")), _amount(told.get("credits"))
    return Usage("", model if isinstance(model, str) else "", Tokens(**tokens), cost, credits=credit)


def _amount(told: object) -> float | None:
    if isinstance(told, bool) or not isinstance(told, (int, float)):
        return None
    return told if 0 <= told <= MOST_DOLLARS else None


class Running(Struct, frozen=True):
    """The state that earlier records leave for the next: the ``session``, and the ``model`` that answers.

    ``counted`` is the running total of a tool that keeps one; ``time_ms`` is the start of the session if no later
    record has a time.
    """

    session: str = ""
    model: str = ""
    counted: Tokens = Tokens()
    time_ms: int = 0


NOTHING_RUNNING = Running()
"""The state before the first record."""
