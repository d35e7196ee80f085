"""A change of a type as steps that people can read before they apply it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from quire.graph.catalog import Annotation, Catalog, Check, Definition, Interface, Property, Range, quoted
from quire.graph.schema.diff import TypeChange, retyped
from quire.graph.schema.steps import Step
from quire.graph.types import Type

Rule = tuple[str, str]
"""A rule as its kind and the text that declares it."""


def steps_of(change: TypeChange) -> Iterator[Step]:
    """Every step of one type, in the order in which they are done."""
    name, what = change.name, f"{change.kind} type {change.name}"
    if change.new is None:
        yield Step("drop-type", name, f"Drop {what} and its rows.", details={"kind": change.kind})
        return
    if change.old is None:
        count = len(change.new.properties)
        yield Step(
            "add-type",
            name,
            f"Add {what} with {_counted(count, 'property', 'properties')}.",
            details={"kind": change.kind},
        )
        return
    if change.old.name != name:
        sentence = f"Rename {change.kind} type {change.old.name} to {name}."
        yield Step("rename-type", name, sentence, details={"kind": change.kind, "from": change.old.name})
    yield from _properties(change)
    yield from _rules(change, change.old.defined, change.new)
    yield from _rest(change, change.old.defined, change.new)


def interface_steps(old: Catalog, new: Sequence[Interface]) -> Iterator[Step]:
    """What happens to interfaces. They have no rows; what they mean for types is told with the types."""
    before, after = {i.name: i for i in old.interfaces}, {i.name: i for i in new}
    for name in sorted(before.keys() - after.keys()):
        yield Step("drop-interface", name, f"Drop interface {name}.")
    for name in sorted(after.keys() - before.keys()):
        yield Step("add-interface", name, f"Add interface {name}.")
    for name in sorted(after.keys() & before.keys()):
        if before[name] != after[name]:
            yield Step("change-interface", name, f"Change the properties of interface {name}.")


# -- properties -------------------------------------------------------------------------------------------------------


def _properties(change: TypeChange) -> Iterator[Step]:
    name = change.name
    for gone in change.dropped():
        yield Step("drop-property", name, f"Drop {name}.{gone.name} and its values.", gone.name)
    for old, new in change.kept():
        if old.name != new.name:
            sentence = f"Rename {name}.{old.name} to {new.name}."
            yield Step("rename-property", name, sentence, new.name, {"from": old.name})
        yield from _type_steps(name, old, new)
        yield from _annotation_steps(name, new.name, old.annotations, new.annotations)
    for _, new in change.remade():
        sentence = f"Remove the existing vectors of {name}.{new.name}: they were made in another way."
        yield Step("clear-vectors", name, sentence, new.name)
    for new in change.added():
        default = new.annotation("default")
        filled = f", {quoted(default.value)} for existing rows" if default and not new.type.optional else ""
        yield Step("add-property", name, f"Add {name}.{new.name}: {new.type}{filled}.", new.name, {"is": str(new.type)})


def _type_steps(owner: str, old: Property, new: Property) -> Iterator[Step]:
    which = f"{owner}.{new.name}"
    if old.type.optional != new.type.optional:
        action, word = ("make-optional", "optional") if new.type.optional else ("make-required", "required")
        yield Step(action, owner, f"Make {which} {word}.", new.name)
    if old.type.bare == new.type.bare:
        return
    details = {"from": old.type.bare, "to": new.type.bare}
    if retyped(old, new):
        yield Step("change-type", owner, f"Change {which} from {old.type.bare} to {new.type.bare}.", new.name, details)
        return
    more, less = _values(new.type, old.type), _values(old.type, new.type)
    if less or old.type.base == "String":
        said = f"without {', '.join(less)}" if less else f"to {new.type.bare}"
        yield Step("narrow-enum", owner, f"Narrow the values of {which} {said}.", new.name, details)
    if more or new.type.base == "String":
        said = f"by {', '.join(more)}" if more else "to any text"
        yield Step("widen-enum", owner, f"Widen the values of {which} {said}.", new.name, details)
    if not more and not less and old.type.base == new.type.base:
        yield Step("order-enum", owner, f"Put the values of {which} in another order.", new.name, details)


def _values(there: Type, not_there: Type) -> list[str]:
    return [v for v in there.values if v not in not_there.values] if not_there.values else []


def _annotation_steps(owner: str, prop: str, old: Sequence[Annotation], new: Sequence[Annotation]) -> Iterator[Step]:
    if list(old) == list(new):
        return
    which = f"{owner}.{prop}" if prop else owner
    said = _difference(map(str, old), map(str, new))
    yield Step("change-annotations", owner, f"Change the annotations of {which}: {said}.", prop)


# -- rules ------------------------------------------------------------------------------------------------------------


def _rules(change: TypeChange, old: Definition, new: Definition) -> Iterator[Step]:
    renamed = {o.name: n.name for o, n in change.kept()}
    before = list(rule_texts(old, lambda name: renamed.get(name, name)))
    after = list(rule_texts(new))
    for kind, text in before:
        if (kind, text) not in after:
            yield Step(_action("drop", kind), change.name, f"Drop {text} from {change.name}.", details={"rule": text})
    for kind, text in after:
        if (kind, text) not in before:
            yield Step(_action("add", kind), change.name, f"Add {text} to {change.name}.", details={"rule": text})


def _action(verb: str, kind: str) -> str:
    return f"{verb}-{kind if kind == 'index' else 'constraint'}"


def rule_texts(defined: Definition, name: Callable[[str], str] = str) -> Iterator[Rule]:
    """Every rule of a type as the language writes it; `name` says what a property is called."""
    if defined.key:
        yield "key", f"@key({_listed(defined.key, name)})"
    for names in defined.unique:
        yield "unique", f"@unique({_listed(names, name)})"
    for names in defined.index:
        yield "index", f"@index({_listed(names, name)})"
    for found in defined.ranges:
        yield "range", range_text(found, name(found.property))
    for check in defined.checks:
        yield "check", check_text(check, name(check.property))
    if defined.at_least or defined.at_most is not None:
        yield "card", card_text(defined)


def range_text(found: Range, name: str) -> str:
    low, high = ("" if bound is None else repr(bound) for bound in (found.low, found.high))
    return f"@range({name}, {low}..{high})"


def check_text(found: Check, name: str) -> str:
    return f"@check({name}, {quoted(found.pattern)})"


def card_text(defined: Definition) -> str:
    return f"@card({defined.at_least}..{'' if defined.at_most is None else defined.at_most})"


def _listed(names: Iterable[str], name: Callable[[str], str]) -> str:
    return ", ".join(name(n) for n in names)


# -- the rest ---------------------------------------------------------------------------------------------------------


def _rest(change: TypeChange, old: Definition, new: Definition) -> Iterator[Step]:
    name = change.name
    yield from _annotation_steps(name, "", old.annotations, new.annotations)
    if old.implements != new.implements:
        said = _difference(old.implements, new.implements)
        yield Step("change-implements", name, f"Change the interfaces of {name}: {said}.")
    if (old.source, old.target) != (new.source, new.target):
        yield Step("change-ends", name, f"Change the ends of edge type {name}.")
    order = [p.id for p in new.properties if p.id in {o.id for o in old.properties}]
    if order != [p.id for p in old.properties if p.id in set(order)]:
        yield Step("order-properties", name, f"Put the properties of {name} in another order.")


def _difference(old: Iterable[str], new: Iterable[str]) -> str:
    before, after = list(old), list(new)
    more = [f"+ {text}" for text in after if text not in before]
    less = [f"- {text}" for text in before if text not in after]
    return ", ".join((*less, *more)) or "their order"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count or 'no'} {one if count == 1 else many}"
