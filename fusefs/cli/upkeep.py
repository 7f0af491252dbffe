"""``convfs fsck`` and ``convfs reindex``: work that needs the store to itself."""

from pathlib import Path

import click

from fusefs.cli.output import escape


@click.command(short_help="Check the store.")
@click.pass_obj
def fsck(store: Path | None) -> None:
    """Check everything that the store promises, and print what does not hold. Changes nothing.

    Exits with 1 where an error is found; a warning alone is none.
    """
    from fusefs.text.render import FileRenderer
    from store.store import Store
    from store.upkeep.fsck import fsck as check

    with Store.open(_free(store), renderer=FileRenderer(), create=False) as opened:
        findings = check(opened)
    for finding in findings:
        click.echo(f"{finding.severity}: {finding.check}: {escape(finding.message)}")
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = len(findings) - errors
    if errors:
        click.echo(f"{errors} errors, {warnings} warnings.")
        raise click.exceptions.Exit(1)
    click.echo(f"The store is sound ({warnings} warnings)." if warnings else "The store is sound.")


@click.command(short_help="Rebuild the index from the logs.")
@click.pass_obj
def reindex(store: Path | None) -> None:
    """Throw the index away and rebuild it from the logs, which are the truth."""
    from fusefs.text.render import FileRenderer
    from store.upkeep.reindex import reindex as rebuild

    for damage in rebuild(_free(store), FileRenderer()):
        click.echo(escape(damage))
    click.echo("The index was rebuilt.")


def _free(store: Path | None) -> Path:
    """Return the store's directory. Raises Conflict while a daemon holds it, NotFound where there is none."""
    from fusefs.cli.backend import require, running, store_root
    from fusefs.cli.service import whose
    from store.errors import Conflict

    root = store_root(store)
    require(root)
    client = running(root)
    if client:
        with client:
            who, how = whose(client)
        raise Conflict(f"{who}: {how} first, this needs it alone")
    return root
