"""Writing to the tools' own files, in ``.convfs/native/``."""
