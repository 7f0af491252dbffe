"""Bytes on disk: the layouts (``*_format``, no I/O), the files that hold them, and the one place that syncs.

``store/FORMAT.md`` documents every byte.
"""
