"""Conversations as lines of messages whose content may lie beside them, by id."""

from store.formats.messages_jsonl.session import MessagesJsonl

__all__ = ["MessagesJsonl"]
