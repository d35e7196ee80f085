"""What is allowed in a read and probably not meant."""

from __future__ import annotations

from quire.graph.language import ast, plan
from quire.graph.language.checker.expression import Context
from quire.graph.language.checker.scope import Scope
from quire.graph.language.plan_parts import variables


def advise(context: Context, scope: Scope, body: ast.Read, found: plan.Read) -> None:
    """Add warnings about one read to the context."""
    _cross_products(context, scope, found.block)
    for block in scope.all():
        for bound in block.own.values():
            if bound.uses <= 1:
                message = f"${bound.name} is bound and never used; write $_ where a name is not needed."
                context.warn("unused-variable", message, bound.at)
    if (body.limit or body.offset) is not None and not body.order:
        message = "There is a limit and no order, so any rows may be returned."
        context.warn("limit-without-order", message, body.at)


def _cross_products(context: Context, scope: Scope, block: plan.Block) -> None:
    """Warn where parts of a pattern have nothing to do with each other."""
    group = {name: name for name in (s.variable for s in block.scans)}

    def root(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    for part in (*block.expansions, *block.paths, *block.conditions, *block.after, *block.optional, *block.counts):
        first, *rest = dict.fromkeys((*variables(part), *_edge(part))) or ("",)
        for name in rest:
            group[root(name)] = root(first)
    apart = {root(s.variable): s.variable for s in reversed(block.scans)}
    if len(apart) > 1:
        names = {b.unique: b for b in scope.variables()}
        shown = " and ".join(f"${names[name].name}" for name in reversed(apart.values()))
        message = f"{shown} are not connected: every combination of them is a row."
        context.warn("cross-product", message, names[next(iter(apart.values()))].at)


def _edge(part: object) -> tuple[str, ...]:
    return (part.edge,) if isinstance(part, plan.Expand) else ()
