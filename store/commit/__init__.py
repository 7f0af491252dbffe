"""Making things durable: one writer, group commit through a journal, checkpoints in the background."""
