"""Aider: its chat history, one Markdown file a repository."""

from store.formats.aider.session import Aider

__all__ = ["Aider"]
