"""Lines that are neither the user's nor the model's: system notes, attachments, summaries, bookkeeping."""

import re

from store.events.event import Block, Kind
from store.formats.claude_code.messages import ClaudeContent, lines_told
from store.formats.core.blocks import argument_blocks
from store.formats.core.json_view import JsonObject, as_object, as_text, scalar
from store.formats.core.lens import BOOKKEEPING, Before, Gathered, Header, Shown, unknown_record
from store.formats.core.media import file_uri, mime_of

_IDS = ("agentId", "parentToolUseID", "promptId", "requestId", "sessionId", "session_id", "toolUseID", "uuid")
_LINKS = ("logicalParentUuid", "parentUuid")
_OF_THE_PROGRAM = ("cwd", "entrypoint", "gitBranch", "slug", "userType", "version")
_OF_THE_LINE = ("isMeta", "isSidechain", "level", "message", "subtype", "timestamp", "type")
_ENVELOPE = frozenset((*_IDS, *_LINKS, *_OF_THE_PROGRAM, *_OF_THE_LINE))
"""Fields that any line may carry and that say nothing a reader of the conversation asks for."""

_OF_TITLES = ("agent-name", "agent-setting", "ai-title", "bridge-session", "custom-title", "last-prompt", "tag")
_OF_MODES = ("attribution-snapshot", "mode", "permission-mode", "pr-link", "queue-operation")
OF_THE_SESSION = frozenset((*_OF_TITLES, *_OF_MODES))
"""The types of lines that are no part of the tree, and that only this program writes."""

_OF_RECORDING = ("content-replacement", "file-history-delta", "file-history-snapshot", "progress", "speculation-accept")
OF_ONE_TEXT = {"pr-link": "prUrl", "queue-operation": "content", "task-summary": "summary"}
"""Where lines that tell nothing else have their text: what a user types while the model works may stand there alone."""
BOOKKEEPING_TYPES = (OF_THE_SESSION | {*_OF_RECORDING, "agent-color", "worktree-state"}) - OF_ONE_TEXT.keys()
"""Line types that no reader asks for; titles among them are read when a session is described."""

_EMPTY_OUTPUT = re.compile(r"(?:\s*<(local-command-\w+)>\s*</\1>)*\s*").fullmatch
_LISTING = ("agent_listing_delta", "command_permissions", "deferred_tools_delta", "mcp_instructions_delta")
CONFIGURING = (*_LISTING, "output_style")
"""The types of attachments that say how the program is set."""
_REMINDING = ("critical_system_reminder", "hook_additional_context", "task_reminder", "todo_reminder")
_ATTACHING = ("directory", "file", "invoked_skills", "nested_memory", "plan_file_reference", "skill_listing")
_ATTACHMENT_KINDS = {
    **dict.fromkeys(CONFIGURING, Kind.CONFIG),
    **dict.fromkeys((*_REMINDING, *_ATTACHING), Kind.SYSTEM),
}
_QUIET_ATTACHMENTS = frozenset(("auto_mode", "auto_mode_exit", "date_change"))
_OF_HOOKS = ("command", "durationMs", "exitCode", "hookEvent", "hookName", "stdout", "toolUseID", "type")
_OF_LISTINGS = ("isInitial", "isSubAgent", "itemCount", "reminderType", "skillCount")
_ATTACHMENT_BOOKKEEPING = frozenset((*_OF_HOOKS, *_OF_LISTINGS))


def summary(line: JsonObject, before: Before) -> Shown:
    """View the summary that a session was listed under."""
    text = line.get("summary")
    if not isinstance(text, str):
        return BOOKKEEPING
    leaf = as_text(line.get("leafUuid"))
    return Shown(Kind.SUMMARY, (Block("text", text, path=("summary",)),), header={"leaf": leaf} if leaf else {})


def one_text(line: JsonObject, before: Before) -> Shown:
    """View a line that tells one text."""
    what = as_text(line.get("type"))
    key = OF_ONE_TEXT[what]
    text = as_text(line.get(key))
    return Shown(Kind.NOTE, (Block("text", text, path=(key,)),), header={"record": what}) if text else BOOKKEEPING


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
    blocks = argument_blocks({key: value for key, value in line.items() if key not in _ENVELOPE}, (), "note")
    return Shown(Kind.NOTE, blocks, header=header) if blocks else BOOKKEEPING


def attachment(line: JsonObject, before: Before) -> Shown:
    """View an addition of the program to the context: hook output, listings, files, queued messages."""
    attached = as_object(line.get("attachment"))
    what = as_text(attached.get("type"))
    into = ClaudeContent(line=line, header={"attachment": what})
    if hook := as_text(attached.get("hookName")):
        into.header["hook"] = hook
    if what in _QUIET_ATTACHMENTS:
        return BOOKKEEPING
    if what == "queued_command":
        into.add(attached.get("prompt"), ("attachment", "prompt"))
        kind = Kind.USER if attached.get("commandMode", "prompt") == "prompt" else Kind.NOTE
        return into.shown(kind) if any(block.text or block.data for block in into.blocks) else BOOKKEEPING
    if not _attach_file(attached, into):
        into.blocks += _attachment_blocks(attached)
    return into.shown_if_any(_ATTACHMENT_KINDS.get(what, Kind.NOTE))


def unknown(line: JsonObject, before: Before) -> Shown:
    """View a line of a type that a newer program writes."""
    return unknown_record(line, _ENVELOPE - {"message"})


def _hooks_said_something(line: JsonObject) -> bool:
    return bool(line.get("hookErrors") or line.get("preventedContinuation") or line.get("stopReason"))


def _attachment_blocks(attached: JsonObject) -> tuple[Block, ...]:
    """Show texts as text and the rest as JSON; nothing where all of it is bookkeeping or empty."""
    texts: list[Block] = []
    rest: JsonObject = {}
    for key, value in attached.items():
        if key in _ATTACHMENT_BOOKKEEPING or value in ("", None) or value in ([], {}):
            continue
        if key == "content" and isinstance(value, str):
            texts.append(Block("text", value, path=("attachment", "content")))
        elif key == "content" and isinstance(value, list) and all(isinstance(item, str) for item in value):
            texts += (Block("text", item, path=("attachment", key, at)) for at, item in enumerate(value) if item)
        else:
            rest[key] = value
    return (*texts, *argument_blocks(rest, ("attachment",), "attachment"))


def _attach_file(attached: JsonObject, into: Gathered) -> bool:
    """Add a file that was put into the context (``file``, ``nested_memory``), or lines of it; return if it is one."""
    content = as_object(attached.get("content"))
    inner = content.get("file")
    holder, path = (inner, "filePath") if isinstance(inner, dict) else (content, "path")
    named, text = holder.get(path), holder.get("content")
    if not isinstance(named, str) or not named or not isinstance(text, str):
        return False
    place = ("attachment", "content", "file", "content") if holder is inner else ("attachment", "content", "content")
    into.attach(text, file_uri(named) + lines_told(holder), mime_of(named), place)
    return True
