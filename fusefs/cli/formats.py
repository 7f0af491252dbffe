"""``convfs formats``."""

from pathlib import Path

import click

from fusefs.cli.output import echo, write_table
from store import visible

_MOST_LEFT = 20


@click.group("formats", short_help="List the formats, and try one on a file.", invoke_without_command=True)
@click.pass_context
def formats(context: click.Context) -> None:
    """List the formats that are read: those of your own first, which are pages of TOML in the store's `formats`.

    Any conversation can be exported in those that are written from any.
    """
    if context.invoked_subcommand is None:
        from store.exporting.export import is_target
        from store.formats.registry import FORMATS, is_described

        _learn(context.obj)
        rows = [("FORMAT", "READ BY", "WRITTEN", "GOES ON IN")]
        rows += [
            (
                one.name,
                "a page" if is_described(one) else "code",
                "from any" if is_target(one.name) else "its own",
                ", ".join(to.tool for to in one.resuming),
            )
            for one in FORMATS
        ]
        write_table(rows)


@formats.command(short_help="Show what a format makes of a file.")
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("--format", "name", metavar="FORMAT", default="", help="Read it as this one, whatever it looks like.")
@click.pass_obj
def check(store: Path | None, file: Path, name: str) -> None:
    """Print the session in FILE as its format sees it: what it says of itself, the records by their kind, and the texts
    that are in no event.
    """
    from store.importing.trial import tried

    _learn(store)
    found = tried(file.absolute(), name)
    told = {
        "format": found.source.format,
        "session": found.about.session_id,
        "title": found.about.title,
        "project": found.about.project,
        **found.about.extra,
        "beside it": ", ".join(name for name, _path in found.source.sidecars),
    }
    write_table([(name, visible.line(value)) for name, value in told.items() if value])
    echo("")
    write_table([("RECORDS", "KIND"), *((str(count), kind) for kind, count in found.kinds.most_common())])
    if found.left:
        echo("")
        echo("Texts in no event:")
        write_table([(str(count), visible.line(place)) for place, count in found.left.most_common(_MOST_LEFT)])


def _learn(store: Path | None) -> None:
    from fusefs.cli.backend import store_root
    from store import paths
    from store.formats.registry import learn

    for wrong in learn(store_root(store) / paths.FORMATS):
        echo(f"convfs: {wrong}", err=True)
