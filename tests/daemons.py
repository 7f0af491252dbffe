"""Logs of daemons in their own processes, logged here, too: tests that expect nothing fail of them."""

import logging
import re
from pathlib import Path

_LINE = re.compile(r"^[-0-9]+ [:,0-9]+ (WARNING|ERROR|CRITICAL) ")


def said(text: str) -> None:
    """Log what a daemon wrote to standard error; lines of commands themselves are no log."""
    for line in text.splitlines():
        if not line.startswith(("Serving ", "convfs: ")):
            logging.getLogger("daemon").warning("%s", line)


def wrote(log: Path) -> None:
    """Log the warnings in the log of a mount, or worse."""
    if log.exists():
        said("\n".join(line for line in log.read_text().splitlines() if _LINE.match(line)))
