"""Finding things again: an index of the text of every payload; and who holds what."""
