"""Outputs that were written, on their way into the store: a thread brings their content in, however large they are.

What is open again meanwhile, or has changed, is left as it is: it is brought in when it is closed.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from typing import TYPE_CHECKING

import trio

from fusefs.editing.outputs.handle import OutputHandle
from fusefs.tree.outputs import Key
from store.errors import NotFound

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk
    from store.artifacts.kept import Output

log = logging.getLogger(__name__)

_END_SECONDS = 60.0


class OutputKeeper:
    """Keeps the outputs of one mount that are closed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._artifacts = desk.tree.outputs.artifacts
        self._closed: queue.SimpleQueue[Key | None] = queue.SimpleQueue()
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=self._run, name="outputs", daemon=True)

    def start(self) -> None:
        """Begin, with what an earlier mount left; called in the loop that answers requests."""
        self._token = trio.lowlevel.current_trio_token()
        for context, outputs, name in self._artifacts.left():
            self._closed.put(Key(self._tree.view_id(context), outputs, name))
        self._thread.start()

    def put(self, key: Key) -> None:
        """Keep an output that was closed. An empty one waits: programs make files before they write to them."""
        if not self._is_open(key) and os.stat(self._path(key)).st_size:
            self._closed.put(key)

    def close(self) -> None:
        """Keep everything that is left, empty or not; the loop has ended."""
        self._closed.put(None)
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)
        self._artifacts.settle()

    def _run(self) -> None:
        while (key := self._closed.get()) is not None:
            try:
                self._take(key)
            except trio.RunFinishedError:
                return
            except (FileNotFoundError, NotFound):
                # removed since, or its conversation was
                continue
            except Exception as error:
                log.exception("%s/%s is kept when the mount ends", key.outputs.directory, key.name)
                trio.from_thread.run_sync(self._note, key, str(error), trio_token=self._token)

    def _take(self, key: Key) -> None:
        path = trio.from_thread.run_sync(self._path, key, trio_token=self._token)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            before = os.fstat(fd)
            with self._artifacts.store.relying():
                output = self._artifacts.take(fd, key.name)
                trio.from_thread.run_sync(self._keep, key, before, output, trio_token=self._token)
        finally:
            os.close(fd)

    def _keep(self, key: Key, before: os.stat_result, output: Output) -> None:
        """Name an output whose content is in the store, if it still is what it was; called in the loop."""
        path = self._path(key)
        now = os.stat(path)
        was, is_ = ((one.st_ino, one.st_size, one.st_mtime_ns) for one in (before, now))
        if was != is_ or self._is_open(key):
            return
        context = self._desk.records.context(key.view_id)
        self._artifacts.keep(context, key.outputs, output)
        self._tree.renew(key.view_id)
        self._artifacts.drop(context, key.outputs, key.name)

    def _is_open(self, key: Key) -> bool:
        """Say whether some program may still write to an output."""
        handles = self._desk.handles.values()
        return any(isinstance(one, OutputHandle) and one.key == key and one.fd >= 0 for one in handles)

    def _path(self, key: Key) -> os.PathLike[str]:
        return self._artifacts.path(self._desk.records.context(key.view_id), key.outputs, key.name)

    def _note(self, key: Key, reason: str) -> None:
        self._desk.note_path(key.view_id, f"{key.outputs.directory}/{key.name}", reason)
