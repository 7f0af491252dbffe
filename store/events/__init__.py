"""What a conversation is made of, as values: events, blocks, resources, conversations."""
