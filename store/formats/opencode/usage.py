"""What the messages of a session took: rows of the table ``message``, and the files of older versions.

A fork has copies of messages under new ids; when each was made stays.
"""

from store.events.usage import Tokens, Usage
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.opencode.rows import model_of
from store.formats.token_counts import count, dollars

MAY_TELL = (b'"tokens"',)


def usage(message: JsonObject) -> Usage | None:
    """Return what a message took; None for what is none of a model."""
    told = as_object(message.get("tokens"))
    cache, reasoning = as_object(told.get("cache")), count(told, "reasoning")
    tokens = Tokens(
        count(told, "input"),
        count(told, "output") + reasoning,
        count(cache, "read"),
        count(cache, "write"),
        reasoning=reasoning,
    )
    cost = message.get("cost")
    paid = dollars(as_object(cost).get("usd") if isinstance(cost, dict) else cost)
    if message.get("role") != "assistant" or not (tokens.total or paid):
        return None
    model = as_text(message.get("modelID")) or model_of(message).rpartition("/")[2]
    created = as_object(message.get("time")).get("created")
    name = f"{created}@{model}" if isinstance(created, int) else as_text(message.get("id"))
    return Usage(name, model, tokens, paid or None)
