"""Lines that are no messages: summaries, labels, what extensions add, the session's own settings."""

from msgspec import structs

from store.events.event import Block, Compaction, Kind, Path
from store.formats.blocks import argument_blocks
from store.formats.json_view import JsonObject, as_list, as_text, scalar
from store.formats.lens import Before
from store.formats.pi import messages
from store.formats.pi.content import Content
from store.formats.shown import BOOKKEEPING, Header, Shown, View

BOOKKEEPING_TYPES = frozenset(
    [
        "archive",
        "credential_pin",
        "custom",
        "mode_change",
        "model_change",
        "model_usage",
        "reset_boundary",
        "service_tier_change",
        "session_info",
        "thinking_level_change",
        "title",
        "title_change",
        "ttsr_injection",
    ]
)
"""Line types that no reader asks for; titles among them are read when a session is described."""

_ENVELOPE = frozenset(("id", "parentId", "timestamp", "type"))


def unknown(line: JsonObject, before: Before) -> Shown:
    """View a line of a type that a newer program writes."""
    what = scalar(line.get("type"))
    own = {key: value for key, value in line.items() if key not in _ENVELOPE}
    return Shown(Kind.NOTE, argument_blocks(own, (), "record"), header={"record": what} if what is not None else {})


def _prompt(line: JsonObject, before: Before) -> Shown:
    """View the system prompt: of a subagent, whose task is its first message too, or of a session of the oldest kind.

    The first line of today's sessions has none, and is bookkeeping.
    """
    prompt = line.get("systemPrompt")
    texts: list[tuple[object, Path]] = [(prompt, ("systemPrompt",))]
    if isinstance(prompt, list):
        texts = [(text, ("systemPrompt", at)) for at, text in enumerate(as_list(prompt))]
    blocks = tuple(Block("text", text, path=path) for text, path in texts if isinstance(text, str) and text)
    return Shown(Kind.SYSTEM, blocks) if blocks else BOOKKEEPING


def _compaction(line: JsonObject, before: Before) -> Shown:
    header: Header = {}
    if (tokens := scalar(line.get("tokensBefore"))) is not None:
        header["tokens_before"] = tokens
    shown = _summary(line, header)
    if shown.kind is not Kind.SUMMARY:
        return shown
    return structs.replace(shown, compaction=Compaction(shown.blocks[:1], as_text(line.get("firstKeptEntryId"))))


def _branch_summary(line: JsonObject, before: Before) -> Shown:
    return _summary(line, {"from": left} if (left := as_text(line.get("fromId"))) else {})


def _summary(line: JsonObject, header: Header) -> Shown:
    blocks = [Block("text", text, path=("summary",))] if isinstance(text := line.get("summary"), str) else []
    if short := as_text(line.get("shortSummary")):
        blocks.append(Block("text", short, name="short", path=("shortSummary",)))
    return Shown(Kind.SUMMARY, tuple(blocks), header=header) if blocks else BOOKKEEPING


def _label(line: JsonObject, before: Before) -> Shown:
    """View the mark that a user put on an entry."""
    text = as_text(line.get("label"))
    if not text:
        return BOOKKEEPING
    header: Header = {"record": "label", "target": as_text(line.get("targetId"))}
    return Shown(Kind.NOTE, (Block("text", text, path=("label",)),), header=header)


def _custom_message(line: JsonObject, before: Before) -> Shown:
    return messages.custom(line, (), Content(before, as_text(line.get("id"))))


VIEWS: dict[str, View] = {
    "branch_summary": _branch_summary,
    "compaction": _compaction,
    "custom_message": _custom_message,
    "label": _label,
    "message": messages.message,
    "session": _prompt,
    "session_init": _prompt,
}
