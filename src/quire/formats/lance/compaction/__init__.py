"""Compaction of Lance tables: a plan, tasks, one staged rewrite."""
