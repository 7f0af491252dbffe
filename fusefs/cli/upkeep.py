"""``convfs fsck`` and ``convfs reindex``: the commands that need the store to themselves."""

from contextlib import suppress
from pathlib import Path

import click

from fusefs.cli.output import echo


@click.command(short_help="Check the store.")
@click.option("--repair", is_flag=True, help="First repair what can be repaired without a guess.")
@click.option(
    "--from",
    "sources",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="With --repair: a copy of the store, another store or session files to take lost contents from; repeatable.",
)
@click.option("--remote", is_flag=True, help="Fetch and check also what only the space of this replica has.")
@click.pass_obj
def fsck(store: Path | None, *, repair: bool, sources: tuple[Path, ...], remote: bool) -> None:
    """Check every invariant of the store, and print violations.

    Changes nothing without --repair. Exits with 1 if there are errors; warnings alone are none.

    With --repair, what is derived is rebuilt; records of turns are put back, and contents taken anew, from PATH and
    from the files that conversations were imported from; a log of a replica is put back from its space. It says what
    is lost, and keeps the damaged bytes.
    """
    from fusefs.text.render import FileRenderer
    from store.errors import UsageError
    from store.store import Store
    from store.upkeep.fsck import fsck as check

    if sources and not repair:
        raise UsageError("--from says what to repair the store from: it goes with --repair")
    root = _free(store)
    reindex = _repair(root, sources) if repair else False
    with Store.open(root, renderer=FileRenderer(), create=False, reindex=reindex) as opened:
        for line in opened.recovered:
            echo(f"convfs: {line}", err=True)
        findings = check(opened, remote=remote)
    for finding in findings:
        echo(f"{finding.severity}: {finding.check}: {finding.message}")
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = len(findings) - errors
    if errors:
        echo(f"{errors} errors, {warnings} warnings.")
        raise click.exceptions.Exit(1)
    echo(f"The store is sound ({warnings} warnings)." if warnings else "The store is sound.")


def _repair(root: Path, sources: tuple[Path, ...]) -> bool:
    """Repair the store, and say what was done; return whether what follows from its logs must be made once more."""
    from fusefs.text.render import FileRenderer
    from store.errors import NotFound, Unreachable
    from store.shared.space import membership
    from store.store import Store
    from store.upkeep.log_repair import put_logs_back
    from store.upkeep.repair import repair

    logs: list[str] = []
    if membership(root) is not None:
        try:
            logs = put_logs_back(root)
        except (NotFound, Unreachable) as error:
            echo(f"convfs: {error}", err=True)
    for name in logs:
        echo(f"repaired: {name}, from the space")
    with Store.open(root, renderer=FileRenderer(), create=False, repair=True) as opened:
        for line in opened.recovered:
            echo(f"convfs: {line}", err=True)
        done = repair(opened, sources)
    for line in done.taken:
        echo(f"repaired: {line}")
    for line in done.lost:
        echo(f"lost: {line}")
    if done.kept:
        echo(f"The damaged bytes are in {done.kept[0].parent}, in {len(done.kept)} files.")
    return done.turns > 0 or bool(logs)


@click.command(short_help="Rebuild the index from the logs.")
@click.pass_obj
def reindex(store: Path | None) -> None:
    """Rebuild the index from the logs, which are authoritative.

    If the logs are damaged, records that only the old index knew are written back to them.
    """
    from fusefs.text.render import FileRenderer
    from store.upkeep.fsck import reindex as rebuild

    for damage in rebuild(_free(store), FileRenderer()):
        echo(damage)
    echo("The index was rebuilt.")


def _free(store: Path | None) -> Path:
    """Return the store's directory. Raises Conflict while a daemon holds it, NotFound where there is none."""
    from fusefs.cli.backend import require, running, store_root
    from fusefs.cli.daemon import whose
    from store.errors import Conflict
    from store.service.channel import ServiceGone

    root = store_root(store)
    require(root)
    while client := running(root):
        # a daemon that ends meanwhile is no obstacle
        with client, suppress(ServiceGone):
            who, how = whose(client)
            raise Conflict(f"{who}: {how} first, because this needs the store to itself")
    return root
