"""The foreign tools that convfs knows, and the lenses for payloads of every type.

A new tool is a module like ``example.py`` and one line in ``_KNOWN``. A tool's module is loaded when it is first asked
for: a command that lists conversations needs none of them. Types of which programs append payloads, but no tool keeps
files, have a lens only.
"""

import importlib
from collections.abc import Sequence
from functools import cache
from typing import overload

from store.disk.turn_format import Encoding
from store.errors import UsageError
from store.formats.core.editing import Lens
from store.formats.core.format import Format
from store.formats.core.msgpack_lens import UnknownMsgpackLens
from store.formats.core.unknown import TEXT_LENSES, UnknownLens

# The name of each format, the family of its types (the part before the first dot), its module and its class there.
# Files are offered to the formats in this order.
_KNOWN = (
    ("claude-code", "claude-code", "claude_code.session", "ClaudeCode"),
    ("codex", "codex", "codex.session", "Codex"),
    ("codex-json", "codex", "codex.session", "CodexDocument"),
    ("gemini-cli", "gemini-cli", "gemini_cli.session", "GeminiCli"),
    ("chatgpt", "chatgpt", "chatgpt", "ChatGpt"),
    ("claude-ai", "claude-ai", "claude_ai", "ClaudeAi"),
    ("jp", "jp", "jp", "Jp"),
    ("pi", "pi", "pi.session", "Pi"),
    ("opencode", "opencode", "opencode", "Opencode"),
    ("llm-logs", "llm-logs", "llm", "LlmLogs"),
    ("llm-json", "llm-json", "llm", "LlmJson"),
    ("swe-agent", "swe-agent", "swe_agent", "SweAgent"),
    ("openhands", "openhands", "openhands", "OpenHands"),
    ("aider", "aider", "aider", "Aider"),
    ("specstory", "specstory", "specstory", "SpecStory"),
    ("messages-jsonl", "messages-jsonl", "messages_jsonl", "MessagesJsonl"),
    ("api-messages", "api", "api_messages", "ApiMessages"),
)
_FAMILIES = frozenset(known[1] for known in _KNOWN)

_UNKNOWN = UnknownLens()
_UNKNOWN_MSGPACK = UnknownMsgpackLens()
_TEXT_LENSES: dict[str, Lens] = {lens.type_name: lens for lens in TEXT_LENSES}


class _Formats(Sequence[Format]):
    """All formats, in the order in which files are offered to them."""

    def __len__(self) -> int:
        return len(_KNOWN)

    @overload
    def __getitem__(self, index: int) -> Format: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Format]: ...
    def __getitem__(self, index: int | slice) -> Format | Sequence[Format]:
        if isinstance(index, slice):
            return [_loaded(*known) for known in _KNOWN[index]]
        return _loaded(*_KNOWN[index])


FORMATS: Sequence[Format] = _Formats()


def lens_for(type_name: str, encoding: int = Encoding.JSON) -> Lens:
    """Return the lens for payloads of a type in an encoding, as :class:`store.disk.turn_format.Encoding` numbers it.

    Where nothing is registered for the type, it is one that shows any bytes.
    """
    family = type_name.partition(".")[0]
    if encoding == Encoding.MSGPACK:
        return _cxdb_lenses().get(type_name, _UNKNOWN_MSGPACK) if family == "cxdb" else _UNKNOWN_MSGPACK
    return (_lenses(family) if family in _FAMILIES else _TEXT_LENSES).get(type_name, _UNKNOWN)


def format_named(name: str) -> Format:
    """Return the format called ``name``. Raises UsageError where there is none."""
    for known in _KNOWN:
        if known[0] == name:
            return _loaded(*known)
    names = ", ".join(known[0] for known in _KNOWN)
    raise UsageError(f"there is no format {name!r}; known are {names}")


@cache
def _loaded(_name: str, _family: str, module: str, class_name: str) -> Format:
    format_: Format = getattr(importlib.import_module(f"store.formats.{module}"), class_name)()
    return format_


@cache
def _lenses(family: str) -> dict[str, Lens]:
    return {lens.type_name: lens for known in _KNOWN if known[1] == family for lens in _loaded(*known).lenses}


@cache
def _cxdb_lenses() -> dict[str, Lens]:
    from store.formats.cxdb import LENSES

    return {lens.type_name: lens for lens in LENSES}
