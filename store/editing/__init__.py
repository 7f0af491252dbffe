"""Changes that people make: edits, deletions, forks, names, labels. History is never rewritten: all of it stays."""
