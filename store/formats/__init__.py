"""Foreign tools: one module each says how its sessions are found, cut into records, and read as events."""
