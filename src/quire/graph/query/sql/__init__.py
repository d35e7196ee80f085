"""Plans as SQL."""
