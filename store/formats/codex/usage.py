"""What the answers of a rollout took.

``token_count`` counts the session on and on; the same count comes again whenever a limit changes. A fork repeats its
parent's lines, with new times but behind the parent's own ``session_meta``: so the session that is counted, and how far
it had come, name an answer.
"""

from msgspec import structs

from store.events.usage import Running, Tokens, Usage
from store.formats.codex.records import said
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.token_counts import counted

MAY_TELL = (b'"token_count"', b'"turn_context"', b'"session_meta"', b'"usage"')


def usage(line: JsonObject, running: Running) -> tuple[Usage | None, Running]:
    """Return what the answer before a line took, and what goes on to hold."""
    what, item, _base = said(line)
    if what == "session_meta":
        if (session := as_text(item.get("id"))) == running.session:
            return None, running
        return None, Running(session, running.model)
    if what == "turn_context":
        return None, structs.replace(running, model=as_text(item.get("model")) or running.model)
    if what != "event_msg":
        return None, running
    if item.get("type") != "token_count":
        # how `codex exec` told of whole turns
        tokens = counted(as_object(item.get("usage")))
        return (Usage("", running.model, tokens) if tokens.total else None), running
    told = as_object(item.get("info"))
    total = counted(as_object(told.get("total_token_usage")))
    if not total.total or total == running.counted:
        return None, running
    name = f"{running.session}@{total.input}+{total.cache_read}+{total.cache_write}+{total.output}"
    tokens = _since(running.counted, total) or counted(as_object(told.get("last_token_usage")))
    counting = structs.replace(running, counted=total)
    return (Usage(name, running.model, tokens) if tokens.total else None), counting


def _since(before: Tokens, total: Tokens) -> Tokens | None:
    """Return what was counted since; None where counting began anew."""
    grown = Tokens(*(now - then for now, then in zip(structs.astuple(total), structs.astuple(before), strict=True)))
    return None if min(structs.astuple(grown)) < 0 else grown
