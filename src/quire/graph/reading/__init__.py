"""Reads of a graph without a query text: by calls, next to a node, blobs, export."""
