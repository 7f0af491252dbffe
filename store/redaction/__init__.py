"""Redaction: the removal of a secret from a store, with everything that would reveal it."""
