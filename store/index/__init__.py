"""The derived index: everything here can be deleted and comes back identical from the logs."""
