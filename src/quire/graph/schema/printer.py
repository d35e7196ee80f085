"""A catalog as schema text, always in the same form: reading it gives the same catalog.

>>> from quire.graph.schema.resolve import catalog
>>> print(show(catalog("node Person{email:String age:I32? @key(email) @range(age,0..)}")), end="")
node Person {
  email: String @key
  age: I32?
  @range(age, 0..)
}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quire.graph.catalog import Annotation, Catalog, Entity, Interface, Property
from quire.graph.schema.describe import card_text, rule_texts
from quire.graph.schema.resolve import NOT_KEPT


def show(catalog: Catalog) -> str:
    """The schema: interfaces, then node types, then edge types."""
    parts = [_interface(i) for i in catalog.interfaces]
    parts += [_node(e, catalog) for e in catalog.nodes]
    parts += [_edge(e, catalog) for e in catalog.edges]
    return "\n".join(parts)


def show_type(entity: Entity, catalog: Catalog) -> str:
    """One type of it."""
    return _node(entity, catalog) if entity.kind == "node" else _edge(entity, catalog)


def _interface(found: Interface) -> str:
    lines = [f"{p.name}: {p.type}{_notes(p.annotations)}" for p in found.properties]
    return _block(f"interface {found.name}", lines)


def _node(entity: Entity, catalog: Catalog) -> str:
    implements = entity.defined.implements
    head = f"node {entity.name}{_notes(entity.defined.annotations)}"
    if implements:
        head += f" implements {', '.join(implements)}"
    inherited = _inherited(entity, catalog)
    own = [p for p in entity.defined.properties if inherited.get(p.name) != p.annotations]
    return _block(head, _body(entity, own))


def _edge(entity: Entity, catalog: Catalog) -> str:
    head = f"edge {entity.name}: {catalog.source(entity).name} -> {catalog.target(entity).name}"
    if entity.defined.at_least or entity.defined.at_most is not None:
        head += f" {card_text(entity.defined)}"
    body = list(_body(entity, list(entity.defined.properties)))
    head += _notes(entity.defined.annotations)
    return _block(head, body) if body else f"{head}\n"


def _inherited(entity: Entity, catalog: Catalog) -> dict[str, tuple[Annotation, ...]]:
    """Properties that the interfaces give, with the annotations that come along. The first interface counts."""
    found: dict[str, tuple[Annotation, ...]] = {}
    for name in entity.defined.implements:
        interface = catalog.interface(name)
        for prop in interface.properties if interface is not None else ():
            found.setdefault(prop.name, tuple(a for a in prop.annotations if a.name not in NOT_KEPT))
    return found


def _body(entity: Entity, own: list[Property]) -> Iterator[str]:
    """The properties, with rules about one of them behind it; then the other rules."""
    names = {p.name for p in own if not (entity.kind == "edge" and p.name in ("src", "dst"))}
    behind: dict[str, list[str]] = {}
    rest = []
    for kind, text in rule_texts(entity.defined):
        if kind == "card":
            continue
        inside = text.partition("(")[2][:-1]
        if kind in ("key", "unique", "index") and inside in names:
            behind.setdefault(inside, []).append(f" @{kind}")
        else:
            rest.append(text)
    for prop in own:
        yield f"{prop.name}: {prop.type}{''.join(behind.get(prop.name, ()))}{_notes(prop.annotations)}"
    yield from rest


def _notes(annotations: tuple[Annotation, ...]) -> str:
    return "".join(f" {a}" for a in annotations)


def _block(head: str, lines: Iterable[str]) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"{head} {{\n{body}}}\n"
