"""What the log of a Delta table says: commits, states, who owns them, and what is published."""
