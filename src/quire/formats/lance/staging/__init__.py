"""One transaction's work on one Lance table, staged and invisible until it is published."""
