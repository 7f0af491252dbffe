"""The relations of those who hold something to it."""

from typing import Literal

Relation = Literal["payload", "content", "output", "metadata"]
"""The way in which something is held: as a whole record, as a content or resource of it, as an output of a tool or an
agent, or by the conversation's metadata, such as the file that it was imported from."""
