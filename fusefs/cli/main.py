"""Entry point: the group of commands, options that all of them take, and how failures are told.

Exit codes: 0 done, 1 failed, 2 wrong usage. A failure is one line on standard error.
"""

import importlib
import os
import sys
from pathlib import Path

import click

from fusefs.cli.output import escape

# Name, module, and the line that `convfs --help` shows, so that help need not import the commands.
COMMANDS = {
    "import": ("import_", "Import sessions of AI tools."),
    "mount": ("mount", "Mount the conversations at DIR."),
    "umount": ("umount", "Unmount DIR and wait until everything is written."),
    "watch": ("watch", "Keep importing your sessions as they grow."),
    "install-service": ("install_service", "Have systemd keep a mount with watch running."),
    "serve": ("serve", "Answer programs, without a mount."),
    "ls": ("ls", "List the conversations."),
    "show": ("show", "Print a conversation."),
    "cat": ("cat", "Print what a URL in a conversation leads to."),
    "context": ("context", "Print what a model should be sent of a conversation."),
    "export": ("export", "Write conversations as files: those they came from, or other forms."),
    "log": ("history", "List the versions of a conversation."),
    "restore": ("history", "Bring back an earlier version of a conversation."),
    "fork": ("history", "Branch off a conversation."),
    "diff": ("diff", "Say what differs between two versions, forks or conversations."),
    "where": ("where", "Say which conversations and events hold a content, a file or a URI."),
    "search": ("search", "Find what was said."),
    "grep": ("search", "Print the lines that a pattern is on."),
    "prune": ("prune", "Delete conversations, versions or artifacts for good."),
    "gc": ("gc", "Give back the room of what was deleted for good."),
    "seal": ("seal", "Store what is there in less room, in the order of reading."),
    "redact": ("redact", "Make a secret disappear from everything."),
    "fsck": ("upkeep", "Check the store."),
    "reindex": ("upkeep", "Rebuild the index from the logs."),
    "stats": ("stats", "Say what the store holds and what it costs."),
    "doctor": ("doctor", "Check what this machine needs for a mount."),
}
_INTERRUPTED = 130
_BROKEN_PIPE = 141


class _Commands(click.Group):
    """Loads a command's module when the command is run or asked for its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"fusefs.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, "import_" if cmd_name == "import" else cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _print_version(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    from importlib import metadata

    try:
        version = metadata.version("convfs")
    except metadata.PackageNotFoundError:
        version = "from a checkout that is not installed"
    click.echo(f"convfs {version}")
    ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="CONVFS_STORE",
    help="Where the conversations are kept.  [env CONVFS_STORE; default $XDG_DATA_HOME/convfs]",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Say which.")
@click.pass_context
def cli(ctx: click.Context, store: Path | None) -> None:
    """Conversations with AI tools, as files."""
    # Made absolute here: a daemon changes its directory, and what it is told must not depend on it.
    ctx.obj = Path(os.path.abspath(store)) if store else None


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit."""
    if sys.stdout is None:
        # Closed by whoever started this: there is nobody to tell, but still something to do.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (it lives as long as the process)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Names on disk may hold bytes that are no text; a listing must not fail on them.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        # A command that raises Exit makes its code the result.
        code = cli.main(arguments, prog_name="convfs", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "convfs"
        return _fail(f"{error.format_message().rstrip('.')}: see `{command} --help`", 2)
    except click.ClickException as error:
        return _fail(error.format_message(), 1)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader had enough (`convfs ls | head`). What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except Exception as error:
        return _fail(explain(error), 1)
    return code if isinstance(code, int) else 0


def explain(error: Exception) -> str:
    """Return what an error is told as, in one line."""
    from store.errors import ConvfsError

    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ConvfsError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if isinstance(error.filename, str) else error.strerror
    if os.environ.get("CONVFS_DEBUG"):
        raise error
    return f"a bug in convfs ({type(error).__name__}: {error}): CONVFS_DEBUG=1 shows where"


def _fail(message: str, code: int) -> int:
    click.echo(f"convfs: {escape(message)}", err=True)
    return code
