"""Output to the terminal: escaped lines, tables, JSON and progress bars."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from store import visible

_NAME_WIDTH = 36
_not_ascii = re.compile(r"[^\x00-\x7f]").findall
# Called for every record; drawing each would take longer than importing it.
_SECONDS = 0.1


@contextmanager
def progress(
    label: str, kinds: str, shown: Callable[[Any], dict[str, Any]], total: Callable[[], int] | None = None
) -> Iterator[Callable[[Any], None] | None]:
    """Yield a function that shows the progress that it is given, or None if standard error is no terminal.

    ``kinds`` are the columns, by their names in rich.progress; ``shown`` returns the fields of the bar to update.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = [
        rich.TextColumn("{task.description}", markup=False) if kind == "Text" else getattr(rich, f"{kind}Column")()
        for kind in kinds.split()
    ]
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=total() if total else None)
        last = 0.0

        def show(told: object) -> None:
            nonlocal last
            if time.monotonic() - last >= _SECONDS:
                last = time.monotonic()
                bars.update(task, **shown(told))

        yield show


@contextmanager
def ended_by_signals() -> Iterator[threading.Event]:
    """Yield an event that is set, instead of the process ended, by Ctrl-C, SIGTERM or the end of the terminal."""
    import signal

    ended = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def name_column(name: str) -> str:
    """Return a name as the text of a progress bar, always of the same width."""
    return visible.line(name)[:_NAME_WIDTH].ljust(_NAME_WIDTH)


def agreed(deed: str, *, yes: bool, as_json: bool) -> bool:
    """Return whether the user agrees to a deed that cannot be undone, or did by ``--yes``."""
    if not yes and (as_json or not sys.stdin.isatty()):
        raise click.UsageError(f"no terminal to ask on: add --yes to {deed} this, or --dry-run to see it only")
    return yes or click.confirm(f"{deed.capitalize()} this for good?")


def echo(text: str, *, err: bool = False) -> None:
    """Print an escaped line: the way of all messages of commands, except for :func:`write_text`."""
    click.echo(visible.line(text), err=err)


def echo_json(value: object) -> None:
    """Print a value, of structs or plain, as JSON, indented by two spaces."""
    import msgspec

    sys.stdout.write(visible.json_text(msgspec.to_builtins(value), indent=2) + "\n")


def write_json(text: str) -> None:
    """Write JSON, or a part of it, to standard output."""
    sys.stdout.write(visible.in_json(text))


def command_line(*arguments: object) -> str:
    """Return a ``convfs`` command as the user would type it: with its path if it is not on the PATH."""
    import shutil

    script = sys.argv[0]
    program = script if os.path.basename(script) == "convfs" and not shutil.which("convfs") else "convfs"
    return visible.command(program, *arguments)


def write_text(text: str) -> None:
    """Write a conversation's text to standard output: unchanged to a pipe, escaped to a terminal."""
    sys.stdout.write(visible.lines(text) if sys.stdout.isatty() else text)


def local_time(time: str, timespec: str = "minutes") -> str:
    """Return a time in ISO 8601 as the clocks of this machine showed it: ``2026-03-05 20:31``; "" for ""."""
    try:
        return datetime.fromisoformat(time).astimezone().replace(tzinfo=None).isoformat(" ", timespec) if time else ""
    except (ValueError, OverflowError):
        return time.replace("T", " ")[: 19 if timespec == "seconds" else 16]


def columns(text: str) -> int:
    """Return the width of ``text`` on a terminal, in columns."""
    if text.isascii():
        return len(text)
    import unicodedata

    special = _not_ascii(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in special)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in special)


def widths_of(rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of each column of a table."""
    return [max(map(columns, cells)) for cells in zip(*rows, strict=True)]


def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Write a table; the last cell of a row is not padded."""
    widths = widths_of(rows)[:-1]
    for row in rows:
        padded = [cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write("  ".join([*padded, row[-1]]).rstrip() + "\n")


@contextmanager
def json_array() -> Iterator[Callable[[Iterable[object]], None]]:
    """Write a JSON array to standard output, one element per line, as the elements come."""
    import msgspec

    separator = "[\n  "

    def write(elements: Iterable[object]) -> None:
        nonlocal separator
        for element in elements:
            sys.stdout.write(separator + visible.json_text(msgspec.to_builtins(element)))
            separator = ",\n  "

    yield write
    sys.stdout.write("[]\n" if separator.startswith("[") else "\n]\n")


def tell_uncollected(behind: Iterable[tuple[str, int]]) -> None:
    """Name, on standard error, the machines of a space that may still have something that was deleted for good."""
    for machine, seen_ms in behind:
        echo(f"convfs: {machine} may still have some of what was deleted for good, {last_seen(seen_ms)}", err=True)


def last_seen(ms: int) -> str:
    """Return when something was last there, a time in Unix milliseconds, in words; 0 is never."""
    if not ms:
        return "never seen"
    seconds = max(time.time() - ms / 1000, 0)
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if count := int(seconds // size):
            return f"last seen {count} {unit}{'s' * (count != 1)} ago"
    return "last seen just now"
