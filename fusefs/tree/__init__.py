"""The nodes of the mounted tree: one class a kind of directory or file. Nothing here knows pyfuse3."""
