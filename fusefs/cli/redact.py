"""``convfs redact``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import agreed, echo, echo_json, last_seen, progress
from fusefs.text.amounts import size_text

if TYPE_CHECKING:
    from store.redaction.wanted import Match, Wanted
    from store.service.redacting import RedactPlan, RedactProgress, RedactReport

_SHOWN = 20


@click.command(short_help="Remove a secret from everything.")
@click.option("--stdin", is_flag=True, help="A text from standard input; prompted for on a terminal.")
@click.option("--lines", is_flag=True, help="Each line of standard input is a text.")
@click.option("--pattern", "patterns", multiple=True, metavar="REGEX", help="Matches of a regular expression.")
@click.option("--secrets", is_flag=True, help="Anything that looks like a key, token or password of a known kind.")
@click.option("--event", "events", multiple=True, metavar="CONV@N", help="The text of event N of a conversation.")
@click.option("--dry-run", is_flag=True, help="Show what would be redacted, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One object with finds and results, for programs.")
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
    """Remove a secret from every version, fork, artifact, resource, draft and index, and prove that it is gone.

    The search covers every encoding: escaped, base64, UTF-16. "[redacted]" replaces the secret. This cannot be undone.
    The output reveals nothing of the secret.
    """
    from msgspec import structs

    from fusefs.cli.conversations import all_located
    from store.redaction.wanted import Wanted
    from store.service import redacting

    texts, named = _texts(stdin, lines), [_event(event) for event in events]
    with all_located(store, [name for name, _number in named]) as (backend, found):
        numbered = tuple((line.id, number) for line, (_name, number) in zip(found, named, strict=True))
        wanted = Wanted(texts, patterns, secrets, numbered)
        with progress("", "Text Bar", _fields) as show:
            plan = backend.call(redacting.redact_plan(*structs.astuple(wanted)), show)
        if not as_json:
            _show(plan, wanted)
        report = None
        if plan.contents and not dry_run and agreed("redact", yes=yes, as_json=as_json):
            with progress("", "Text Bar", _fields) as show:
                report = backend.call(redacting.redact(*structs.astuple(wanted)), show)
    _tell(plan, report, as_json)
    if report is not None and report.proof.found:
        raise click.exceptions.Exit(1)


def _texts(stdin: bool, lines: bool) -> tuple[bytes, ...]:
    from store.errors import UsageError

    if not (stdin or lines):
        return ()
    if sys.stdin.isatty() and not lines:
        return (click.prompt("Text to redact", hide_input=True).encode(),)
    data = sys.stdin.buffer.read()
    # without the newline that `echo` adds
    texts = data.splitlines() if lines else [data.removesuffix(b"\n").removesuffix(b"\r")]
    if not any(texts):
        raise UsageError("standard input is empty: write the text to redact to it")
    return tuple(filter(None, texts))


def _event(named: str) -> tuple[str, int]:
    from store.errors import UsageError

    name, _, number = named.rpartition("@")
    if not name or not number.isdecimal():
        raise UsageError(f"{named!r} is not an event: write CONV@N")
    return name, int(number)


def _fields(told: "RedactProgress") -> dict[str, object]:
    return {"description": told.doing, "completed": told.done, "total": told.total}


def _show(plan: "RedactPlan", wanted: "Wanted") -> None:
    for match in plan.matches[:_SHOWN]:
        if match.kind not in ("text", "event"):
            echo(f"{match.kind}: {match.hint}{_places(match)}")
    if len(plan.matches) > _SHOWN:
        echo(f"… and {len(plan.matches) - _SHOWN} more (--json has them all)")
    if not plan.contents:
        echo("No match in the store.")
        return
    echo(f"In {plan.events} events of {len(plan.conversations)} conversations:")
    places = [place for name in plan.conversations for place in _events(name, plan)]
    for place in places[:_SHOWN]:
        echo(f"  {place}")
    if len(places) > _SHOWN:
        echo(f"  … and {len(places) - _SHOWN} more (--json has them all)")


def _events(name: str, plan: "RedactPlan") -> list[str]:
    numbers = plan.numbers.get(name, ())
    return [f"{name}@{number}" for number in numbers] or [f"{name}, in its metadata or in earlier versions only"]


def _places(match: "Match") -> str:
    return f", in {match.places} contents" if match.places else ""


def _tell(plan: "RedactPlan", report: "RedactReport | None", as_json: bool) -> None:
    if as_json:
        echo_json({"found": plan, "redacted": report})
        return
    if report is None:
        if plan.contents:
            echo("Nothing was redacted.")
        return
    echo(f"Redacted: {report.events} events; {report.packs} packs were rewritten, and the old ones erased.")
    proof = report.proof
    echo(
        f"Searched {proof.files} files and {proof.records} records, {size_text(proof.bytes)} decompressed:"
        f" {len(proof.found) or 'nothing'} left."
    )
    for where in (*proof.found, *report.damaged, *proof.unread):
        echo(f"convfs: {where}", err=True)
    for machine, seen_ms in report.behind:
        echo(f"convfs: warning: {machine} has not done the same yet, {last_seen(seen_ms)}", err=True)
    for source in report.sources:
        echo(f"convfs: warning: {source} still holds it, outside the store", err=True)
