"""What two states of conversations have in common, and what one of them has otherwise."""
