"""What the answers on lines of a session took.

An answer is written a block a line, each with the usage as it then was: the last one is complete, and all have the
message's id. So have the copies of lines that a resumed session begins with, and the progress of a subagent, which its
own session has too.
"""

from store.events.usage import Usage
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.token_counts import counted, dollars

MAY_TELL = (b'"usage"',)


def usage(line: JsonObject) -> Usage | None:
    """Return what the answer on a line took; None for lines that have none."""
    said = line
    if as_text(line.get("type")) == "progress":
        said = as_object(as_object(line.get("data")).get("message"))
    message = as_object(said.get("message"))
    tokens = counted(as_object(message.get("usage")))
    cost = dollars(line.get("costUSD"))
    if not tokens.total and not cost:
        return None
    answer = as_text(message.get("id")) or as_text(said.get("uuid"))
    return Usage(answer, as_text(message.get("model")), tokens, cost)
