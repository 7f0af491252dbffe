"""Writing through the mount: buffers, saves, scratch files, drafts, and the meaning of a shell's gestures."""
