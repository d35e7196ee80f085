"""The query language (`.gq`): text → tree → typed plan.

parse(text)               tree.File
check(query, catalog)     plan.Query
bind(query, values)       the values of its parameters
lint(text, catalog)       everything wrong or doubtful, without running
show(file)                text again
"""

from quire.graph.language.checker.check import bind, check
from quire.graph.language.checker.constant import evaluate
from quire.graph.language.lint import Finding, lint
from quire.graph.language.parse import parse
from quire.graph.language.printer import show, show_query

__all__ = ["Finding", "bind", "check", "evaluate", "lint", "parse", "show", "show_query"]
