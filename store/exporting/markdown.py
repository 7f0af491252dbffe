"""Markdown: a conversation as its transcript, with what is not text in a folder beside it."""

from __future__ import annotations

from pathlib import PurePath
from urllib.parse import quote

from store.errors import UsageError
from store.events.event import Block
from store.exporting.event_json import told_events
from store.exporting.naming import file_name
from store.exporting.target import Job, Target
from store.formats.media import suffix_of
from store.ids import hash_bytes


class Markdown(Target):
    """What stands under ``transcripts/`` in a mount, but for where its links lead."""

    name = "markdown"

    def write(self, job: Job) -> None:
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
