"""JP: a directory a conversation, its events in one JSON array, contents as blobs beside it."""

from store.formats.jp.session import Jp

__all__ = ["Jp"]
