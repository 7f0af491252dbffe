"""``convfs install-skill``."""

import os
from pathlib import Path

import click

from fusefs.cli.output import echo

_SKILL = """\
---
name: convfs
description: Look up past conversations with AI coding tools (what was asked, decided, run, read or changed before, by
  any agent, in any project). Use it when the user refers to earlier work, or before asking what was decided.
---

# Past conversations

`convfs` keeps every conversation of this user with Claude Code, Codex, Gemini CLI, pi, opencode and others.

- `convfs search 'words "an exact phrase" project:NAME after:7'` finds events, best first, as PATH:LINE:TEXT.
- `convfs grep REGEX` prints all matching lines, like `grep`.
- `convfs ls [PROJECT]` lists conversations; `@latest` and `@-2` name the last ones.
- `convfs show CONV` prints one as Markdown; each heading of level 2 is an event with its number. CONV may be words of
  its title.
- `convfs where FILE` lists the events that read or held a file, also one that is gone.
- `convfs blame FILE` says of each line which request of which conversation wrote it.
- `convfs diff CONV@1 CONV@2` compares versions of a conversation; `convfs log CONV` lists them.

Add `--json` for output to parse. If a mount is there (`convfs doctor` says where), the same is in files:
`transcripts/PROJECT/NAME.md`, `conversations/PROJECT/NAME/events/`, `resources/` for files that were read.

Look first, then quote what you found with the conversation's name and the event's number. Change nothing in a mount,
and delete nothing, unless the user asks for it.
"""

_BEGINNING = b"---\nname: convfs\n"
_HOMES = (("CLAUDE_CONFIG_DIR", ".claude"), ("CODEX_HOME", ".codex"))


@click.command(short_help="Tell Claude Code and Codex how to look things up.")
@click.option("--remove", is_flag=True, help="Remove it again.")
def install_skill(remove: bool) -> None:
    """Put a skill where Claude Code and Codex look for skills, so that they know how to use convfs.

    That is skills/convfs/SKILL.md in ~/.claude (or $CLAUDE_CONFIG_DIR) and in ~/.codex (or $CODEX_HOME). Prints the
    paths.
    """
    from store.errors import Conflict

    for variable, folder in _HOMES:
        path = Path(os.environ.get(variable) or Path.home() / folder) / "skills/convfs/SKILL.md"
        there = path.read_bytes() if path.exists() else None
        if there is not None and not there.startswith(_BEGINNING):
            raise Conflict(f"{path} is not convfs's: move it away, and try again")
        if remove:
            if there is not None:
                path.unlink()
                path.parent.rmdir()
                echo(f"removed {path}")
        elif there != _SKILL.encode():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_SKILL, encoding="utf-8")
            echo(str(path))
        else:
            echo(f"{path} is there already")
