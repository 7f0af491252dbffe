"""Lines that are neither an item nor an event: what a session began with, and what was made of it when it grew long."""

from store.events.event import Block, Compaction, Kind, Path
from store.formats.codex.content import Content
from store.formats.json_view import JsonObject, as_list, as_object, as_text, scalar
from store.formats.lens import Before
from store.formats.shown import Header, Shown

HEADER: dict[str, str] = {
    "session": "id",
    "forked_from": "forked_from_id",
    "parent_session": "parent_thread_id",
    "agent": "agent_nickname",
    "cwd": "cwd",
    "originator": "originator",
    "version": "cli_version",
    "model_provider": "model_provider",
}
"""What the head of a session's first event shows, and where in its line that stands."""


def session_meta(value: JsonObject, base: Path, before: Before) -> Shown:
    """View the line that a session begins with: who it is, and the instructions that the model got."""
    header: Header = {}
    for name, key in HEADER.items():
        if (held := scalar(value.get(key))) is not None:
            header[name] = held
    blocks: list[Block] = []
    if text := as_text(as_object(value.get("base_instructions")).get("text")):
        blocks.append(Block("text", text, path=(*base, "base_instructions", "text")))
    if text := as_text(value.get("instructions")):
        blocks.append(Block("text", text, name="instructions" if blocks else "", path=(*base, "instructions")))
    return Shown(Kind.CONFIG, tuple(blocks), header=header)


def compacted(value: JsonObject, base: Path, before: Before) -> Shown:
    """View a compaction: the summary that stands for all before it, from here on, with the requests that stay.

    Today's programs leave the summary to the service, which encrypts it, or keep it as the last of the requests.
    """
    blocks: list[Block] = []
    header: Header = {}
    if text := as_text(value.get("message")):
        blocks.append(Block("text", text, path=(*base, "message")))
    history = as_list(value.get("replacement_history"))
    encrypted = any(as_text(as_object(item).get("type")).startswith("compaction") for item in history)
    if encrypted:
        header["encrypted"] = True
    if history:
        header["kept"] = len(history)
    # what nobody else can read must not take the place of what they can
    sent = () if encrypted else _requests(history) or tuple(blocks)
    return Shown(Kind.SUMMARY, tuple(blocks), header=header, compaction=Compaction(sent) if sent else None)


def _requests(history: list[object]) -> tuple[Block, ...]:
    """Return what the user's messages in a history say; where the last is a summary, that is one, too."""
    content = Content()
    for item in map(as_object, history):
        if item.get("type") == "message" and item.get("role") == "user":
            content.add(item.get("content"), ())
    return tuple(block for block in content.blocks if block.text)
