"""Gemini CLI: sessions as one JSON document, or as JSONL whose lines replace earlier ones."""
