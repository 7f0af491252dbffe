"""Formats of invented tools whose files hold many conversations, and how tests have them known."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence, Set
from contextlib import closing
from pathlib import Path

import pytest

from store.errors import UsageError
from store.formats import registry
from store.formats.core.editing import Lens
from store.formats.core.format import About, Format, Part, Source, Span, line_spans
from store.formats.core.json_spans import elements, locate
from store.formats.core.json_view import as_list, as_object, as_text, decode
from store.formats.core.look import Look
from store.formats.core.unknown import UnknownLens

_key = re.compile(rb"([a-z]+):").match
_branch = re.compile(rb"#([a-z]+)=([a-z]+)/(\d+)").fullmatch


class Braid(Format):
    """``*.braid``: lines ``key:text`` of conversations, in any order; ``#b=a/2`` says that b goes on after a's second.

    Anything else is nobody's.
    """

    name = "braid"
    lenses: Sequence[Lens] = (UnknownLens(),)
    main_type = "braid.line.v1"

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        return iter(())

    def claim(self, look: Look) -> Source | None:
        beside = look.path.with_suffix(".notes")
        sidecars = ((beside.name, beside),) if beside.exists() else ()
        return Source(self.name, look.path, look.path, sidecars=sidecars) if look.path.suffix == ".braid" else None

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        return line_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        return About(title="Braided")

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        found: dict[str, list[int]] = {}
        bases: dict[str, tuple[str, int]] = {}
        for at, span in enumerate(spans):
            line = bytes(data[span.start : span.end])
            if line == b"#one":
                return None
            if named := _key(line):
                found.setdefault(named[1].decode(), []).append(at)
            elif branch := _branch(line):
                bases[branch[1].decode()] = (branch[2].decode(), int(branch[3]))
        order = list(found)
        parts = []
        for key in order:
            base, shared = bases.get(key, ("", 0))
            about = About(title=f"Strand {key}", project="loom")
            position = order.index(base) if base in order else -1
            parts.append(Part(key, found[key], about, position, shared))
        return parts

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """A line that ends in ``<-`` belongs to the one before it, and goes with that."""
        gone = {at for at in range(1, len(records)) if at - 1 in deleted and records[at].endswith(b"<-")}
        return [record for at, record in enumerate(records) if at not in deleted | gone]


class Boxes(Format):
    """``*.boxes``: a JSON document of conversations, each a tree of things said of which ``current`` is the last."""

    name = "boxes"
    lenses: Sequence[Lens] = (UnknownLens(),)
    main_type = "boxes.said.v1"
    joints = (b"", b",", b"")

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        return iter(())

    def claim(self, look: Look) -> Source | None:
        return Source(self.name, look.path, look.path) if look.path.suffix == ".boxes" else None

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        document = bytes(data)
        for box, _end in elements(document, locate(document, ("boxes",))[0]):
            said, _ = locate(document[box:], ("said",))
            yield from (Span(*span) for span in elements(document, box + said))

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        return About()

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        decoded = decode(bytes(data))
        boxes = as_list(as_object(decoded.value).get("boxes")) if decoded else []
        parts: list[Part] = []
        number = 0
        for box in map(as_object, boxes):
            said = [as_object(one) for one in as_list(box.get("said"))]
            ids = {as_text(one.get("id")): number + at for at, one in enumerate(said)}
            above = {ids[as_text(one.get("id"))]: ids.get(as_text(one.get("on")), -1) for one in said}
            number += len(said)
            leaves = [position for position in above if position not in above.values()]
            current = ids.get(as_text(box.get("current")), leaves[-1] if leaves else -1)
            main, about = len(parts), About(title=as_text(box.get("title")), session_id=as_text(box.get("id")))
            path = _path(above, current)
            parts.append(Part(as_text(box.get("id")), path, about))
            taken = {position: (main, at + 1) for at, position in enumerate(path)}
            for leaf in (leaf for leaf in leaves if leaf not in taken):
                own = [position for position in _path(above, leaf) if position not in taken]
                base, shared = taken.get(above[own[0]], (-1, 0))
                taken |= {position: (len(parts), shared + at + 1) for at, position in enumerate(own)}
                parts.append(Part(f"{box['id']}/{leaf}", own, about, base, shared))
        return parts

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Things said are put on what those that are gone were said on."""
        said = [json.loads(record) for record in records]
        gone = {said[at]["id"]: said[at].get("on") for at in deleted}
        left = []
        for at, record in enumerate(records):
            if at in deleted:
                continue
            on = said[at].get("on")
            while on in gone:
                on = gone[on]
            left.append(record if on == said[at].get("on") else json.dumps(said[at] | {"on": on}).encode())
        return left


class Ledger(Format):
    """``*.ledger``: an SQLite database of what was said in which talk. A talk called ``all`` is the only one."""

    name = "ledger"
    lenses: Sequence[Lens] = (UnknownLens(),)
    main_type = "ledger.row.v1"

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        return iter(())

    def claim(self, look: Look) -> Source | None:
        path = look.path
        if not look.head.startswith(b"SQLite format 3"):
            return None
        return Source(self.name, path, path, beside=(path.with_name(f"{path.name}-wal"),))

    def rendition(self, source: Source, scratch: Path) -> Path:
        lines = scratch / "lines"
        with closing(sqlite3.connect(source.main)) as db:
            try:
                rows = db.execute("SELECT number, talk, text FROM said ORDER BY talk, number").fetchall()
            except sqlite3.Error as error:
                raise UsageError(f"{source.main.name} cannot be read: {error}") from error
        names = ("number", "talk", "text")
        lines.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
        return lines

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        shutil.copyfile(original, target)
        rows = [json.loads(line) for line in rendition.read_bytes().splitlines()]
        with closing(sqlite3.connect(target)) as db:
            with db:
                db.execute("DELETE FROM said")
                db.executemany("INSERT INTO said VALUES (:number, :talk, :text)", rows)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        return line_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        return About(title=f"All {len(records)}")

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        found: dict[str, list[int]] = {}
        for at, span in enumerate(spans):
            found.setdefault(json.loads(bytes(data[span.start : span.end]))["talk"], []).append(at)
        return None if "all" in found else [Part(key, found[key], About(title=key)) for key in found]


def _path(above: dict[int, int], position: int) -> list[int]:
    path: list[int] = []
    while position >= 0 and position not in path:
        path.insert(0, position)
        position = above[position]
    return path


def know(patch: pytest.MonkeyPatch, *formats: Format) -> None:
    """Have these formats known, and no others."""
    named = {format_.name: format_ for format_ in formats}
    patch.setattr(registry, "_KNOWN", [(name, "", "", "") for name in named])
    patch.setattr(registry, "_GUESSES", ())
    patch.setattr(registry, "_OF_DATABASES", frozenset(named))
    patch.setattr(registry, "_loaded", lambda name, *_where: named[name])
