"""Branches and tags, and what moves commits between them."""
