"""Lines that are neither an item nor an event: what a session began with, and what was made of it when it grew long."""

from store.events.event import Block, Kind, Path
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
    if any(as_text(as_object(item).get("type")).startswith("compaction") for item in history):
        header["encrypted"] = True
    if history:
        header["kept"] = len(history)
    return Shown(Kind.SUMMARY, tuple(blocks), header=header)
