"""``convfs context``."""

from pathlib import Path

import click

from fusefs.cli.output import escape, write_text

FORMS = ("anthropic", "openai", "jsonl")
"""What ``store.delivery.forms`` knows; said here, so that help need not import it."""


@click.command(short_help="Print what a model should be sent of a conversation.")
@click.argument("conversation", metavar="CONV")
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), help="Only the last N requests and what followed them."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="jsonl: one object a step, with all that the others cannot say.",
)
@click.option("--json", "as_json", is_flag=True, help="One object that says what was saved, too; as context.json.")
@click.pass_obj
def context(store: Path | None, conversation: str, last: int | None, format_name: str, as_json: bool) -> None:
    """Print the messages that a model should be sent of a conversation, as its API takes them.

    What a compaction dropped is not among them. A file that a tool returned again, unchanged, is referred to, not
    repeated; what that saves is told on standard error, and so is what the format cannot say. CONV is PROJECT/NAME, an
    id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from store.service.delivery import CONTEXT, ContextParams

    with located(store, conversation) as (backend, found):
        params = ContextParams(found.id, format_name, last, as_json)
        report = backend.call(CONTEXT, params, write_text)
    if as_json:
        return
    for loss in report.lost:
        click.echo(escape(f"{found.project}/{found.name}: not in {format_name}: {loss.line()}"), err=True)
    if saved := report.saved.references:
        what = "1 content that was sent before is" if saved == 1 else f"{saved} contents that were sent before are"
        spared = f"{report.saved.bytes} bytes, about {report.saved.tokens} tokens, saved"
        click.echo(f"{what} only referred to: {spared}", err=True)
