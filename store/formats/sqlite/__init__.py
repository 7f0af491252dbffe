"""Tools that keep conversations in an SQLite database: read without a lock, seen as lines, edited cell by cell."""
