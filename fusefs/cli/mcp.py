"""``convfs mcp``: the conversations for an agent, over the Model Context Protocol on standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from fusefs.daemon.answers import HitLine

P = ParamSpec("P")

_HITS = 20
_LISTED = 50
_LINES_OF_A_HIT = 3
_LONGEST_LINE = 300
_LONGEST_ANSWER = 50_000

_INSTRUCTIONS = """\
convfs holds this user's past conversations with AI tools: what was asked, answered, run, read and changed.
Look here before you ask what was decided or done before. Begin with `search` or `list_conversations`, then read the
events around a hit with `read_conversation`. A conversation is named by PROJECT/NAME or by its id.\
"""


@click.command(short_help="Serve agents over the Model Context Protocol.")
@click.option("--write", is_flag=True, help="Let the agent change things, too: forks and labels.")
@click.pass_obj
def mcp(store: Path | None, write: bool) -> None:
    """Serve an agent over the Model Context Protocol, on standard input and output, until it closes them.

    \b
    claude mcp add convfs -- convfs mcp
    codex mcp add convfs -- convfs mcp

    The agent may search, list and read conversations, and look up who read or changed a file. It changes nothing
    unless --write is given.
    """  # noqa: D301  (click takes the character for a mark)
    from store.errors import UsageError

    try:
        import mcp.server  # noqa: F401
    except ImportError as error:
        raise UsageError("the MCP server needs one more package: run ./mount.sh --setup, or pip install mcp") from error
    server(store, write=write).run("stdio")


def server(store: Path | None, *, write: bool) -> MCPServer:
    """Return the server, with its tools."""
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    from fusefs.cli.backend import reach, store_root
    from fusefs.cli.conversations import located
    from fusefs.daemon import operations as shown
    from fusefs.daemon.answers import HoldingLine
    from store.conversations.lines import ConversationLine
    from store.formats.core.media import file_uri
    from store.service import operations

    made = MCPServer("convfs", instructions=_INSTRUCTIONS, log_level="ERROR")
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    @made.tool(annotations=reading)
    @_telling
    def search(query: str, limit: int = _HITS) -> str:
        """Search all conversations; the best matches come first.

        Words match in any order; "exact phrases" and /regular expressions/ work; filters are project:NAME, title:WORD,
        role:user, kind:result, tool:Bash, uri:PATH, model:NAME, branch:NAME, is:subagent, after:2026-03, before:2w
        (ago); -word excludes, a OR b takes either. Each hit is a conversation, the number of an event in it or its
        title and labels, and lines of these.
        """
        hits: list[HitLine] = []
        with reach(store_root(store)) as backend:
            backend.call(shown.search(query, max(limit, 1)), hits.extend)
        return "\n".join(line for hit in hits for line in _hit(hit)) or "nothing was found"

    @made.tool(annotations=reading)
    @_telling
    def list_conversations(project: str = "", words: str = "", limit: int = _LISTED) -> str:
        """List conversations, the last changed first: those of a project, and with all of some words in the title."""
        lines: list[ConversationLine] = []
        with reach(store_root(store)) as backend:
            backend.call(operations.list_conversations(project), lines.extend)
        wanted = words.lower().split()
        found = [one for one in lines if all(word in f"{one.title} {one.name}".lower() for word in wanted)]
        found.sort(key=lambda one: one.updated, reverse=True)
        told = [
            f"{one.project}/{one.name}  {one.updated[:10]}  {one.events} events  {one.title}" for one in found[:limit]
        ]
        more = [f"… and {len(found) - limit} more"] if len(found) > limit else []
        return "\n".join(told + more) or "there are none"

    @made.tool(annotations=reading)
    @_telling
    def read_conversation(conversation: str, first: int = 1, last: int = 0) -> str:
        """Read events FIRST to LAST of a conversation as Markdown (0: to the end).

        Every heading of level 2 begins with the event's number. A long answer is cut, and says where to go on.
        """
        pieces: list[str] = []
        with located(store, conversation) as (backend, found):
            backend.call(shown.show_part(found.id, first, last), pieces.append)
        text = "".join(pieces)
        if len(text) <= _LONGEST_ANSWER:
            return text
        cut = text.rfind("\n## ", 0, _LONGEST_ANSWER)
        if cut <= 0:
            return f"{text[:_LONGEST_ANSWER]}\n\n[this event goes on: it has {len(text)} characters here]"
        beyond = text[cut + 4 :].partition(" ")[0]
        return f"{text[:cut]}\n\n[this is not all: go on with first={beyond}]"

    @made.tool(annotations=reading)
    @_telling
    def where_is_file(path: str) -> str:
        """List the events of all conversations that read or held a file, by its absolute path or its URI."""
        lines: list[HoldingLine] = []
        uris = (path, file_uri(path)) if path.startswith("/") else (path,)
        with reach(store_root(store)) as backend:
            backend.call(shown.where(uris=uris), lines.extend)
        return "\n".join(line.path or f"conversation {line.id}, event {line.event}" for line in lines) or "nowhere"

    if write:
        changing = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

        @made.tool(annotations=changing)
        @_telling
        def fork_conversation(conversation: str, name: str, at: int = 0) -> str:
            """Make a conversation that goes on from another's event AT (0: its end), under a NAME of its own."""
            with located(store, conversation) as (backend, found):
                fork = backend.call(operations.fork_as(found.id, name, at))
            return f"{fork.project}/{fork.name}"

    return made


def _telling(tool: Callable[P, str]) -> Callable[P, str]:
    """Return a tool that tells the agent what went wrong."""

    @wraps(tool)
    def told(*args: P.args, **kwargs: P.kwargs) -> str:
        from mcp.server.mcpserver.exceptions import ToolError

        from fusefs.cli.main import explain

        try:
            return tool(*args, **kwargs)
        except Exception as error:
            raise ToolError(explain(error)) from error

    return told


def _hit(hit: HitLine) -> list[str]:
    where = f"event {hit.event} ({f'{hit.kind} {hit.tool}'.rstrip()})" if hit.event else "title and labels"
    return [
        f"{hit.project}/{hit.name}, {where}, {hit.time[:10]}",
        *(f"    {line.text.strip()[:_LONGEST_LINE]}" for line in hit.lines[:_LINES_OF_A_HIT]),
    ]
