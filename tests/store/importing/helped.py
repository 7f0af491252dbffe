"""Imports and filing that other processes help with, and sessions for these."""

from pathlib import Path

import pytest

from store import filing
from store.importing import importer
from tests.bench import corpus
from tests.store.importing.sessions import lines, long_lines, session


def helped_by(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Have every import, and all filing, helped by so many processes."""
    for module in ("importer", "session"):
        monkeypatch.setattr(f"store.importing.{module}.MUCH_BYTES", 1)
    monkeypatch.setattr(filing, "WORTH_RECORDS", 1)
    for module in (importer, filing):
        monkeypatch.setattr(module, "processes", lambda: count)


def write_sessions(folder: Path) -> None:
    """Write sessions of Claude Code: many small ones, a long one, one with huge strings, one and its fork."""
    corpus.write_corpus(folder, sessions=12, events=40)
    session(folder, long_lines(2500), "long")
    session(folder, lines("big " * 700_000, "words of some sort", "more " * 300_000), "huge")
    session(folder, lines(*"abcdefgh"), "first")
    session(folder, lines(*"abcdefgh", "and then on"), "fork")
