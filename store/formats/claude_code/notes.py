"""Lines that are neither the user's nor the model's: system notes, attachments, summaries, bookkeeping."""

import re

from store.events.event import Block, Kind, Resource
from store.formats.blocks import argument_blocks
from store.formats.claude_code.envelope import beside_envelope
from store.formats.claude_code.messages import prompt_blocks
from store.formats.json_view import JsonObject, as_object, as_text, scalar
from store.formats.lens import Before
from store.formats.media import file_uri, mime_of
from store.formats.shown import BOOKKEEPING, Header, Shown

BOOKKEEPING_TYPES = frozenset(
    [
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "attribution-snapshot",
        "bridge-session",
        "content-replacement",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "progress",
        "queue-operation",
        "speculation-accept",
        "tag",
        "task-summary",
        "worktree-state",
    ]
)
"""Line types that no reader asks for; titles among them are read when a session is described."""

_EMPTY_OUTPUT = re.compile(r"(?:\s*<(local-command-\w+)>\s*</\1>)*\s*").fullmatch
_ATTACHMENT_KINDS = {
    "agent_listing_delta": Kind.CONFIG,
    "command_permissions": Kind.CONFIG,
    "critical_system_reminder": Kind.SYSTEM,
    "deferred_tools_delta": Kind.CONFIG,
    "directory": Kind.SYSTEM,
    "file": Kind.SYSTEM,
    "hook_additional_context": Kind.SYSTEM,
    "invoked_skills": Kind.SYSTEM,
    "mcp_instructions_delta": Kind.CONFIG,
    "nested_memory": Kind.SYSTEM,
    "output_style": Kind.CONFIG,
    "plan_file_reference": Kind.SYSTEM,
    "skill_listing": Kind.SYSTEM,
    "task_reminder": Kind.SYSTEM,
    "todo_reminder": Kind.SYSTEM,
}
_QUIET_ATTACHMENTS = frozenset(("auto_mode", "auto_mode_exit", "date_change"))
_ATTACHMENT_BOOKKEEPING = frozenset(
    [
        "command",
        "durationMs",
        "exitCode",
        "hookEvent",
        "hookName",
        "isInitial",
        "isSubAgent",
        "itemCount",
        "reminderType",
        "skillCount",
        "stdout",
        "toolUseID",
        "type",
    ]
)


def summary(line: JsonObject, before: Before) -> Shown:
    """View the summary that a session was listed under."""
    text = line.get("summary")
    if not isinstance(text, str):
        return BOOKKEEPING
    leaf = as_text(line.get("leafUuid"))
    return Shown(Kind.SUMMARY, (Block("text", text, path=("summary",)),), header={"leaf": leaf} if leaf else {})


def pull_request(line: JsonObject, before: Before) -> Shown:
    """View a link to the pull request that the session opened."""
    url = as_text(line.get("prUrl"))
    if not url:
        return BOOKKEEPING
    return Shown(Kind.NOTE, (Block("text", url, path=("prUrl",)),), header={"record": "pr-link"})


def system(line: JsonObject, before: Before) -> Shown:
    """View a note of the program: hooks, compaction, commands, errors, recaps."""
    subtype = as_text(line.get("subtype"))
    header: Header = {"subtype": subtype} if subtype else {}
    level = as_text(line.get("level"))
    if level not in ("", "info"):
        header["level"] = level
    if subtype == "turn_duration" or (subtype == "stop_hook_summary" and not _hooks_said_something(line)):
        return BOOKKEEPING
    content = line.get("content")
    if isinstance(content, str):
        if content and _EMPTY_OUTPUT(content):
            return BOOKKEEPING
        compaction = as_object(line.get("compactMetadata"))
        for key, name in (("trigger", "trigger"), ("preTokens", "pre_tokens")):
            if (value := scalar(compaction.get(key))) is not None:
                header[name] = value
        kind = Kind.SUMMARY if subtype == "away_summary" else Kind.NOTE
        return Shown(kind, (Block("text", content, path=("content",)),), header=header)
    blocks = argument_blocks(beside_envelope(line), (), "note")
    return Shown(Kind.NOTE, blocks, header=header) if blocks else BOOKKEEPING


def attachment(line: JsonObject, before: Before) -> Shown:
    """View what the program put into the context by itself: hook output, listings, files, queued messages."""
    attached = as_object(line.get("attachment"))
    what = as_text(attached.get("type"))
    header: Header = {"attachment": what}
    if hook := as_text(attached.get("hookName")):
        header["hook"] = hook
    if what in _QUIET_ATTACHMENTS:
        return BOOKKEEPING
    if what == "queued_command":
        blocks, resources = prompt_blocks(line, attached.get("prompt"), ("attachment", "prompt"))
        kind = Kind.USER if attached.get("commandMode", "prompt") == "prompt" else Kind.NOTE
        said = any(block.text or block.data for block in blocks)
        return Shown(kind, blocks, header=header, resources=resources) if said else BOOKKEEPING
    kind = _ATTACHMENT_KINDS.get(what, Kind.NOTE)
    if (file := _attached_file(attached)) is not None:
        block, resource = file
        return Shown(kind, (block,), header=header, resources=(resource,))
    blocks = _attachment_blocks(attached)
    return Shown(kind, blocks, header=header) if blocks else BOOKKEEPING


def unknown(line: JsonObject, before: Before) -> Shown:
    """View a line of a type that a newer program writes."""
    what = scalar(line.get("type"))
    own = beside_envelope(line)
    if "message" in line:
        own["message"] = line["message"]
    return Shown(Kind.NOTE, argument_blocks(own, (), "record"), header={"record": what} if what is not None else {})


def _hooks_said_something(line: JsonObject) -> bool:
    return bool(line.get("hookErrors") or line.get("preventedContinuation") or line.get("stopReason"))


def _attachment_blocks(attached: JsonObject) -> tuple[Block, ...]:
    """Show texts as text and the rest as JSON; nothing where all of it is bookkeeping or empty."""
    texts: list[Block] = []
    rest: JsonObject = {}
    for key, value in attached.items():
        if key in _ATTACHMENT_BOOKKEEPING or value in ("", None) or value == [] or value == {}:
            continue
        if key == "content" and isinstance(value, str):
            texts.append(Block("text", value, path=("attachment", "content")))
        elif key == "content" and isinstance(value, list) and all(isinstance(item, str) for item in value):
            texts += (Block("text", item, path=("attachment", key, at)) for at, item in enumerate(value) if item)
        else:
            rest[key] = value
    return (*texts, *argument_blocks(rest, ("attachment",), "attachment"))


def _attached_file(attached: JsonObject) -> tuple[Block, Resource] | None:
    """Return a file that was put into the context whole (``file`` and ``nested_memory``)."""
    content = as_object(attached.get("content"))
    inner = content.get("file")
    holder, path = (inner, "filePath") if isinstance(inner, dict) else (content, "path")
    named, text = holder.get(path), holder.get("content")
    if not isinstance(named, str) or not named or not isinstance(text, str):
        return None
    uri, mime = file_uri(named), mime_of(named)
    place = ("attachment", "content", "file", "content") if holder is inner else ("attachment", "content", "content")
    return Block("resource", text, uri=uri, mime=mime, path=place), Resource(uri, mime, text, place)
