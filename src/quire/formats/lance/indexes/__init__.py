"""Indexes of Lance tables, staged like data."""
