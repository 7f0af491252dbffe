"""Claude Code: sessions as JSONL, a line a message, an attachment or a note."""

from store.formats.claude_code.session import ClaudeCode

__all__ = ["ClaudeCode"]
