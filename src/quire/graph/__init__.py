"""A typed property graph on a lake: schemas, rules that hold on every write path, loads, mutations and queries.

Importing it installs the validator that guards the tables of graphs.
"""

from quire.graph import integrity as _integrity  # noqa: F401 - installs the validator
