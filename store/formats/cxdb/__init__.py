"""CXDB's conversation items, as its clients append them."""

from store.formats.cxdb.lens import LENSES

__all__ = ["LENSES"]
