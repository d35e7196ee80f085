"""A graph of a million nodes and five million edges: loaded, and asked, beside SQL and an embedded graph database.

Run it with `make bench-graph`, or `python -m benchmarks.graph --help`.
"""
