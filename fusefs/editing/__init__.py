"""What is written through the mount: buffers, saves, scratch files, drafts, and what the gestures of a shell mean."""
