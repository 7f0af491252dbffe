"""``convfs search`` and ``convfs grep``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import escape, json_array

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from fusefs.cli.searching import HitLine

Take = Callable[[list["HitLine"]], None]
_Form = Callable[[], AbstractContextManager[Take]]

FILING_SECONDS = 3.0
"""How long a command that opened the store itself goes on indexing after it has told what it found."""


@click.command(short_help="Find what was said.")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Print no more than N events.")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def search(store: Path | None, query: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """Print the lines of all events that have what QUERY asks for, the best first, as PATH:LINE:TEXT.

    \b
    connection reset           both words, in any order, also within longer words
    '"connection reset by"'    exactly this
    '/time(d )?out after/'     a regular expression (Python's), within a line
    project:shop label:bug     only there: whole names; * is anything
    role:assistant             user, assistant, tool, system; call, result, …
    tool:Bash uri:main.py      of a tool; with a resource whose URI has this
    after:2026-03 before:7     from a day on; before a day, or so many days ago
    -- connection -reset       not with this

    PATH is relative to a mount. A QUERY without capitals does not regard case. Exits with 1 if nothing is found.
    """
    from fusefs.cli.searching import SEARCH, SearchParams

    params = SearchParams(" ".join(query), limit or 0)
    with _telling(store, _array if as_json else _lines) as (backend, take):
        backend.call(SEARCH, params, take)


@click.command(short_help="Print the lines that a pattern is on.")
@click.argument("pattern")
@click.argument("where", nargs=-1)
@click.option("-i", "--ignore-case", is_flag=True, help="Do not regard case.")
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="PATTERN is a text.")
@click.option("-E", "--extended-regexp", "_extended", is_flag=True, help="PATTERN is an expression: it is anyway.")
@click.option("-w", "--word-regexp", "words", is_flag=True, help="Only in whole words.")
@click.option("-l", "--files-with-matches", "paths", is_flag=True, help="Print paths alone.")
@click.option("-c", "--count", is_flag=True, help="Print paths, and how many lines.")
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
    """Print all lines of events that PATTERN, a regular expression (Python's), is on, as PATH:LINE:TEXT.

    What stands in several conversations is looked through once, and told of all. WHERE has filters as of `convfs
    search` (project:shop after:2026-03). PATH is relative to a mount. Exits with 1 if nothing is found.
    """
    if paths + count + as_json > 1:
        raise click.UsageError("-l, -c and --json exclude each other")
    from fusefs.cli.searching import GREP, GrepParams

    params = GrepParams(pattern, fixed, ignore_case, words, " ".join(where))
    form = _array if as_json else _paths if paths else _counts if count else _lines
    with _telling(store, form) as (backend, take):
        backend.call(GREP, params, take)


@contextmanager
def _telling(store: Path | None, form: _Form) -> Iterator[tuple[Backend, Take]]:
    """Give what is to be asked, and what takes pages of what is found and prints them in some form."""
    from fusefs.cli.backend import reach, store_root
    from fusefs.cli.searching import FILE, FileParams

    found = False
    with reach(store_root(store)) as backend:
        with form() as write:

            def take(page: list[HitLine]) -> None:
                nonlocal found
                found = found or bool(page)
                write(page)
                sys.stdout.flush()

            yield backend, take
        backend.call(FILE, FileParams(FILING_SECONDS))
    if not found:
        raise click.exceptions.Exit(1)


@contextmanager
def _array() -> Iterator[Take]:
    import msgspec

    with json_array() as write:
        yield lambda page: write(map(msgspec.to_builtins, page))


@contextmanager
def _lines() -> Iterator[Take]:
    shown = escape if sys.stdout.isatty() else str

    def take(page: list[HitLine]) -> None:
        for hit in page:
            path = escape(hit.path)
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
                sys.stdout.write(f"{escape(hit.path)}\n")
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
                    sys.stdout.write(f"{escape(path)}:{count}\n")
                path, count = hit.path, 0
            count += len(hit.lines)

    yield take
    if path:
        sys.stdout.write(f"{escape(path)}:{count}\n")
