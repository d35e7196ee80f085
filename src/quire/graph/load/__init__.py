"""Rows from files and frames into a graph, in one commit."""

from quire.graph.load.load import load
from quire.graph.load.receipt import Loaded, LoadReceipt
from quire.graph.load.sources import size_of

__all__ = ["LoadReceipt", "Loaded", "load", "size_of"]
