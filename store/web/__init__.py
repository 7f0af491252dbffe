"""HTTP for programs that read CXDB's server: contexts, turns by registered types, blobs, trees, and events."""
