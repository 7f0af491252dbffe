"""Session files as the tools write them, and how tests bring them in and get them out."""

import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from store.events.conversation import Conversation
from store.formats.core.format import Source
from store.formats.registry import format_named
from store.importing.exporter import export_native
from store.importing.group import Group
from store.importing.importer import Importer, ImportReport
from store.importing.records import Done
from store.importing.session import SessionImport
from store.store import Store

SAMPLES = Path(os.environ.get("CONVFS_SAMPLES") or Path(__file__).parents[4] / "shared" / "samples")
NO_SAMPLES = f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)"
SESSION = "5c0375b4-57a5-4bd1-b1f3-0f4a1e3a5d00"
_numbers = itertools.count(1)


def line(text: str, number: int = 0, **fields: object) -> bytes:
    """Return a line of a Claude Code session, without a newline; every other is the model's."""
    role = "assistant" if number % 2 else "user"
    record = {
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": SESSION,
        "cwd": "/home/ada/shop",
        "type": role,
        "message": {"role": role, "content": text},
        "uuid": f"u{number}",
        "timestamp": f"2026-03-05T19:{number // 60 % 60:02}:{number % 60:02}.000Z",
    }
    return json.dumps(record | fields, ensure_ascii=False).encode()


def lines(*texts: str, start: int = 0) -> bytes:
    """Return the lines of a Claude Code session."""
    return b"".join(line(text, number) + b"\n" for number, text in enumerate(texts, start))


def long_lines(count: int, size: int = 2000, start: int = 0) -> bytes:
    """Return lines of about ``size`` bytes, no two alike."""
    return lines(
        *(f"{number} " + f"word{number} " * (size // 9) for number in range(start, start + count)), start=start
    )


def session(folder: Path, content: bytes, name: str = SESSION, project: str = "-home-ada-shop") -> Path:
    """Write a Claude Code session where that tool keeps its sessions under ``folder``."""
    path = folder / "projects" / project / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def event(kind: str = "chat_request", text: str = "Fix it", second: int = 0) -> dict[str, object]:
    """Return an event of JP."""
    return {"timestamp": f"2026-03-05 23:12:{second:02}.3", "type": kind, "content": text}


def jp(folder: Path, events: Sequence[object] | bytes, name: str = "17727523543-fix-the-login") -> Path:
    """Write a JP conversation into the workspace at ``folder`` and return its directory."""
    path = folder / ".jp" / "conversations" / name
    path.mkdir(parents=True, exist_ok=True)
    content = events if isinstance(events, bytes) else json.dumps(events, indent=2).encode()
    (path / "events.json").write_bytes(content)
    (path / "metadata.json").write_text('{"title": "Fix the login"}')
    (path / "base_config.json").write_text('{"assistant": {"name": "jp"}}')
    return path


def imported(store: Store, *paths: Path) -> ImportReport:
    """Import what stands at ``paths``, with no error, and return the report."""
    report = Importer(store).run(paths)
    assert report.errors == []
    return report


def bring(store: Store, source: Source) -> Done:
    """Import one session, whatever its file holds."""
    group = Group(store)
    known = store.catalogue.by_source(str(source.path))
    session = SessionImport(store, group, format_named(source.format), source, known)
    done = session.run(None)
    group.commit()
    assert session.records.ending is None or session.records.ending.error is None
    return done


def by_source(store: Store, path: Path) -> Conversation:
    """Return the conversation that was imported from ``path``."""
    entry = store.catalogue.by_source(str(path))
    assert entry
    return store.library.conversation(entry.id)


@contextmanager
def exported(store: Store, conversation: Conversation) -> Iterator[dict[str, bytes]]:
    """Yield the files that a conversation is exported as: contents by name, relative to the target directory."""
    directory = Path(tempfile.mkdtemp(dir=store.root.parent))
    try:
        paths = export_native(store, conversation, directory)
        found = {str(path.relative_to(directory)): path.read_bytes() for path in paths}
        assert len(found) == len(paths)
        assert {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()} == set(found)
        yield found
    finally:
        shutil.rmtree(directory)


def native(store: Store, path: Path) -> bytes:
    """Return the main file of the session that was imported from ``path``, as it is exported now."""
    with exported(store, by_source(store, path)) as files:
        (name,) = [name for name in files if name in (path.name, f"{path.name}/events.json")]
        return files[name]


def payloads(store: Store, path: Path) -> list[bytes]:
    """Return the records of the session that was imported from ``path``."""
    turns = store.turns.path_to_root(by_source(store, path).head) if by_source(store, path).head else []
    return [store.contents.payload(turn.turn_id) for turn in turns]


def claude_source(path: Path) -> Source:
    """Return a file as a session of Claude Code, whatever it holds."""
    return Source("claude-code", path, path)


def jp_source(folder: Path) -> Source:
    """Return a directory as a conversation of JP, whatever it holds."""
    first = (str(folder / "base_config.json"),) if (folder / "base_config.json").exists() else ()
    return Source("jp", folder, folder / "events.json", first=first)


def fresh_name() -> str:
    """Return a name that no test has had yet."""
    return f"session-{next(_numbers)}"
