"""Finding things again: what every payload shows, indexed; and who holds what."""
