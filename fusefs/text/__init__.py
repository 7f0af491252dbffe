"""Events as text: the names, files, transcripts and JSON views that the mount shows. No I/O, no FUSE."""

RENDERER_VERSION = 14
"""Raised whenever any event, section or element would be drawn with another size."""
