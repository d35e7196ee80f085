"""The rules of a graph, on every write path alike.

validate    the validator that the lake calls for graph tables
check       the same as a list of violations
"""

from quire.graph.catalog import VALIDATOR
from quire.graph.integrity.merging import GraphMerging
from quire.graph.integrity.validator import check, validate
from quire.graph.integrity.violations import Violation, Violations
from quire.lake.commit import validators

validators.install(VALIDATOR, validate, GraphMerging())

__all__ = ["Violations", "Violation", "check", "validate"]
