"""The values that a conversation is made of: events, blocks, resources, conversations."""
