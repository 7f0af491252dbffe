"""What the answers behind events took: each call of an answer has all of it, in LiteLLM's spelling of OpenAI's."""

from store.events.usage import Usage
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.token_counts import counted

MAY_TELL = (b'"model_response"',)


def usage(record: JsonObject) -> Usage | None:
    """Return what the answer behind an event took; None for events that have none."""
    answer = as_object(as_object(record.get("tool_call_metadata")).get("model_response"))
    tokens = counted(as_object(answer.get("usage")))
    return Usage(as_text(answer.get("id")), as_text(answer.get("model")), tokens) if tokens.total else None
