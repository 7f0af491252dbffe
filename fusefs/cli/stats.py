"""``convfs stats``."""

import json
import sys
from pathlib import Path

import click

from fusefs.cli.output import escape


@click.command(short_help="Say what the store holds and what it costs.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.pass_obj
def stats(store: Path | None, as_json: bool) -> None:
    """Say what the store holds, what it costs, and who holds it."""
    from fusefs.cli.backend import reach, store_root
    from store.service.operation import Nothing
    from store.service.operations import STATS

    with reach(store_root(store)) as backend:
        numbers = backend.call(STATS, Nothing())
    if as_json:
        click.echo(json.dumps(numbers, indent=2, ensure_ascii=False))
        return
    width = max(map(len, numbers))
    for name, value in numbers.items():
        sys.stdout.write(f"{name.replace('_', ' '):{width}}  {escape('-' if value is None else str(value))}\n")
