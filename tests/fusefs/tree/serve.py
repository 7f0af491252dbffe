"""Mounts a store and does what standard input asks for: ``python serve.py STORE MOUNTPOINT [allow_other] [serving]``.

Says ``ready`` once it is mounted. Each line of input is a JSON object, ``{"append": [context, [payload, …]]}`` or
``{"metadata": [context, {…}]}`` or ``{"branch": [context, parent turn, payload]}`` or ``{"edit": [context, {number:
payload or null}]}`` (null deletes) or ``{"restore": [context, version]}``, answered by a line ``done`` when it is
committed. ``{"open": [context, type, encoding]}`` begins a turn, the first of them number 0, which ``{"add": [number,
text, …]}``, ``{"seal": number}`` and ``{"abort": number}`` go on with. ``{"redact": text}`` redacts it, and proves it.
``{"hold": true}`` has searches find nothing before ``{"hold": false}``, and ``{"searching": true}`` waits until
somebody searches. ``{"forget": true}`` has it keep nothing at hand that was read before, and ``{"unreadable": true}``
has the disk fail to read any pack before ``{"unreadable": false}``. ``{"faulty": name}`` has a method of Claude Code's
format raise KeyError before the next such line, or ``{"faulty": ""}``. ``{"unfollowed": true}`` has the index fail once
as the next change of metadata is followed. ``{"answered": path}`` writes into a file how
many opens Python has not been asked about, of files and of directories, and ``{"known": path}`` how many inodes the
kernel knows. With ``serving``, others are answered on a socket, too. With ``rebooted``, the machine has just been
started. With ``descriptors=N``, the process may have so many at most. With ``patience=SECONDS``, changes wait so long
for a space.
"""

import errno
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trio

from fusefs import mount, opens
from fusefs.editing import stand_in
from fusefs.operations import Operations
from fusefs.text.render import FileRenderer
from fusefs.tree.changes import Stale
from fusefs.tree.tree import Tree
from store.conversations.contexts import Append
from store.conversations.open_turns import OpenTurn
from store.disk import durable
from store.editing.editor import DELETED, Editor
from store.formats.claude_code.session import ClaudeCode
from store.index.catalogue import Catalogue
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.search.search import Hit, Search
from store.service.server import Service, serving_beside
from store.store import Store

TYPE = "claude-code.line.v1"

held_up = threading.Event()
held_up.set()
searching = threading.Event()
search_pages = Search.pages


def pages(self: Search, query: str, limit: int | None = None, **how: Any) -> Iterator[list[Hit]]:  # noqa: ANN401 - passed on
    searching.set()
    held_up.wait()
    return search_pages(self, query, limit, **how)


Search.pages = pages  # type: ignore[method-assign]

unreadable = threading.Event()
os_pread = os.pread


def pread(fd: int, length: int, offset: int) -> bytes:
    if unreadable.is_set() and os.readlink(f"/proc/self/fd/{fd}").endswith(".pack"):
        raise OSError(errno.EIO, "the disk fails, for a test")
    return os_pread(fd, length, offset)


os.pread = pread

make_answered = opens.answered
in_c: list[opens.Answered] = []


def answered() -> opens.Answered | None:
    made = make_answered()
    in_c.extend([made] if made else [])
    return made


opens.answered = answered

operations: list[Operations] = []


class Counted(Operations):
    def __init__(self, tree: Tree, tell: Callable[[Stale], None]) -> None:
        super().__init__(tree, tell)
        operations.append(self)


mount.Operations = Counted  # type: ignore[misc]

if "rebooted" in sys.argv[3:]:
    started = time.time()
    durable._started = lambda: started


sound: list[tuple[str, Any]] = []


def be_faulty(name: str) -> None:
    """Have a method of Claude Code's format raise, and no other."""
    for known, method in sound:
        setattr(ClaudeCode, known, method)
    sound[:] = [(name, getattr(ClaudeCode, name))] if name else []

    def raising(*_given: object, **_more: object) -> None:
        raise KeyError(name)

    if name:
        setattr(ClaudeCode, name, raising)


def fail_to_follow() -> None:
    """Have the index fail the next time it is asked which conversations one has started."""
    sound_method = Catalogue.started_by

    def raising(_self: Catalogue, _context: int) -> list[int]:
        Catalogue.started_by = sound_method  # type: ignore[method-assign]  # back as it was
        raise KeyError("started_by")

    Catalogue.started_by = raising  # type: ignore[method-assign]  # a fault of the index


def obey(store: Store) -> None:
    turns: list[OpenTurn] = []
    for line in sys.stdin:
        match json.loads(line):
            case {"append": [context, payloads]}:
                store.contexts.append_many(context, [Append(payload.encode(), TYPE) for payload in payloads])
            case {"files": [context, payload, root]}:
                store.contexts.append(context, payload.encode(), TYPE, fs_root=bytes.fromhex(root))
            case {"attach": [turn, root]}:
                store.contexts.attach_fs(turn, bytes.fromhex(root))
            case {"metadata": [context, changes]}:
                store.contexts.set_metadata(context, changes)
            case {"branch": [context, parent, payload]}:
                store.contexts.append(context, payload.encode(), TYPE, parent=parent)
            case {"edit": [context, changes]}:
                contents = {int(number): DELETED if text is None else text.encode() for number, text in changes.items()}
                Editor(store).edit(context, contents)
            case {"restore": [context, version]}:
                Editor(store).restore(context, version)
            case {"redact": text}:
                secrets = Secrets([text.encode()])
                done = Redaction(store, secrets).run()
                assert prove(store, secrets, done.gone).found == []
            case {"open": [context, type_name, encoding]}:
                turns.append(store.open_turns.open(context, type_name, encoding=encoding))
            case {"add": [number, *texts]}:
                for text in texts:
                    turns[number].add(text.encode("utf-8", "surrogateescape"))
            case {"seal": number}:
                turns[number].seal()
            case {"abort": number}:
                turns[number].abort()
            case {"hold": hold}:
                held_up.clear() if hold else held_up.set()
            case {"forget": True}:
                store.blobs.forget()
            case {"unreadable": bad}:
                unreadable.set() if bad else unreadable.clear()
            case {"faulty": name}:
                be_faulty(name)
            case {"unfollowed": True}:
                fail_to_follow()
            case {"answered": path}:
                files = sum(each.answered for each in in_c)
                directories = sum(each.answered_directories for each in in_c)
                Path(path).write_text(f"{files} {directories}")
            case {"known": path}:
                Path(path).write_text(str(sum(1 for each in operations for _ in each.lookups)))
            case {"searching": True}:
                searching.wait()
        print("done", flush=True)


async def beside(*, task_status: trio.TaskStatus[None]) -> None:
    async with serving_beside(Service(opened, ())):
        task_status.started()
        await trio.sleep_forever()


for option in sys.argv[3:]:
    if option.startswith("descriptors="):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(option.partition("=")[2]),) * 2)
    if option.startswith("patience="):
        stand_in.PATIENCE_SECONDS = float(option.partition("=")[2])

with Store.open(Path(sys.argv[1]), renderer=FileRenderer()) as opened:
    threading.Thread(target=obey, args=(opened,), daemon=True).start()
    mount.run(
        opened,
        Path(sys.argv[2]),
        ready=lambda: print("ready", flush=True),
        background=beside if "serving" in sys.argv[3:] else None,
        allow_other="allow_other" in sys.argv[3:],
    )
