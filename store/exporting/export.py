"""Exporting: the forms that there are, and a conversation written out in one of them."""

import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path, PurePath
from urllib.parse import quote

from msgspec import Struct

from store.errors import UsageError
from store.events.conversation import Conversation
from store.events.event import Block
from store.exporting.aider import Aider
from store.exporting.described import Described, described
from store.exporting.dialogue import Loss, Losses
from store.exporting.event_json import json_file, json_lines, told_events
from store.exporting.html.page import page_file
from store.exporting.jp import Jp
from store.exporting.messages import anthropic_file, openai_file
from store.exporting.messages_jsonl import MessagesJsonl
from store.exporting.opencode import Kilo, Opencode
from store.exporting.sessions import ClaudeCode, Codex, GeminiCli, OhMyPi, Pi
from store.exporting.target import ExportJob, OneFile, Target, file_name
from store.formats.core.media import suffix_of
from store.formats.registry import format_named, learned, pages
from store.ids import hash_bytes
from store.importing.exporter import NATIVE, content_beside, native_files, native_writer, nothing, place, staging
from store.importing.placing import Stage, StagedFile, last_export
from store.importing.snapshot import path_text
from store.store import Store


class Markdown(Target):
    """A transcript as under ``transcripts/`` in a mount, but for where its links lead."""

    name = "markdown"

    def write(self, job: ExportJob) -> None:
        """Write one file, and ``NAME.files/`` where there are images and the like."""
        renderer = job.store.viewer.renderer
        if renderer is None:
            raise UsageError("this store was opened without a renderer: nothing can be drawn")
        folder = file_name(job.conversation, ".files")
        written: set[PurePath] = set()

        def link(block: Block) -> str:
            data = block.data or b""
            path = folder / f"{hash_bytes(data).hex()[:16]}.{suffix_of(block.mime)[:16]}"
            if path not in written:
                written.add(path)
                job.stage.write(path, (data,), unit=folder)
            return quote(str(path))

        text = renderer.transcript(job.conversation, told_events(job), link)
        job.stage.write(file_name(job.conversation, ".md"), text)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Markdown(),
        OneFile("html", ".html", page_file),
        OneFile("json", ".json", json_file),
        OneFile("jsonl", ".jsonl", json_lines),
        OneFile("openai", ".openai.json", openai_file),
        OneFile("anthropic", ".anthropic.json", anthropic_file),
        Jp(),
        ClaudeCode(),
        Codex(),
        Pi(),
        OhMyPi(),
        GeminiCli(),
        Opencode(),
        Kilo(),
        Aider(),
        MessagesJsonl(),
    )
}
"""The forms that no page describes, by name."""


class Exported(Struct, frozen=True):
    """The files that an export wrote, and its losses."""

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

    ``written`` is told how many bytes were written, again and again.

    Only what the last export wrote is overwritten, and nothing appears under its name before it is whole and on disk:
    where a name is taken, all goes into ``PROJECT/NAME/`` instead, where that is taken too, Conflict. UsageError for a
    form that there is not, or that the conversation cannot take, and where the directory cannot be written to.
    """
    losses = Losses()
    write = _writer(store, conversation, format_name, losses)
    directory = directory if format_name == NATIVE else target_named(format_name).above(directory)
    files = place(store, conversation, directory, format_name, write, written)
    return Exported(tuple(files), losses.all())


def _writer(store: Store, conversation: Conversation, format_name: str, losses: Losses) -> Callable[[Stage], None]:
    if format_name == NATIVE:
        return native_writer(store, conversation, losses.add)
    target = target_named(format_name)
    return lambda stage: target.write_all(ExportJob(store, conversation, stage, losses))


def stage(
    store: Store, conversation: Conversation, folder: Path, directory: Path, format_name: str
) -> tuple[list[StagedFile], tuple[Loss, ...]]:
    """Write into ``folder`` what belongs into ``directory`` (a real path), for another process to put it there."""
    losses = Losses()
    with staging(folder) as place:
        made = Stage(place.directory)
        _writer(store, conversation, format_name, losses)(made)
    last = last_export(store, conversation.id, directory, format_name)
    before = last.files if last and last.within == str(PurePath()) else {}
    files = [
        StagedFile(os.fsencode(name), made.hashes.get(name, ""), before.get(path_text(str(name)), ""))
        for name in made.files
    ]
    return files, losses.all()


def names(store: Store, conversation: Conversation, format_name: str) -> list[PurePath]:
    """Return the paths that :func:`export` would write into an empty directory, relative to that."""
    if format_name == NATIVE:
        beside = content_beside(store, conversation, nothing)
        return [file.name for file in chain(native_files(store, conversation), beside)]
    stage = Stage(None)
    target_named(format_name).write(ExportJob(store, conversation, stage, Losses()))
    return stage.files


def target_named(name: str) -> Target:
    """Return the form called ``name``. Raises UsageError where there is none."""
    if (found := TARGETS.get(name) or _described(name)) is None:
        raise UsageError(f"there is no format {name} to export to: choose one of {', '.join(forms())}")
    return found


def is_target(name: str) -> bool:
    """Return whether conversations of other tools can be exported as this."""
    return name in TARGETS or _described(name) is not None


def forms() -> list[str]:
    """Return the names of all forms, :data:`NATIVE` first, those that users describe last."""
    return [NATIVE, *TARGETS, *(one.name for one in (*pages(), *learned()) if described(one))]


def _described(name: str) -> Described | None:
    # only the page that is asked for is read
    try:
        format_ = format_named(name)
    except UsageError:
        return None
    return described(format_)
