"""Redaction: making a secret disappear from a store, with all that would reveal it."""
