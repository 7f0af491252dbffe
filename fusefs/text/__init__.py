"""Events as text: the names, files, transcripts and JSON views that the mount shows. No I/O, no FUSE."""
