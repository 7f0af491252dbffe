"""``convfs redact``."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import escape
from fusefs.text.amounts import size_text

if TYPE_CHECKING:
    from store.redaction.wanted import Match, Wanted
    from store.service.redacting import RedactPlan, RedactReport

_SHOWN = 20


@click.command(short_help="Make a secret disappear from everything.")
@click.option("--stdin", is_flag=True, help="A text that is read from standard input; asked for on a terminal.")
@click.option("--lines", is_flag=True, help="Each line of standard input is a text of its own.")
@click.option("--pattern", "patterns", multiple=True, metavar="REGEX", help="What a regular expression matches.")
@click.option("--secrets", is_flag=True, help="What looks like a key, a token or a password of a known kind.")
@click.option("--event", "events", multiple=True, metavar="CONV@N", help="What event N of a conversation says.")
@click.option("--dry-run", is_flag=True, help="Say what would be redacted, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="What was found and done, for programs.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def redact(
    store: Path | None,
    stdin: bool,
    lines: bool,
    patterns: tuple[str, ...],
    secrets: bool,
    events: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Take a secret out of every version, fork, artifact, resource, draft and index, and prove that it is gone.

    It is looked for in every spelling: escaped, in base64, in UTF-16. "[redacted]" stands in its place. This cannot be
    undone. What it says of what it found gives nothing away.
    """
    from fusefs.cli.backend import reach, store_root
    from fusefs.cli.progress import redact_progress
    from store.redaction.wanted import Wanted
    from store.service.redacting import REDACT, REDACT_PLAN

    wanted = Wanted(_texts(stdin, lines), patterns, secrets, tuple(_event(store, event) for event in events))
    with reach(store_root(store)) as backend:
        with redact_progress() as show:
            plan = backend.call(REDACT_PLAN, wanted, show)
        if not as_json:
            _show(plan, wanted)
        report = None
        if plan.contents and not dry_run and _agreed(yes, as_json):
            with redact_progress() as show:
                report = backend.call(REDACT, wanted, show)
    _tell(plan, report, as_json)
    if report is not None and report.proof.found:
        raise click.exceptions.Exit(1)


def _texts(stdin: bool, lines: bool) -> tuple[bytes, ...]:
    if not (stdin or lines):
        return ()
    if sys.stdin.isatty() and not lines:
        return (click.prompt("What is to be redacted", hide_input=True).encode(),)
    data = sys.stdin.buffer.read()
    if lines:
        return tuple(line for line in data.splitlines() if line)
    # what `echo` and a file end in is not meant
    text = data.removesuffix(b"\n").removesuffix(b"\r")
    return (text,)


def _event(store: Path | None, named: str) -> tuple[int, int]:
    from fusefs.cli.conversations import located
    from store.errors import UsageError

    name, _, number = named.rpartition("@")
    if not name or not number.isdecimal():
        raise UsageError(f"{named!r} names no event: write CONV@N")
    with located(store, name) as (_backend, found):
        return found.id, int(number)


def _agreed(yes: bool, as_json: bool) -> bool:
    if yes:
        return True
    if as_json or not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: add --yes to redact this, or --dry-run to look only")
    return click.confirm("Redact this for good?")


def _show(plan: "RedactPlan", wanted: "Wanted") -> None:
    for match in plan.matches[:_SHOWN]:
        if match.kind not in ("text", "event"):
            click.echo(f"{match.kind}: {escape(match.hint)}{_places(match)}")
    if len(plan.matches) > _SHOWN:
        click.echo(f"… and {len(plan.matches) - _SHOWN} more (--json has them all)")
    if not plan.contents:
        click.echo("Nothing of that is in the store.")
        return
    click.echo(f"In {plan.events} events of {len(plan.conversations)} conversations:")
    for name in plan.conversations[:_SHOWN]:
        click.echo(f"  {escape(name)}")
    if len(plan.conversations) > _SHOWN:
        click.echo(f"  … and {len(plan.conversations) - _SHOWN} more")


def _places(match: "Match") -> str:
    return f", in {match.places} contents" if match.places else ""


def _tell(plan: "RedactPlan", report: "RedactReport | None", as_json: bool) -> None:
    import msgspec

    if as_json:
        done = None if report is None else msgspec.to_builtins(report)
        click.echo(json.dumps({"found": msgspec.to_builtins(plan), "redacted": done}, indent=2, ensure_ascii=False))
        return
    if report is None:
        if plan.contents:
            click.echo("Nothing was redacted.")
        return
    click.echo(f"Redacted: {report.events} events; {report.packs} packs were written anew, and the old ones erased.")
    proof = report.proof
    click.echo(
        f"Looked through {proof.files} files and {proof.records} records, {size_text(proof.bytes)} decompressed:"
        f" {len(proof.found) or 'nothing'} left."
    )
    for where in (*proof.found, *report.damaged, *proof.unread):
        click.echo(f"convfs: {escape(where)}", err=True)
    for source in report.sources:
        click.echo(f"convfs: warning: {escape(source)} still holds it, outside of the store", err=True)
