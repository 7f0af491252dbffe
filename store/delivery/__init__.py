"""What a model should be sent of a conversation: what still counts, and nothing twice."""
