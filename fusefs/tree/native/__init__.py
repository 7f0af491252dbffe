"""``.convfs/native/``: the tools' own files, byte for byte."""
