"""Exporting: the forms that there are, and a conversation written out in one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from msgspec import Struct

from store.errors import UsageError
from store.events.conversation import Conversation
from store.exporting.anthropic import Anthropic
from store.exporting.claude_code import ClaudeCode
from store.exporting.codex import Codex
from store.exporting.event_json import Json, JsonLines
from store.exporting.gemini_cli import GeminiCli
from store.exporting.html import Html
from store.exporting.jp import Jp
from store.exporting.losses import Loss, Losses
from store.exporting.markdown import Markdown
from store.exporting.openai import OpenAi
from store.exporting.pi import OhMyPi, Pi
from store.exporting.target import Job, Stage, Target
from store.importing import placing
from store.importing.exporter import export_native, native_files
from store.store import Store

NATIVE = "native"
TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Markdown(),
        Html(),
        Json(),
        JsonLines(),
        OpenAi(),
        Anthropic(),
        Jp(),
        ClaudeCode(),
        Codex(),
        Pi(),
        OhMyPi(),
        GeminiCli(),
    )
}
"""The forms other than that of a conversation's own tool, by name."""

FORMATS = (NATIVE, *TARGETS)


class Exported(Struct, frozen=True):
    """The files that an export wrote, and what they do not say."""

    files: tuple[Path, ...]
    lost: tuple[Loss, ...] = ()


def export(
    store: Store,
    conversation: Conversation,
    directory: Path,
    format_name: str,
    written: Callable[[int], None] = lambda size: None,
) -> Exported:
    """Write a conversation into ``directory`` in the form that is called ``format_name``.

    ``written`` is told how many bytes were written, again and again; not of the native form.

    Nothing is overwritten, and nothing appears under its name before it is whole and on disk: where a name is taken,
    all goes into ``PROJECT/NAME/`` instead, where that is taken too, Conflict. UsageError for a form that there is
    not, or that the conversation cannot take, and where the directory cannot be written to.
    """
    if format_name == NATIVE:
        return Exported(tuple(export_native(store, conversation, directory)))
    target = _target(format_name)
    directory = target.above(directory)
    losses = Losses()
    with placing.staging(directory) as folder:
        stage = Stage(folder, written)
        target.write(Job(store, conversation, stage, losses))
        own = PurePath(conversation.project, conversation.name)
        where = placing.put(folder, directory, own, stage.units, stage.shared)
    return Exported(tuple(where / name for name in stage.files), losses.all())


def names(store: Store, conversation: Conversation, format_name: str) -> list[PurePath]:
    """Return what :func:`export` would write into an empty directory, relative to that."""
    if format_name == NATIVE:
        return [name for name, _pieces in native_files(store, conversation)]
    stage = Stage(None)
    _target(format_name).write(Job(store, conversation, stage, Losses()))
    return stage.files


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise UsageError(f"there is no format {name} to export to: choose one of {', '.join(FORMATS)}")
    return TARGETS[name]
