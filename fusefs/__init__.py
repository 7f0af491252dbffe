"""The mount: conversations of a store as directories and files."""
