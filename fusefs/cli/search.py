"""``convfs search`` and ``convfs grep``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import json_array
from store import visible

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from fusefs.daemon.operations import HitLine

Take = Callable[[list["HitLine"]], None]
_Form = Callable[[], AbstractContextManager[Take]]

FILING_SECONDS = 3.0
"""The time that a command spends indexing after its answer if it opened the store itself."""


@click.command(short_help="Search all conversations.")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Print no more than N events.")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def search(store: Path | None, query: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """Print the matching lines of all events that match QUERY, best first, as PATH:LINE:TEXT.

    \b
    connection reset           both words, in any order, also inside longer words
    '"connection reset by"'    exactly this
    '/time(d )?out after/'     a regular expression (Python's), within a line
    project:shop label:bug     only these: whole names; * matches anything
    role:assistant             user, assistant, tool, system; call, result, …
    tool:Bash uri:main.py      of a tool; with a resource whose URI contains this
    after:2026-03 before:7     from a day on; before a day; a number is days ago
    -- connection -reset       without this

    PATH is relative to a mount. A lower-case QUERY is case-insensitive. Exits with 1 if nothing is found.
    """  # noqa: D301  (click takes the character for a mark)
    from fusefs.daemon import operations

    asked = operations.search(" ".join(query), limit or 0)
    with _telling(store, _array if as_json else _lines) as (backend, take):
        backend.call(asked, take)


@click.command(short_help="Print the lines that match a pattern.")
@click.argument("pattern")
@click.argument("where", nargs=-1)
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case.")
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="PATTERN is plain text.")
@click.option(
    "-E", "--extended-regexp", "_extended", is_flag=True, help="PATTERN is a regular expression: the default."
)
@click.option("-w", "--word-regexp", "words", is_flag=True, help="Match whole words only.")
@click.option("-l", "--files-with-matches", "paths", is_flag=True, help="Print only paths.")
@click.option("-c", "--count", is_flag=True, help="Print paths and counts of lines.")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def grep(
    store: Path | None,
    pattern: str,
    where: tuple[str, ...],
    ignore_case: bool,
    fixed: bool,
    _extended: bool,
    words: bool,
    paths: bool,
    count: bool,
    as_json: bool,
) -> None:
    """Print all lines of events that match PATTERN, a regular expression (Python's), as PATH:LINE:TEXT.

    Shared content is searched once and reported for every conversation. WHERE takes the filters of `convfs search`
    (project:shop after:2026-03). PATH is relative to a mount. Exits with 1 if nothing is found.
    """
    if paths + count + as_json > 1:
        raise click.UsageError("-l, -c and --json exclude each other")
    from fusefs.daemon import operations

    asked = operations.grep(pattern, fixed, ignore_case, words, " ".join(where))
    form = _array if as_json else _paths if paths else _counts if count else _lines
    with _telling(store, form) as (backend, take):
        backend.call(asked, take)


@contextmanager
def _telling(store: Path | None, form: _Form) -> Iterator[tuple[Backend, Take]]:
    """Yield a backend, and a function that prints pages of hits in some form."""
    from fusefs.cli.backend import reach, store_root
    from fusefs.daemon import operations

    found = False
    with reach(store_root(store)) as backend:
        with form() as write:

            def take(page: list[HitLine]) -> None:
                nonlocal found
                found = found or bool(page)
                write(page)
                sys.stdout.flush()

            yield backend, take
        backend.call(operations.file_turns(FILING_SECONDS))
    if not found:
        raise click.exceptions.Exit(1)


@contextmanager
def _array() -> Iterator[Take]:
    with json_array() as write:
        yield write


@contextmanager
def _lines() -> Iterator[Take]:
    shown = visible.line if sys.stdout.isatty() else str

    def take(page: list[HitLine]) -> None:
        for hit in page:
            path = visible.line(hit.path)
            for line in hit.lines:
                sys.stdout.write(f"{path}:{line.number}:{shown(line.text)}\n")
            if not hit.lines:
                sys.stdout.write(f"{path}\n")

    yield take


@contextmanager
def _paths() -> Iterator[Take]:
    last = ""

    def take(page: list[HitLine]) -> None:
        nonlocal last
        for hit in page:
            if hit.path != last:
                sys.stdout.write(f"{visible.line(hit.path)}\n")
            last = hit.path

    yield take


@contextmanager
def _counts() -> Iterator[Take]:
    path, count = "", 0

    def take(page: list[HitLine]) -> None:
        nonlocal path, count
        for hit in page:
            if hit.path != path:
                if path:
                    sys.stdout.write(f"{visible.line(path)}:{count}\n")
                path, count = hit.path, 0
            count += len(hit.lines)

    yield take
    if path:
        sys.stdout.write(f"{visible.line(path)}:{count}\n")
