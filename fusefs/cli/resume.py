"""``convfs resume``."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.completion import complete_conversation
from fusefs.cli.export import Names
from fusefs.cli.into_mount import is_same, put
from fusefs.cli.mounts import convfs_above
from fusefs.cli.output import echo

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from store.conversations.lines import ConversationLine
    from store.exporting.resume import Plan, Staged
    from store.formats.core.format import Resuming

TOOLS = (
    *("claude-code", "codex", "gemini-cli", "pi", "oh-my-pi", "kilo", "opencode", "llm", "aider"),
    *("cline", "continue", "copilot-cli", "droid", "grok-build", "kimi-cli", "kimi-code", "mistral-vibe", "qwen-code"),
)
"""The programs of ``store.exporting.resume``; repeated here so that help need not import it."""

_AT = re.compile(r"(.+)@([0-9]{1,18})", re.DOTALL)


@click.command(short_help="Go on with a conversation in its tool, or in another one.")
@click.argument("conversation", metavar="CONV[@N]", shell_complete=complete_conversation)
@click.option("--in", "tool", type=Names(TOOLS), help="The tool, if it is not the conversation's own.")
@click.option("--print", "only_print", is_flag=True, help="Print the command that goes on, and do not run it.")
@click.pass_obj
def resume(store: Path | None, conversation: str, tool: str | None, only_print: bool) -> None:
    """Start the conversation's own tool, or TOOL, where the conversation was held, to go on with it.

    The tool finds it as it is now, or as it was at event N. A conversation that was edited, forked, or held in another
    tool is written as a new session where TOOL looks for sessions; no file of the tool's own is touched. What TOOL
    cannot take is listed on standard error.
    """
    from fusefs.cli.backend import store_root
    from fusefs.cli.conversations import located
    from store import paths
    from store.exporting.resume import resuming_of
    from store.formats.registry import learn
    from store.service import exporting

    # the store tells of pages that cannot be used
    learn(store_root(store) / paths.FORMATS)
    at = _AT.fullmatch(conversation)
    with located(store, at[1] if at else conversation) as (backend, found):
        plan = backend.call(exporting.plan_resume(found.id, tool or "", int(at[2]) if at else 0))
        directory = plan.directory or os.getcwd()
        if not os.path.isdir(directory):
            raise click.ClickException(f"{directory}, where the conversation was held, is gone: make it again first")
        resuming = resuming_of(plan.tool)
        session, path = _Session(backend, found, plan, int(at[2]) if at else 0).ready(resuming, directory)
    taking = resuming.taking if os.fsencode(path) != plan.source else ()
    taken, words = ([word.format(session=session, path=path) for word in words] for words in (taking, resuming.words))
    if only_print:
        echo(" && ".join([f"cd {shlex.quote(directory)}", *(shlex.join(one) for one in (taken, words) if one)]))
        return
    os.chdir(directory)
    try:
        if taken and subprocess.run(taken, stdout=sys.stderr, check=False).returncode:
            raise click.ClickException(f"{shlex.join(taken)} failed: {plan.tool} has not taken in the session")
        os.execvp(words[0], words)  # noqa: S606  (the tool takes the place of this command)
    except FileNotFoundError:
        raise click.ClickException(f"{words[0]} is not installed, or not on the PATH: the session is ready") from None


class _Session:
    """The session that a plan is about, in the directory of its tool."""

    def __init__(self, backend: "Backend", found: "ConversationLine", plan: "Plan", at: int) -> None:
        self._backend = backend
        self._found = found
        self._plan = plan
        self._at = at

    def ready(self, resuming: "Resuming", directory: str) -> tuple[str, Path]:
        """Return the id and the file of the session, written unless it is there."""
        plan = self._plan
        source = Path(os.fsdecode(plan.source)) if plan.source else None
        home = Path(directory) if resuming.beside else resuming.home(Path.home())
        if source and not plan.edited and source.exists() and (home is None or source.is_relative_to(home)):
            return plan.session, source
        if home is None:
            there = "was edited since" if plan.edited else "is gone from there"
            raise click.ClickException(
                f"{plan.tool} goes on only with what it wrote, and this {there}: name another tool by --in"
            )
        for copy in count(0 if plan.own and not resuming.taking else 1):
            with tempfile.TemporaryDirectory(prefix="convfs-resume-") as folder:
                staged = self._staged(Path(folder), copy, directory)
                files = [Path(os.fsdecode(name)) for name in staged.files]
                is_in_place = source and not copy and source.is_relative_to(home) and source.is_file()
                main = source if source and is_in_place else home / files[0]
                is_there = main.is_file()
                if is_there:
                    if not is_same(main, Path(folder, files[0]), but_for_first=bool(copy)):
                        continue
                elif not copy and plan.edited:
                    continue
                else:
                    with self._adopting(staged.session, main, copy):
                        put(Path(folder), home, dict.fromkeys(files, ""))
            who = f"{self._found.project}/{self._found.name}"
            for loss in staged.lost:
                echo(f"{who}: not in {plan.tool}: {loss.line()}", err=True)
            return staged.session, main
        raise AssertionError("there is always another id")

    @contextmanager
    def _adopting(self, session: str, path: Path, copy: int) -> Iterator[None]:
        """Have a fork be the session that is written in the block, so that what the tool adds there comes into it."""
        from store.service import calls
        from store.service.importing import import_sessions

        if self._plan.source or copy or convfs_above(Path(os.path.realpath(path))) is not None:
            yield
            return
        # before the file is there: it may be imported as soon as it is
        self._backend.call(calls.set_metadata(self._found.id, {"source": str(path), "session": session}))
        yield
        self._backend.call(import_sessions((os.fsencode(path),)))

    def _staged(self, folder: Path, copy: int, directory: str) -> "Staged":
        from store.service import exporting

        asked = exporting.stage_resume(self._found.id, os.fsencode(folder), self._plan.tool, self._at, copy, directory)
        return self._backend.call(asked)
