"""Entry point: the group of commands, their common options, and how failures are reported.

Exit codes: 0 done, 1 failed, 2 wrong usage. A failure is one line on standard error.
"""

import atexit
import importlib
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

import click

from fusefs.cli.examples import examples_of
from fusefs.cli.libraries import load_msgspec
from fusefs.cli.output import echo

# By what they are for: name, module, and the line that `convfs --help` shows, so that help need not import them.
_GROUPS = {
    "Look": {
        "ls": ("show", "List the conversations."),
        "show": ("show", "Print a conversation."),
        "open": ("open_", "Open a conversation, or the list of all, in a browser."),
        "cat": ("show", "Print the content behind a URL in a conversation."),
        "log": ("history", "List the versions of a conversation."),
        "diff": ("diff", "Compare two versions, forks or conversations."),
        "stats": ("stats", "Show what the store holds and what answers cost."),
    },
    "Find": {
        "browse": ("browse", "Look through everything on the terminal."),
        "search": ("search", "Search all conversations."),
        "grep": ("search", "Print the lines that match a pattern."),
        "blame": ("blame", "Say which request wrote each line of a file."),
        "where": ("where", "List the events that hold a content, a file or a URI."),
    },
    "Mount": {
        "mount": ("mount", "Mount the conversations at DIR."),
        "umount": ("umount", "Unmount DIR and wait until everything is written."),
        "install-service": ("install_service", "Have systemd run a mount that imports your sessions."),
        "serve": ("serve", "Serve programs, without a mount."),
        "mcp": ("mcp", "Serve agents over the Model Context Protocol."),
        "install-skill": ("install_skill", "Tell Claude Code and Codex how to look things up."),
        "completion": ("completion", "Print the script that completes commands in a shell."),
        "doctor": ("doctor", "Check what this machine needs for a mount."),
    },
    "Bring in and out": {
        "import": ("import_", "Import sessions of AI tools."),
        "watch": ("watch", "Keep importing your sessions as they grow."),
        "formats": ("formats", "List the formats, and try one on a file."),
        "resume": ("resume", "Go on with a conversation in its tool, or in another one."),
        "export": ("export", "Write conversations as files, in any format."),
        "share": ("share", "Write one file for others to read, without secrets."),
        "push": ("transfer", "Send conversations to another store."),
        "pull": ("transfer", "Fetch conversations from another store."),
        "sync": ("transfer", "Pull from another store, then push to it."),
        "context": ("show", "Print the messages to send to a model."),
    },
    "Between machines": {
        "remote": ("remote", "Share one store between machines."),
    },
    "Change": {
        "fork": ("history", "Branch off a conversation."),
        "restore": ("history", "Bring back an earlier version of a conversation."),
        "redact": ("redact", "Remove a secret from everything."),
        "prune": ("prune", "Delete conversations, versions or artifacts for good."),
    },
    "Look after": {
        "gc": ("collect", "Free the space of data that was deleted for good."),
        "seal": ("collect", "Rewrite stored data compactly, in reading order."),
        "fsck": ("upkeep", "Check the store."),
        "reindex": ("upkeep", "Rebuild the index from the logs."),
    },
}
COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}
_INTERRUPTED = 130
_BROKEN_PIPE = 141


class _Commands(click.Group):
    """Loads a command's module when the command is run or asked for its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        load_msgspec()
        module = importlib.import_module(f"fusefs.cli.{COMMANDS[cmd_name][0]}")
        name = cmd_name.replace("-", "_")
        # what Python calls so itself has a stroke behind it
        command = getattr(module, name, None) or getattr(module, f"{name}_")
        assert isinstance(command, click.Command)
        command.epilog = examples_of(cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            meant = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f": did you mean {meant[0]}" if meant else ""
            raise click.UsageError(f"there is no command {args[0]}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, group in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", summary) for name, (_, summary) in group.items()])


def _print_version(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    from importlib import metadata

    try:
        version = metadata.version("convfs")
    except metadata.PackageNotFoundError:
        version = "from a checkout that is not installed"
    echo(f"convfs {version}")
    ctx.exit()


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="CONVFS_STORE",
    help="The store's directory.  [env CONVFS_STORE; default $XDG_DATA_HOME/convfs]",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def cli(ctx: click.Context, store: Path | None) -> None:
    """Conversations with AI tools, as files."""
    # Made absolute here: a daemon changes its directory, and its arguments must not depend on that.
    ctx.obj = Path(os.path.abspath(store)) if store else None
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def command() -> None:
    """Run the command of this process, and end it: to take down what is left, only memory, takes a tenth of `ls`."""
    try:
        main()
    except SystemExit as end:
        if threading.active_count() == 1 and isinstance(end.code, int):
            atexit._run_exitfuncs()
            # what cannot be written is told as Python tells it
            with suppress(OSError):
                sys.stdout.flush()
                os._exit(end.code)
        raise


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit."""
    if sys.stdout is None:
        # Closed by the parent process: there is nobody to tell, but still something to do.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (it lives as long as the process)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Names on disk may be invalid Unicode; a listing must not fail on them.
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
    """Return the message of an error, in one line."""
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
    echo(f"convfs: {message}", err=True)
    return code
