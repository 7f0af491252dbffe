"""What the messages of a session took: ``tokens`` has counts of its own, the input with what a cache held."""

from store.events.usage import Tokens, Usage
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.token_counts import count

MAY_TELL = (b'"tokens"',)


def usage(record: JsonObject) -> Usage | None:
    """Return what a message took; None for what is none of a model."""
    told = as_object(record.get("tokens"))
    read, thoughts = count(told, "cached"), count(told, "thoughts")
    sent = count(told, "input") + count(told, "tool")
    tokens = Tokens(max(0, sent - read), count(told, "output") + thoughts, read, reasoning=thoughts)
    return Usage(as_text(record.get("id")), as_text(record.get("model")), tokens) if tokens.total else None
