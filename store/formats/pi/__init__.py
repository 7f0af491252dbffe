"""pi and oh-my-pi: sessions as JSONL, a line an entry of a tree."""
