"""opencode: sessions of messages of parts, in a database, or (older versions) each in a file of its own."""

from store.formats.opencode.session import Opencode

__all__ = ["Opencode"]
