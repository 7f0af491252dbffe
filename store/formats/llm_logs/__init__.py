"""llm, the command-line tool: all conversations in one database, ``logs.db``."""

from store.formats.llm_logs.session import LlmLogs

__all__ = ["LlmLogs"]
