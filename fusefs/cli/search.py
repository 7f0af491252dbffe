"""``convfs search`` and ``convfs grep``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.ahead import AHEAD
from fusefs.cli.output import columns, echo, json_array, local_time
from store import visible

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from fusefs.daemon.answers import HitLine
    from store.search.terms import Term
    from store.search.unread import Unread

Take = Callable[[list["HitLine"]], None]
_Form = Callable[[], AbstractContextManager[Take]]
_Spans = Callable[[str], list[tuple[int, int]]]

FILING_SECONDS = 3.0
"""The time that a command spends indexing after its answer if it opened the store itself."""
_MANY = 1000
"""So many records are read in a moment."""
_AT_ONCE = 20
"""Hits that a terminal shows without a pager, and for which each conversation is named once."""
_LINES = 3
"""Lines of a hit that a terminal shows."""
_LEAST = 20
"""The least width for text beside the place of a hit."""
_TITLE_LINE = 2
"""The line of ``metadata.json`` that has the title; labels follow."""


@click.command(short_help="Search all conversations.")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Print no more than N events.")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def search(store: Path | None, query: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """Print the matching lines of all events, titles and labels that match QUERY, best first, as PATH:LINE:TEXT.

    \b
    connection reset           both words, in any order, also inside longer words
    '"connection reset by"'    exactly this
    '/time(d )?out after/'     a regular expression (Python's), within a line
    reset OR timeout           one of the two
    project:shop label:bug     only these: whole names; * matches anything
    format:codex branch:main   of a tool; on a git branch; is:subagent of subagents
    title:login                with this in the title
    role:assistant             user, assistant, tool, system
    kind:result                a word of event file names: user, call, result, …
    tool:Bash uri:main.py      of a tool; with a resource whose URI contains this
    model:opus                 of a model whose name contains this
    after:yesterday before:2w  from a day on; before one; 2w is two weeks ago
    -- connection -reset       without this

    PATH is relative to a mount. On a terminal, hits are grouped by conversation, in local time; more than 20 go through
    $PAGER. A lower-case QUERY is case-insensitive. Exits with 1 if nothing is found.
    """  # noqa: D301  (click takes the character for a mark)
    from fusefs.daemon import operations

    said = " ".join(query)
    form: _Form = _array if as_json else _lines
    if sys.stdout.isatty() and not as_json:
        from store.ids import now_ms
        from store.search.query import parse

        form = partial(_grouped, partial(_spans, parse(said, now_ms()).spoken))
    with _telling(store, form) as (backend, take):
        _tell(backend.call(operations.search(said, limit or 0), take))


@click.command(short_help="Print the lines that match a pattern.")
@click.argument("words", metavar="[PATTERN] [FILTER]...", nargs=-1)
@click.option("-e", "--regexp", "patterns", metavar="PATTERN", multiple=True, help="A pattern; any of several matches.")
@click.option("-E", "--extended-regexp", is_flag=True, expose_value=False, help="Regular expressions: the default.")
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="PATTERN is plain text.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case.")
@click.option("-w", "--word-regexp", "whole_words", is_flag=True, help="Match whole words only.")
@click.option("-v", "--invert-match", "invert", is_flag=True, help="Print the lines that do not match.")
@click.option("-n", "--line-number", is_flag=True, expose_value=False, help="Print line numbers: the default.")
@click.option("-o", "--only-matching", "only", is_flag=True, help="Print only what matches, each match on a line.")
@click.option("-l", "--files-with-matches", "paths", is_flag=True, help="Print only paths.")
@click.option("-c", "--count", is_flag=True, help="Print paths and counts of lines.")
@click.option("-A", "--after-context", "after", metavar="N", type=click.IntRange(min=0), help="And N lines after each.")
@click.option("-B", "--before-context", "before", metavar="N", type=click.IntRange(min=0), help="And N lines before.")
@click.option("-C", "--context", "around", metavar="N", type=click.IntRange(min=0), help="And N lines around each.")
@click.option("--include", metavar="GLOB", multiple=True, help="Only in files with such a name: '*-user.md'.")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def grep(
    store: Path | None,
    words: tuple[str, ...],
    patterns: tuple[str, ...],
    fixed: bool,
    ignore_case: bool,
    whole_words: bool,
    invert: bool,
    only: bool,
    paths: bool,
    count: bool,
    after: int | None,
    before: int | None,
    around: int | None,
    include: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print all lines of events that match PATTERN, a regular expression (Python's), as PATH:LINE:TEXT.

    Shared content is searched once and reported for every conversation. FILTER is as for `convfs search` (project:shop
    after:2026-03). PATH is relative to a mount. Options are those of grep. Exits with 1 if nothing is found.
    """
    if paths + count + as_json > 1:
        raise click.UsageError("-l, -c and --json exclude each other")
    if only and as_json:
        raise click.UsageError("-o and --json exclude each other")
    if not patterns:
        if not words:
            raise click.UsageError("name a PATTERN")
        patterns, words = words[:1], words[1:]
    click.get_current_context().call_on_close(AHEAD.note)
    from fusefs.daemon import operations
    from store.search.terms import term_of

    term = term_of(patterns, fixed=fixed, ignore_case=ignore_case, words=whole_words)
    near = (around if before is None else before), (around if after is None else after)
    spans = partial(_spans, [term]) if only or sys.stdout.isatty() else None
    form: _Form = partial(_lines, spans, only=only, apart=near != (None, None))
    asked = operations.grep_around(
        patterns, fixed, ignore_case, whole_words, " ".join(words), invert, near[0] or 0, near[1] or 0, include
    )
    with _telling(store, _array if as_json else _paths if paths else _counts if count else form) as (backend, take):
        _tell(backend.call(asked, take))


def _tell(unread: Unread) -> None:
    """Say what a search has not looked at."""
    if unread.turns:
        echo(f"convfs: {visible.line(str(unread))}", err=True)


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

            left = backend.call(operations.file_turns(0.0)).turns
            if left > _MANY:
                echo(f"convfs: {left} records are not indexed yet: they are looked at after all others", err=True)
            yield backend, take
        backend.call(operations.file_turns(FILING_SECONDS))
    if not found:
        raise click.exceptions.Exit(1)


@contextmanager
def _array() -> Iterator[Take]:
    with json_array() as write:
        yield write


@contextmanager
def _lines(spans: _Spans | None = None, *, only: bool = False, apart: bool = False) -> Iterator[Take]:
    """Write ``PATH:LINE:TEXT``, or what matches in it ``only``, with ``--`` between what stands ``apart``."""
    is_terminal = sys.stdout.isatty()
    last = ("", 0)

    def take(page: list[HitLine]) -> None:
        nonlocal last
        for hit in page:
            path = visible.line(hit.path)
            for line in hit.lines:
                if apart and last[0] and (hit.path, line.number - 1) != last:
                    sys.stdout.write("--\n")
                last = hit.path, line.number
                mark = "-" if line.context else ":"
                start = f"{path}{mark}{line.number}{mark}"
                found = spans(line.text) if spans else []
                texts = [(line.text, found)]
                if only:
                    texts = [(line.text[begin:end], [(0, end - begin)]) for begin, end in found]
                for text, marked in texts:
                    sys.stdout.write(f"{start}{_marked(text, marked) if is_terminal else text}\n")
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
            count += sum(not line.context for line in hit.lines)

    yield take
    if path:
        sys.stdout.write(f"{visible.line(path)}:{count}\n")


# -- for people --------------------------------------------------------------------------------------------------------


def _spans(terms: Iterable[Term], line: str) -> list[tuple[int, int]]:
    """Return the parts of a line that match one of some terms, in order, each apart from the others."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(span for term in terms for span in term.spans(line)):
        if joined and begin < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _marked(text: str, spans: Sequence[tuple[int, int]], *, bold: bool = False) -> str:
    """Return a line for a terminal, with parts of it in colour."""
    pieces: list[str] = []
    at = 0
    for begin, end in spans:
        pieces += (_styled(text[at:begin], bold=bold), _styled(text[begin:end], fg="red", bold=True))
        at = end
    return "".join([*pieces, _styled(text[at:], bold=bold)])


def _styled(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    shown = visible.line(text)
    if not shown or not (fg or bold or dim) or "NO_COLOR" in os.environ:
        return shown
    return click.style(shown, fg=fg, bold=bold or None, dim=dim or None)


class _Enough(Exception):
    """Ends a search in the middle: nobody reads on."""


@contextmanager
def _pager() -> Iterator[Callable[[str], None]]:
    """Yield a function that writes pages: to standard output, or to the user's pager if there are several."""
    first: str | None = None
    write: Callable[[str], object] | None = None

    def page(text: str) -> None:
        nonlocal first, write
        if first is None:
            first = text
            return
        if write is None:
            write = stack.enter_context(_pager_program())
            write(first)
        write(text)

    with ExitStack() as stack:
        yield page
        if first is not None and write is None:
            sys.stdout.write(first)


@contextmanager
def _pager_program() -> Iterator[Callable[[str], object]]:
    """Start the user's pager, and wait for its end; yield what writes to it, or to standard output if there is none.

    That raises _Enough when the pager has ended.
    """
    import shlex
    import shutil
    import signal
    import subprocess

    words = shlex.split(os.environ.get("PAGER", "less"))
    if not words or not shutil.which(words[0]):
        yield sys.stdout.write
        return
    # as git has it: colours, and no pager where everything fits on the screen
    environment = {"LESS": "FRX"} | os.environ
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment, text=True, errors="backslashreplace")
    stdin = process.stdin
    assert stdin is not None

    def write(text: str) -> None:
        try:
            stdin.write(text)
            stdin.flush()
        except BrokenPipeError:
            raise _Enough from None

    # Ctrl-C is for the pager
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield write
    finally:
        with suppress(BrokenPipeError):
            stdin.close()
        process.wait()
        signal.signal(signal.SIGINT, before)


@contextmanager
def _grouped(spans: _Spans) -> Iterator[Take]:
    """Write hits below their conversations, some at a time."""
    import shutil

    from msgspec import structs

    waiting: list[HitLine] = []
    width = shutil.get_terminal_size().columns
    with suppress(_Enough), _pager() as write:

        def take(page: list[HitLine]) -> None:
            for hit in page:
                if waiting and waiting[-1].path == hit.path:
                    # one that has very many lines comes in parts
                    waiting[-1] = structs.replace(hit, lines=waiting[-1].lines + hit.lines)
                    continue
                if len(waiting) == _AT_ONCE:
                    write(_by_conversation(waiting, spans, width))
                    waiting.clear()
                waiting.append(hit)

        yield take
        if waiting:
            write(_by_conversation(waiting, spans, width))


def _by_conversation(hits: Sequence[HitLine], spans: _Spans, width: int) -> str:
    """Return hits for a terminal: title, name and date of each conversation, and below these its events."""
    groups: dict[int, list[HitLine]] = {}
    for hit in hits:
        groups.setdefault(hit.id, []).append(hit)
    return "".join(f"{line}\n" for group in groups.values() for line in _group(group, spans, width))


def _group(hits: Sequence[HitLine], spans: _Spans, width: int) -> Iterator[str]:
    first = hits[0]
    day = local_time(first.time)[:10]
    title = first.title or first.name
    yield _marked(*_cut(title, spans(title), width), bold=True)
    yield _styled(f"{first.project}/{first.name} · {day}", dim=True)
    told = [(hit, *_place(hit, day)) for hit in hits]
    room = max(columns(where) for _hit, where, _texts in told)
    for _hit, where, texts in told:
        start = f"  {where}{' ' * (room - columns(where))}  "
        for text in texts[:_LINES] or ([""] if where else []):
            yield f"{start}{_marked(*_cut(text, spans(text), width - room - 4))}".rstrip()
            start = " " * (room + 4)
        if len(texts) > _LINES:
            yield start + _styled(f"… and {len(texts) - _LINES} more lines", dim=True)
    yield ""


def _place(hit: HitLine, day: str) -> tuple[str, list[str]]:
    """Return where a hit is, and its lines; of a conversation's metadata, only the labels: its title stands above."""
    if not hit.event:
        import json

        labels = [line.text.strip(" ,") for line in hit.lines if line.number > _TITLE_LINE]
        return ("label" if labels else "", [json.loads(label) for label in labels])
    time = local_time(hit.time)
    what = f"{hit.event} {hit.kind} {hit.tool}".rstrip()
    return visible.line(f"{what} · {time.removeprefix(day).strip()}"), [line.text for line in hit.lines]


def _cut(text: str, spans: list[tuple[int, int]], room: int) -> tuple[str, list[tuple[int, int]]]:
    """Return the part of a line around its first match that has room, and the matches in it."""
    begin, end, room = len(text) - len(text.lstrip()), len(text), max(room, _LEAST)
    if columns(text[begin:]) > room:
        if spans:
            begin = min(max(spans[0][0] - room // 3, begin), max(end - room + 1, begin))
        while columns(_between(text, begin, end)) > room:
            end -= 1
    inside = [(max(first, begin), min(last, end)) for first, last in spans if first < end and last > begin]
    shown = _between(text, begin, end)
    shift = len(shown) - len(_between(text[begin:], 0, end - begin)) - begin
    return shown, [(first + shift, last + shift) for first, last in inside]


def _between(text: str, begin: int, end: int) -> str:
    """Return a part of a line, and where something is left out."""
    return f"{'…' if text[:begin].strip() else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
