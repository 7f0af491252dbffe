"""What the messages of a session took; pi says what each cost.

oh-my-pi tells of answers that are no part of the conversation, such as a title's, on lines of their own:
``model_usage``.
"""

from store.events.usage import Tokens, Usage
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.token_counts import count, dollars

MAY_TELL = (b'"usage"',)


def usage(line: JsonObject) -> Usage | None:
    """Return what the message on a line took.

    The id of an entry is short, and is copied with it: with the message's own time it names the answer.
    """
    message = line if line.get("type") == "model_usage" else as_object(line.get("message"))
    told = as_object(message.get("usage"))
    output = count(told, "output")
    tokens = Tokens(
        count(told, "input"),
        output,
        count(told, "cacheRead"),
        count(told, "cacheWrite"),
        reasoning=min(output, count(told, "reasoning", "reasoningTokens")),
    )
    cost = dollars(as_object(told.get("cost")).get("total"))
    if not tokens.total and not cost:
        return None
    name = f"{as_text(line.get('id'))}@{message.get('timestamp') or line.get('timestamp')}"
    # a model that is paid for by subscription costs nothing that anyone could tell
    return Usage(name, as_text(message.get("model")), tokens, cost or None)
