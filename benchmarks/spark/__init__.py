"""Quire on Spark beside what else writes the same rows."""
