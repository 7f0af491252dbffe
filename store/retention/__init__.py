"""How long things are kept: for ever, but for what a rule of the user's, or a command, says."""
