"""Exporting: the forms that there are, and a conversation written out in one of them."""

from collections.abc import Callable
from pathlib import Path, PurePath
from urllib.parse import quote

from msgspec import Struct

from store.errors import UsageError
from store.events.conversation import Conversation
from store.events.event import Block
from store.exporting.aider import Aider
from store.exporting.dialogue import Loss, Losses
from store.exporting.event_json import json_file, json_lines, told_events
from store.exporting.html.page import page_file
from store.exporting.jp import Jp
from store.exporting.messages import anthropic_file, openai_file
from store.exporting.opencode import Opencode
from store.exporting.sessions import ClaudeCode, Codex, GeminiCli, OhMyPi, Pi
from store.exporting.target import ExportJob, OneFile, Stage, Target, file_name
from store.formats.core.media import suffix_of
from store.ids import hash_bytes
from store.importing.exporter import export_native, native_files, staging
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


NATIVE = "native"
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
        Aider(),
    )
}
"""The forms other than that of a conversation's own tool, by name."""

FORMATS = (NATIVE, *TARGETS)


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
    with staging(directory) as place:
        stage = Stage(place.staged, written)
        target.write(ExportJob(store, conversation, stage, losses))
        where = place.put(conversation, stage.units, stage.shared)
    return Exported(tuple(where / name for name in stage.files), losses.all())


def names(store: Store, conversation: Conversation, format_name: str) -> list[PurePath]:
    """Return the paths that :func:`export` would write into an empty directory, relative to that."""
    if format_name == NATIVE:
        return [name for name, _pieces in native_files(store, conversation)]
    stage = Stage(None)
    _target(format_name).write(ExportJob(store, conversation, stage, Losses()))
    return stage.files


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise UsageError(f"there is no format {name} to export to: choose one of {', '.join(FORMATS)}")
    return TARGETS[name]
