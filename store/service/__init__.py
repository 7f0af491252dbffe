"""The service: how other processes talk to the one that holds the store."""
