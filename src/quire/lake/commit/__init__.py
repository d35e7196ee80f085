"""From statements to a commit: the transaction, its checks, and the attempts to publish it."""
