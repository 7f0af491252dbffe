"""Retention: everything is kept for ever, except what a rule of the user's, or a command, deletes."""
