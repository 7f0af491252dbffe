"""Keeping a store sound: opening it after whatever happened, checking it, rebuilding what is derived."""
