"""Gemini CLI: sessions as one JSON document, or as JSONL whose lines replace earlier ones."""

from store.formats.gemini_cli.session import GeminiCli

__all__ = ["GeminiCli"]
