"""The rules of a graph, on every write path alike.

validate    the validator that the lake calls for graph tables
check       the same as a list of violations
"""

from quire.graph.catalog import VALIDATOR
from quire.graph.integrity.validator import check, validate
from quire.graph.integrity.violations import Found, Violation
from quire.lake import validators

validators.install(VALIDATOR, validate)

__all__ = ["Found", "Violation", "check", "validate"]
