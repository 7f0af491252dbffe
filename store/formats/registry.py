"""The foreign tools that convfs knows, and the lenses for payloads of every type.

A new tool is a module like ``example.py`` and one line in ``FORMATS``. Types of which programs append payloads, but no
tool keeps files, have a lens only.
"""

from store.disk.turn_format import Encoding
from store.errors import UsageError
from store.formats.aider import Aider
from store.formats.api_messages import ApiMessages
from store.formats.chatgpt import ChatGpt
from store.formats.claude_ai import ClaudeAi
from store.formats.claude_code import ClaudeCode
from store.formats.codex import Codex, CodexDocument
from store.formats.cxdb import LENSES as CXDB_LENSES
from store.formats.format import Format
from store.formats.gemini_cli import GeminiCli
from store.formats.jp import Jp
from store.formats.lens import Lens
from store.formats.llm_json import LlmJson
from store.formats.llm_logs import LlmLogs
from store.formats.messages_jsonl import MessagesJsonl
from store.formats.msgpack_lens import UnknownMsgpackLens
from store.formats.opencode import Opencode
from store.formats.openhands import OpenHands
from store.formats.pi import Pi
from store.formats.plain_text import TEXT_LENSES
from store.formats.specstory import SpecStory
from store.formats.swe_agent import SweAgent
from store.formats.unknown import UnknownLens

FORMATS: tuple[Format, ...] = (
    ClaudeCode(),
    Codex(),
    CodexDocument(),
    GeminiCli(),
    ChatGpt(),
    ClaudeAi(),
    Jp(),
    Pi(),
    Opencode(),
    LlmLogs(),
    LlmJson(),
    SweAgent(),
    OpenHands(),
    Aider(),
    SpecStory(),
    MessagesJsonl(),
    ApiMessages(),
)

_UNKNOWN = UnknownLens()
_UNKNOWN_MSGPACK = UnknownMsgpackLens()
_LENSES: dict[str, Lens] = {lens.type_name: lens for format_ in FORMATS for lens in format_.lenses}
_LENSES |= {lens.type_name: lens for lens in TEXT_LENSES}
_MSGPACK_LENSES: dict[str, Lens] = {lens.type_name: lens for lens in CXDB_LENSES}


def lens_for(type_name: str, encoding: int = Encoding.JSON) -> Lens:
    """Return the lens for payloads of a type in an encoding, as :class:`store.disk.turn_format.Encoding` numbers it.

    Where nothing is registered for the type, it is one that shows any bytes.
    """
    if encoding == Encoding.MSGPACK:
        return _MSGPACK_LENSES.get(type_name, _UNKNOWN_MSGPACK)
    return _LENSES.get(type_name, _UNKNOWN)


def format_named(name: str) -> Format:
    """Return the format called ``name``. Raises UsageError where there is none."""
    for format_ in FORMATS:
        if format_.name == name:
            return format_
    known = ", ".join(format_.name for format_ in FORMATS)
    raise UsageError(f"there is no format {name!r}; known are {known}")
