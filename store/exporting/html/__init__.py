"""Conversations as web pages that need nothing else, for browsers of any size."""
