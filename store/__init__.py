"""The convfs store: a content-addressed blob store under an append-only turn log.

Nothing in here knows of FUSE. :class:`store.store.Store` has its parts, by name.
"""
