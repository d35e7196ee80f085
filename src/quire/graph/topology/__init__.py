"""The shape of a graph as arrays: who is next to whom, kept between queries, and algorithms over it."""

from typing import Literal

Direction = Literal["out", "in", "both"]
"""How edges are walked."""
Algorithm = Literal["degree", "pagerank", "components", "labels", "core", "similarity"]
