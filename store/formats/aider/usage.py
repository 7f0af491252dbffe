"""What answers took, as aider prints it under each: ``Tokens: 3.2k sent, 21 received. Cost: $0.0082 message, …``.

Numbers from a thousand on are rounded, so these are too. Which model answers is printed when a run begins.
"""

import re

from msgspec import structs

from store.events.usage import Running, Tokens, Usage
from store.formats.aider.passages import STARTED
from store.formats.times import milliseconds

MAY_TELL = (STARTED.encode(), b"Tokens: ", b"odel: ")

_AMOUNT = r"([\d,.]+)([kM]?)"
_told = re.compile(
    rf"Tokens: {_AMOUNT} sent(?:, {_AMOUNT} cache write)?(?:, {_AMOUNT} cache hit)?, {_AMOUNT} received\."
    r"(?: Cost: \$([\d,.]+) message)?"
).search
_model = re.compile(r"(?:Main m|M)odel: (\S+)").search
_TIMES = {"": 1, "k": 1000, "M": 1_000_000}


def usage(passage: str, running: Running) -> tuple[Usage | None, Running]:
    """Return what the last answer before a passage took, where aider printed it, and what goes on to hold."""
    if passage.startswith(STARTED):
        return None, structs.replace(running, time_ms=milliseconds(passage.removeprefix(STARTED).strip()))
    if not passage.startswith("> "):
        return None, running
    if found := _model(passage):
        running = structs.replace(running, model=found[1])
    told = _told(passage)
    if told is None:
        return None, running
    sent, write, read, received = (_amount(told[at], told[at + 1]) for at in (1, 3, 5, 7))
    tokens = Tokens(max(0, sent - write - read), received, read, write)
    cost = _number(told[9]) if told[9] else None
    return Usage("", running.model, tokens, cost, running.time_ms), running


def _amount(digits: str | None, unit: str | None) -> int:
    return round(_number(digits) * _TIMES[unit or ""]) if digits else 0


def _number(digits: str) -> float:
    try:
        return float(digits.replace(",", "").rstrip("."))
    except ValueError:
        return 0.0
