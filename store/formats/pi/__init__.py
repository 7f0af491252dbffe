"""pi and oh-my-pi: sessions as JSONL, a line an entry of a tree."""

from store.formats.pi.session import Pi

__all__ = ["Pi"]
