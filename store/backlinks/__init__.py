"""Backlinks: which conversations and events hold a content or a resource."""
