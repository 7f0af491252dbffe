"""Codex: rollouts as JSONL, a line an item that the model sees, an event that the program shows, or a note."""

from store.formats.codex.document import CodexDocument
from store.formats.codex.session import Codex

__all__ = ["Codex", "CodexDocument"]
