"""``convfs diff``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import columns, echo_json, write_text
from store import visible

if TYPE_CHECKING:
    from fusefs.daemon.answers import Difference, DiffSums

_MARKS = 40
"""The most marks for the lines of an event."""


@click.command(short_help="Compare two versions, forks or conversations.")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--stat", is_flag=True, help="Count changed lines by event, instead of showing them.")
@click.option("--json", "as_json", is_flag=True, help="One object with all differing events, for programs.")
@click.pass_obj
def diff(store: Path | None, before: str, after: str, stat: bool, as_json: bool) -> None:
    """Print a unified diff of the event files of A and B.

    A and B are conversations: PROJECT/NAME, an id, or a path in the mount. CONV@3 is version 3 of `convfs log`, and so
    is a path in .versions/. Events are paired by equal or similar content, or by number if one side derives from the
    other. If neither derives from the other, times and ids alone do not count as differences.
    """
    from fusefs.cli.conversations import states_located
    from fusefs.daemon import operations
    from fusefs.daemon.answers import State

    found: list[Difference] = []
    with states_located(store, (before, after)) as (backend, (a, b)):
        states = State(*a), State(*b)
        sums = backend.call(operations.diff(*states, summary=stat), found.extend if stat or as_json else _write)
    if as_json:
        echo_json({"differences": found, "summary": sums})
    elif stat:
        _write_sums(found, sums)


def _write(found: "list[Difference]") -> None:
    for difference in found:
        write_text(difference.diff or f"{_name(difference)}: {difference.note}\n")


def _name(difference: "Difference") -> str:
    """Return the path of an event's file, on the side of B if it is there."""
    side = difference.b or difference.a
    assert side is not None
    return side.path


def _write_sums(found: "list[Difference]", sums: "DiffSums") -> None:
    if not found:
        return
    lines = [(visible.line(_name(difference)), difference.added + difference.removed) for difference in found]
    width = max(columns(name) for name, _count in lines)
    digits = len(str(max(count for _name, count in lines)))
    most = max(1, *(count for _name, count in lines))
    for (name, count), difference in zip(lines, found, strict=True):
        marks = "".join(
            mark * (-(-_MARKS * some // most) if most > _MARKS else some)
            for mark, some in (("+", difference.added), ("-", difference.removed))
        )
        only = {"changed": "", "added": " (new)", "removed": " (gone)"}[difference.change]
        told = visible.line(difference.note) or marks
        sys.stdout.write(f"{name}{' ' * (width - columns(name))} | {count:{digits}} {told}{only}\n")
    sys.stdout.write(
        f"{sums.changed} events changed, {sums.added} new, {sums.removed} gone; "
        f"{sums.added_lines} lines added, {sums.removed_lines} removed\n"
    )
