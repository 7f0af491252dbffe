"""claude.ai's export: conversations with their messages in one list, which may be a tree."""

from store.formats.claude_ai.session import ClaudeAi

__all__ = ["ClaudeAi"]
