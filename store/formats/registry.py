"""The foreign tools that convfs knows, and the lenses for payloads of every type.

A new tool is a page in ``descriptions/``, or where a page cannot say it, a module like ``example.py``, which may leave
what is in a record to a page in ``views/``, and one line in ``_KNOWN``; a user's own is a page in the store's
``formats/``. A tool's module is loaded when it is first asked for: a command that lists conversations needs none of
them. Types of which programs append payloads, but no tool keeps files, have a lens only.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cache
from itertools import chain
from pathlib import Path
from typing import overload

from store.disk.turn_format import Encoding
from store.errors import UsageError, told
from store.formats.core.editing import Lens
from store.formats.core.format import Format
from store.formats.core.look import Look
from store.formats.core.msgpack_lens import MsgpackLens, UnknownSaid
from store.formats.core.unknown import TEXT_LENSES, UnknownLens


def _pages(names: str) -> Iterator[tuple[str, str, str, str]]:
    return ((name, name, "", "") for name in names.split())


# The name of each format, the family of its types (the part before the first dot), its module and its class there; one
# without a module is described by a page of descriptions/.
# Files are offered to the formats in this order.
_KNOWN = (
    ("claude-code", "claude-code", "claude_code.session", "ClaudeCode"),
    ("codex", "codex", "codex.session", "Codex"),
    ("codex-zst", "codex", "codex.session", "CodexCompressed"),
    ("codex-json", "codex", "codex.session", "CodexDocument"),
    ("gemini-cli", "gemini-cli", "gemini_cli.session", "GeminiCli"),
    ("chatgpt", "chatgpt", "chatgpt", "ChatGpt"),
    ("claude-ai", "claude-ai", "claude_ai", "ClaudeAi"),
    ("jp", "jp", "jp", "Jp"),
    ("pi", "pi", "pi.session", "Pi"),
    ("pi-zst", "pi", "pi.session", "PiCompressed"),
    ("kilo", "opencode", "opencode", "Kilo"),
    ("opencode", "opencode", "opencode", "Opencode"),
    ("llm-logs", "llm-logs", "llm", "LlmLogs"),
    ("llm-json", "llm-json", "llm", "LlmJson"),
    ("mistral-vibe-store", "mistral-vibe-store", "vibe_store", "VibeStore"),
    ("swe-agent", "swe-agent", "swe_agent", "SweAgent"),
    ("openhands", "openhands", "openhands", "OpenHands"),
    ("aider", "aider", "aider", "Aider"),
    ("specstory", "specstory", "specstory", "SpecStory"),
    *_pages(
        """
        copilot-cli antigravity codex-exec cursor droid droid-stream gemini-stream agent-stream goose-lines grok-build
        grok-updates hermes-export hermes-lines jan kimi-cli kimi-code kiro kiro-messages kiro-db mistral-vibe
        qwen-code amp copilot-history cline cline-tasks continue hermes lm-studio opencode-export vscode-chat crush
        goose hermes-db openclaw opencode-v2 cursor-ide
        """
    ),
    ("cursor-store", "cursor-store", "cursor_store", "CursorStore"),
    *_pages("zed open-webui"),
    ("messages-jsonl", "messages-jsonl", "messages_jsonl", "MessagesJsonl"),
    ("api-messages", "api", "api_messages", "ApiMessages"),
)
_GUESSES = (*_pages("guess-lines guess-document"), ("text-log", "text-log", "text_log", "TextLog"))
"""Formats that no tool writes: for files that somebody names, and says so or finds no tool for."""
_OF_FOLDERS = frozenset(("jp", "mistral-vibe-store", "openhands"))
"""The formats whose sessions may be directories."""
_OF_DATABASES = frozenset(
    name
    for name, *_rest in _pages(
        """
        kilo opencode llm-logs hermes-export kiro-db crush goose hermes-db openclaw opencode-v2 cursor-ide cursor-store
        zed open-webui
        """
    )
)
"""The formats whose sessions may stand in databases."""
_DESCRIPTIONS = Path(__file__).parent / "descriptions"
_FAMILIES = frozenset(known[1] for known in (*_KNOWN, *_GUESSES))

_UNKNOWN = UnknownLens()
_UNKNOWN_MSGPACK = MsgpackLens(UnknownSaid())
_TEXT_LENSES: dict[str, Lens] = {lens.type_name: lens for lens in TEXT_LENSES}


_learned: dict[str, Format] = {}
"""The formats that users describe, by their names."""


class _Formats(Sequence[Format]):
    """All formats, in the order in which files are offered to them: those that users describe come first.

    Each is loaded when it is its turn: what one claims is offered to none after it. ``guesses`` are among them, last.
    """

    def __init__(self, *, guesses: bool = False) -> None:
        self._guesses = guesses

    @property
    def _known(self) -> list[tuple[str, str, str, str]]:
        return [*_KNOWN, *(known for known in _GUESSES if self._guesses and not known[2])]

    def __len__(self) -> int:
        return len(_learned) + len(self._known)

    def __iter__(self) -> Iterator[Format]:
        yield from learned()
        yield from (_loaded(*known) for known in self._known)

    def among(self, names: Set[str]) -> Iterator[Format]:
        """Yield those of some names."""
        return (_loaded(*known) for known in self._known if known[0] in names)

    @overload
    def __getitem__(self, index: int) -> Format: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Format]: ...
    def __getitem__(self, index: int | slice) -> Format | Sequence[Format]:
        return list(self)[index]


FORMATS: Sequence[Format] = _Formats()
WITH_GUESSES: Sequence[Format] = _Formats(guesses=True)


def candidates(formats: Sequence[Format], look: Look) -> Iterable[Format]:
    """Return those of some formats that may claim what stands at a path, in order. Raises OSError as ``look`` does."""
    if isinstance(formats, _Formats) and look.is_folder:
        return formats.among(_OF_FOLDERS)
    if isinstance(formats, _Formats) and look.is_database:
        return chain(learned(), formats.among(_OF_DATABASES))
    return formats


def packing(name: str) -> list[str]:
    """Return the names of the formats of files that hold sessions of a format compressed."""
    family = next((known[1] for known in _KNOWN if known[0] == name), None)
    return [known[0] for known in _KNOWN if known[1] == family and _loaded(*known).unpacked == name]


def lens_for(type_name: str, encoding: int = Encoding.JSON) -> Lens:
    """Return the lens for payloads of a type in an encoding, as :class:`store.disk.turn_format.Encoding` numbers it.

    Where nothing is registered for the type, it is one that shows any bytes.
    """
    family = type_name.partition(".")[0]
    if encoding == Encoding.MSGPACK:
        return _cxdb_lenses().get(type_name, _UNKNOWN_MSGPACK) if family == "cxdb" else _UNKNOWN_MSGPACK
    if (learned := _learned.get(family)) is not None and type_name == learned.main_type:
        return learned.lenses[0]
    return (_lenses(family) if family in _FAMILIES else _TEXT_LENSES).get(type_name, _UNKNOWN)


def format_named(name: str) -> Format:
    """Return the format called ``name``. Raises UsageError where there is none."""
    if name in _learned:
        return _learned[name]
    for known in _all():
        if known[0] == name:
            return _loaded(*known)
    names = ", ".join((*_learned, *(known[0] for known in _all())))
    raise UsageError(f"there is no format {name!r}; known are {names}")


def _all() -> Iterator[tuple[str, str, str, str]]:
    yield from _KNOWN
    yield from _GUESSES


def guesses() -> list[Format]:
    """Return the formats that look for what seems to be messages, of no tool."""
    return [_loaded(*known) for known in _GUESSES if not known[2]]


def is_guess(name: str) -> bool:
    """Return whether a format is one that no tool writes."""
    return any(known[0] == name for known in _GUESSES)


def pages() -> Iterator[Format]:
    """Yield the formats of tools that are pages of text, without those that users describe."""
    return (_loaded(*known) for known in _KNOWN if not known[2])


def learned() -> list[Format]:
    """Return the formats that users describe."""
    return list(_learned.values())


def is_described(format_: Format) -> bool:
    """Return whether a format is a page of text."""
    return format_.name in _learned or any(known[0] == format_.name and not known[2] for known in _all())


def learn(folder: Path) -> list[str]:
    """Read the descriptions in a folder anew; return what is wrong with those that cannot be used.

    A format stays known to this process when its page is gone: what was imported by it can still be read.
    """
    try:
        pages = sorted(folder.glob("*.toml"))
    except OSError as error:
        return [f"{folder} cannot be read: {error}"]
    wrong: list[str] = []
    for page in pages:
        if any(page.stem in known[:2] for known in _all()):
            wrong.append(f"{page}: there is a format of this name: call yours otherwise")
            continue
        try:
            status = page.stat()
            _learned[page.stem] = _described(page, status.st_mtime_ns, status.st_size)
        except Exception as error:
            said = str(told(error))
            wrong.append(said if str(page) in said else f"{page}: {said}")
    return wrong


@cache
def _loaded(name: str, _family: str, module: str, class_name: str) -> Format:
    if not module:
        return _described(_DESCRIPTIONS / f"{name}.toml", 0, 0)
    format_: Format = getattr(importlib.import_module(f"store.formats.{module}"), class_name)()
    return format_


@cache
def _described(page: Path, _written_ns: int, _size: int) -> Format:
    # a watcher imports all the time, and a page that nobody has written to says what it said
    from store.formats.declared.database import DeclaredDatabase, DeclaredExport
    from store.formats.declared.deltas import DeclaredDeltas
    from store.formats.declared.description import read_file
    from store.formats.declared.format import DeclaredFormat

    said = read_file(page)
    if said.database is None:
        return DeclaredDeltas(said) if said.deltas else DeclaredFormat(said)
    return DeclaredExport(said) if said.detect else DeclaredDatabase(said)


@cache
def _lenses(family: str) -> dict[str, Lens]:
    own = [_loaded(*known) for known in _all() if known[1] == family]
    return {lens.type_name: lens for format_ in own for lens in format_.lenses}


@cache
def _cxdb_lenses() -> dict[str, Lens]:
    from store.formats.cxdb import LENSES

    return {lens.type_name: lens for lens in LENSES}
