"""The one dialect of expressions that people write: DuckDB's. Understood here, for every table format.

A format takes of a `Filter` what it can tell exactly, and lets `kept` tell the rest.
"""

from quire.filters.ast import (
    Always,
    Both,
    Compare,
    Condition,
    Either,
    Flag,
    Has,
    In,
    IsNull,
    Not,
    Other,
    Part,
    Where,
    columns,
    either,
    every,
)
from quire.filters.bind import Expression, Filter, read, read_filter
from quire.filters.compute import Assignment, Computing, assignment
from quire.filters.duckdb_engine import as_shown, shown
from quire.filters.parse import Problem, refused

__all__ = [
    "Always",
    "Assignment",
    "Both",
    "Compare",
    "Computing",
    "Condition",
    "Either",
    "Expression",
    "Filter",
    "Flag",
    "Has",
    "In",
    "IsNull",
    "Not",
    "Other",
    "Part",
    "Problem",
    "Where",
    "as_shown",
    "assignment",
    "columns",
    "either",
    "every",
    "read",
    "read_filter",
    "refused",
    "shown",
]
