"""Codex: rollouts as JSONL, a line an item that the model sees, an event that the program shows, or a note."""
