"""Claude Code: sessions as JSONL, a line a message, an attachment or a note."""
