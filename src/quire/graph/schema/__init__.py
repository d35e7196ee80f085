"""Schemas of a graph: read, compare with what there is, apply in one commit, show."""
