"""The worktree: the files that a conversation read, wrote and changed, as it knew them."""
