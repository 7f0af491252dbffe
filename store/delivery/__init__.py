"""The delivery of a conversation to a model: everything that still counts, and nothing twice."""
