"""All that a store says of its conversations, by the command and through a mount, as digests to be compared.

Runs in processes of its own with whatever code is on ``PYTHONPATH``, so that two versions of convfs can be asked alike.
"""

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

HOME = "/home/ada"
FORMS = ("markdown", "json", "jsonl", "openai", "anthropic")
TOOLS = ("native", "jp", "claude-code", "codex", "pi")
"""Forms of those conversations that came from a tool: their names begin with a date."""
NATIVE = tuple(f".convfs/native/{tool}" for tool in ("aider", "claude-code", "gemini-cli", "messages-jsonl", "pi"))
SHOWN = (*NATIVE, "by-date", "by-label", "conversations", "transcripts")
"""The part of a mount that does not depend on when it is looked at."""

Said = dict[str, str]


def environment(directory: Path) -> dict[str, str]:
    """Return what the command needs; ``directory`` is one for the sockets, of this user alone."""
    base = {"HOME": HOME, "PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return base | {"XDG_RUNTIME_DIR": str(directory), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def convfs(env: Mapping[str, str], *arguments: object) -> bytes:
    """Return what the command prints."""
    command = [sys.executable, "-m", "fusefs.cli", *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (arguments, done.stderr.decode())
    return done.stdout


def by_command(env: Mapping[str, str], store: Path, folder: Path) -> Said:
    """Return what the command says: listings, versions, and every conversation in every form."""
    base = ("--store", store)
    listing = convfs(env, *base, "ls")
    said = {"ls": digest(listing)}
    lines = [line.split() for line in listing.decode().splitlines()[1:]]
    for number, *_more in lines:
        said[f"log {number}"] = digest(convfs(env, *base, "log", number))
    for form in FORMS + TOOLS:
        # the name of a conversation is the first word with a slash
        names = {line[0]: next(word for word in line if "/" in word) for line in lines}
        chosen = sorted(number for number, name in names.items() if form in FORMS or "/2026-03-" in name)
        convfs(env, *base, "export", "--format", form, "-o", folder / form, *chosen)
        said |= {f"export {form} {name}": found for name, found in files(folder / form)}
    return said


def mounted(env: Mapping[str, str], store: Path, mountpoint: Path, left_out: Sequence[str]) -> Said:
    """Return what a mount shows; paths that hold a word of ``left_out`` are not looked at."""
    convfs(env, "--store", store, "mount", mountpoint)
    try:
        return {
            f"mount {top}/{name}": found
            for top in SHOWN
            if (mountpoint / top).exists()
            for name, found in files(mountpoint / top)
            if not any(word in name for word in left_out)
        }
    finally:
        convfs(env, "umount", mountpoint)


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each file, link and directory below a folder, and what it is."""
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted((*folders, *names)):
            path = Path(above, name)
            status = path.lstat()
            place = str(path.relative_to(folder))
            if stat.S_ISLNK(status.st_mode):
                yield place, f"link to {os.readlink(path)}"
            elif stat.S_ISDIR(status.st_mode):
                yield place, f"directory {status.st_mode:o}"
            else:
                yield place, f"{status.st_mode:o} {digest(path.read_bytes())}"


def digest(data: bytes) -> str:
    """Return the length of some bytes, and what they are known by."""
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:24]}"
