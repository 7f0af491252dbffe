"""Reading conversations: branches of the turn log, and each record seen as an event."""
