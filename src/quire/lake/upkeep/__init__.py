"""Upkeep: recovery, optimize, cleanup, verify, repair."""
