"""``convfs diff``."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import columns, escape, write_text

if TYPE_CHECKING:
    from fusefs.cli.comparing import Difference, DiffSums

_MARKS = 40
"""How many marks stand at most for the lines of an event."""


@click.command(short_help="Say what differs between two versions, forks or conversations.")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--stat", is_flag=True, help="How many lines of which events, instead of which lines.")
@click.option("--json", "as_json", is_flag=True, help="One object with every event that differs, for programs.")
@click.pass_obj
def diff(store: Path | None, before: str, after: str, stat: bool, as_json: bool) -> None:
    """Print what must change in the events of A for them to be those of B, as a unified diff of their files.

    A and B are conversations, PROJECT/NAME, an id, or a path in the mount; CONV@3 is its version 3 of `convfs log`, and
    so is a path in .versions/. An event is that of the other which says the same, or much the same, or, where one comes
    from the other, has its number. Where none does, other times and ids alone are no difference.
    """
    import msgspec

    from fusefs.cli.comparing import DIFF, DiffParams, State
    from fusefs.cli.conversations import states_located

    found: list[Difference] = []
    with states_located(store, (before, after)) as (backend, (a, b)):
        params = DiffParams(State(*a), State(*b), summary=stat)
        sums = backend.call(DIFF, params, found.extend if stat or as_json else _write)
    if as_json:
        told = {"differences": msgspec.to_builtins(found), "summary": msgspec.to_builtins(sums)}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
    elif stat:
        _write_sums(found, sums)


def _write(found: "list[Difference]") -> None:
    for difference in found:
        write_text(difference.diff or f"{_name(difference)}: {difference.note}\n")


def _name(difference: "Difference") -> str:
    """Return the path of an event's file, of the later one of the two."""
    side = difference.b or difference.a
    assert side is not None
    return side.path


def _write_sums(found: "list[Difference]", sums: "DiffSums") -> None:
    if not found:
        return
    lines = [(escape(_name(difference)), difference.added + difference.removed) for difference in found]
    width = max(columns(name) for name, _count in lines)
    digits = len(str(max(count for _name, count in lines)))
    most = max(1, *(count for _name, count in lines))
    for (name, count), difference in zip(lines, found, strict=True):
        marks = "".join(
            mark * (-(-_MARKS * some // most) if most > _MARKS else some)
            for mark, some in (("+", difference.added), ("-", difference.removed))
        )
        only = {"changed": "", "added": " (new)", "removed": " (gone)"}[difference.change]
        told = escape(difference.note) or marks
        sys.stdout.write(f"{name}{' ' * (width - columns(name))} | {count:{digits}} {told}{only}\n")
    sys.stdout.write(
        f"{sums.changed} events changed, {sums.added} new, {sums.removed} gone; "
        f"{sums.added_lines} lines added, {sums.removed_lines} removed\n"
    )
