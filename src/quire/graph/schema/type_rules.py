"""The rules of one type: whether the properties they are about exist and can keep them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from quire.graph.catalog import SYSTEM, Check, Range
from quire.graph.names import nearest
from quire.graph.schema.ast import Constraint, DeclaredProperty, DeclaredType, Named, Note, Problems
from quire.graph.types import INTEGERS, Wrong

METRICS = ("l2", "cosine", "dot")
"""How distances between vectors can be measured."""

MOST = 2**31 - 1
"""The largest bound of a cardinality."""


@dataclass
class Rules:
    """The rules of a type, in the form of its definition."""

    key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    index: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    at_least: int = 0
    at_most: int | None = None


def rules_of(found: DeclaredType, problems: Problems) -> Rules:
    """Every rule of a type, from its body and from annotations of its properties."""
    rules = Rules()
    properties = {p.name: p for p in found.properties}
    for constraint in (*_shorthands(found.properties), *found.constraints):
        if constraint.kind == "key" and found.kind == "edge":
            said = f"{found.name} is an edge type; only node types have a @key."
            problems.add(constraint.at, said, "Write @unique(src, dst) instead.", type=found.name, rule="key")
        elif _known(found, constraint, properties, problems):
            _READERS[constraint.kind](rules, found, constraint, properties, problems)
    for prop in found.properties:
        _check_embed(found, prop, properties, problems)
        _check_default(found, prop, rules, problems)
        _check_metric(found, prop, problems)
    _read_card(rules, found, problems)
    # The order in which rules are written means nothing.
    rules.unique, rules.index = tuple(sorted(rules.unique)), tuple(sorted(rules.index))
    rules.ranges = tuple(sorted(rules.ranges, key=lambda r: r.property))
    rules.checks = tuple(sorted(rules.checks, key=lambda c: (c.property, c.pattern)))
    return rules


def anchored(pattern: str) -> str:
    """The pattern of a `@check` as Arrow's regular expressions take it: the whole text must match."""
    return rf"\A(?:{pattern})\z"


def _shorthands(found: Iterable[DeclaredProperty]) -> Iterable[Constraint]:
    kinds: dict[str, Any] = {"key": "key", "unique": "unique", "index": "index"}
    for prop in found:
        for note in prop.notes:
            if note.name in kinds:
                yield Constraint(kinds[note.name], (Named(prop.name, note.at),), note.at)


def _known(
    found: DeclaredType, constraint: Constraint, properties: dict[str, DeclaredProperty], problems: Problems
) -> bool:
    """Whether every property of a rule exists, and is named once."""
    before = len(problems.found)
    seen = set()
    ends = SYSTEM[1:] if found.kind == "edge" and constraint.kind in ("unique", "index") else ()
    for name in constraint.names:
        add = partial(problems.add, name.at, type=found.name, property=name.name, rule=constraint.kind)
        if name.name not in properties and name.name not in ends:
            add(
                f"@{constraint.kind} on {found.name}: there is no property {name.name!r}.",
                nearest(name.name, (*properties, *ends)) or f"It has {', '.join(properties) or 'none'}.",
            )
        elif name.name in seen:
            add(f"@{constraint.kind} on {found.name} names {name.name!r} twice.", "Leave one out.")
        seen.add(name.name)
    return len(problems.found) == before


# -- one reader for each kind of rule ---------------------------------------------------------------------------------


def _read_key(
    rules: Rules, found: DeclaredType, rule: Constraint, properties: dict[str, DeclaredProperty], problems: Problems
) -> None:
    add = partial(problems.add, rule.at, type=found.name, rule="key")
    names = tuple(n.name for n in rule.names)
    if rules.key and rules.key != names:
        add(f"{found.name} has two keys.", f"Write one: @key({', '.join((*rules.key, *names))}).")
        return
    for name in names:
        kind = properties[name].type
        if kind.optional:
            add(
                f"{found.name}.{name} is part of the key and cannot be optional.",
                "Take the ? from its type.",
                property=name,
            )
        if not kind.is_scalar:
            add(f"{found.name}.{name} is {kind.bare}, which cannot be a key.", "Use a scalar.", property=name)
    rules.key = names


def _read_unique(
    rules: Rules, found: DeclaredType, rule: Constraint, properties: dict[str, DeclaredProperty], problems: Problems
) -> None:
    names = tuple(n.name for n in rule.names)
    for name in names:
        if name in properties and not properties[name].type.is_scalar and not _is_end(found, name):
            problems.add(
                rule.at,
                f"{found.name}.{name} is {properties[name].type.bare}, which cannot be unique.",
                "Use scalars.",
                type=found.name,
                property=name,
                rule="unique",
            )
    if names not in rules.unique:
        rules.unique = (*rules.unique, names)


def _read_index(
    rules: Rules, found: DeclaredType, rule: Constraint, properties: dict[str, DeclaredProperty], problems: Problems
) -> None:
    names = tuple(n.name for n in rule.names)
    for name in names:
        if _is_end(found, name):
            continue
        kind = properties[name].type
        if kind.base == "Blob" or kind.many or (kind.base == "Vector" and len(names) > 1):
            together = " with others" if len(names) > 1 else ""
            problems.add(
                rule.at,
                f"{found.name}.{name} is {kind.bare}, which cannot be indexed{together}.",
                "Index scalars, or one vector alone.",
                type=found.name,
                property=name,
                rule="index",
            )
    if names not in rules.index:
        rules.index = (*rules.index, names)


def _read_range(
    rules: Rules, found: DeclaredType, rule: Constraint, properties: dict[str, DeclaredProperty], problems: Problems
) -> None:
    [name] = (n.name for n in rule.names)
    kind = properties[name].type
    add = partial(problems.add, rule.at, type=found.name, property=name, rule="range")
    if not kind.is_number:
        add(f"{found.name}.{name} is {kind.bare}; @range is for numbers only.", "Leave it out, or use @check for text.")
    elif kind.is_integer and any(isinstance(bound, float) for bound in (rule.low, rule.high)):
        add(
            f"{found.name}.{name} is {kind.bare}; its range must have whole numbers as ends.",
            "Write them without a point.",
        )
    if rule.low is not None and rule.high is not None and rule.low > rule.high:
        add(f"The range of {found.name}.{name} ends before it begins.", f"Write {rule.high}..{rule.low}.")
    if kind.base in INTEGERS and _outside(rule, *INTEGERS[kind.base]):
        add(f"No {kind.bare} is in the range of {found.name}.{name}.", "Check its ends, or the type.")
    if any(r.property == name for r in rules.ranges):
        add(f"{found.name}.{name} has two ranges.", "Combine them into one.")
    rules.ranges = (*rules.ranges, Range(name, rule.low, rule.high))


def _outside(rule: Constraint, lowest: int, highest: int) -> bool:
    return (rule.low is not None and rule.low > highest) or (rule.high is not None and rule.high < lowest)


def _read_check(
    rules: Rules, found: DeclaredType, rule: Constraint, properties: dict[str, DeclaredProperty], problems: Problems
) -> None:
    [name] = (n.name for n in rule.names)
    kind = properties[name].type
    add = partial(problems.add, rule.at, type=found.name, property=name, rule="check")
    if kind.base != "String" or kind.many:
        add(f"{found.name}.{name} is {kind.bare}; @check is for String only.", "Use @range for numbers.")
    reason = _refused(rule.pattern)
    if reason:
        add(
            f"The pattern {rule.pattern!r} of {found.name}.{name} is not a valid regular expression: {reason}.",
            "Patterns are those of RE2, which has no look-around and no back-references.",
        )
    made = Check(name, rule.pattern)
    if made not in rules.checks:
        rules.checks = (*rules.checks, made)


def _refused(pattern: str) -> str:
    """Why Arrow cannot take a pattern. It is tried as it will be used, since the same text may mean something else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for text in (pattern, anchored(pattern)):
        try:
            pc.match_substring_regex(pa.array([""]), pattern=text)
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            return (str(error).splitlines() or ["it does not compile"])[0].removeprefix("Invalid regular expression: ")
    return ""


_READERS = {
    "key": _read_key,
    "unique": _read_unique,
    "index": _read_index,
    "range": _read_range,
    "check": _read_check,
}


def _read_card(rules: Rules, found: DeclaredType, problems: Problems) -> None:
    for number, card in enumerate(found.cards):
        add = partial(problems.add, card.at, type=found.name, rule="card")
        if number:
            add(f"{found.name} has two cardinalities.", "Write one.")
        elif card.at_least < 0 or max(card.at_least, card.at_most or 0) > MOST or (card.at_most or 0) < 0:
            add(f"The bounds of @card on {found.name} must be counts.", "Write @card(0..1) or @card(1..).")
        elif card.at_most is not None and card.at_most < max(card.at_least, 1):
            add(f"@card({card.at_least}..{card.at_most}) on {found.name} allows nothing.", "Check the bounds.")
        else:
            rules.at_least, rules.at_most = card.at_least, card.at_most


# -- annotations with a meaning ---------------------------------------------------------------------------------------


def _check_embed(
    found: DeclaredType, prop: DeclaredProperty, properties: dict[str, DeclaredProperty], problems: Problems
) -> None:
    for note in _once(found, prop, "embed", problems):
        add = partial(problems.add, note.at, type=found.name, property=prop.name, rule="embed")
        if prop.type.base != "Vector":
            add(f"{found.name}.{prop.name} is {prop.type.bare}; @embed makes a Vector.", "Write vec: Vector(384).")
        source = note.annotation.value
        if not isinstance(source, str) or source not in properties:
            add(
                f"@embed on {found.name}.{prop.name} is made from a String property, and there is no {source!r}.",
                nearest(str(source), properties) or 'Write @embed("text").',
            )
        elif properties[source].type.base != "String" or properties[source].type.many:
            add(f"@embed: {found.name}.{source} is {properties[source].type.bare}, not String.", "Choose a text.")
        for key, value in note.annotation.named.items():
            if key != "model" or not isinstance(value, str) or not value:
                add(
                    f'@embed takes model="…" and nothing else, not {key}={value!r}.',
                    nearest(key, ["model"]) or "Leave it out.",
                )


def _check_metric(found: DeclaredType, prop: DeclaredProperty, problems: Problems) -> None:
    for note in _once(found, prop, "metric", problems):
        add = partial(problems.add, note.at, type=found.name, property=prop.name, rule="metric")
        given = note.annotation.value
        if prop.type.base != "Vector":
            add(f"{found.name}.{prop.name} is {prop.type.bare}; @metric is for vectors only.", "Leave it out.")
        elif given not in METRICS:
            add(f"There is no metric {given!r}.", nearest(str(given), METRICS) or f"Use one of {', '.join(METRICS)}.")


def _check_default(found: DeclaredType, prop: DeclaredProperty, rules: Rules, problems: Problems) -> None:
    for note in _once(found, prop, "default", problems):
        add = partial(problems.add, note.at, type=found.name, property=prop.name, rule="default")
        if note.annotation.value is None or note.annotation.named:
            add("@default takes one value.", "Write @default(0).")
            continue
        if prop.type.many or prop.type.base in ("Vector", "Blob"):
            add(f"{found.name}.{prop.name} is {prop.type.bare}, which has no default.", "Make it optional.")
            continue
        try:
            value = prop.type.value(note.annotation.value)
        except Wrong as wrong:
            add(f"The default of {found.name}.{prop.name} does not fit: it {wrong}.", "Give a value of its type.")
            continue
        broken = _broken_by(prop.name, value, rules)
        if broken:
            add(f"The default of {found.name}.{prop.name} breaks {broken}.", "Give a value that keeps it.")


def _broken_by(name: str, value: Any, rules: Rules) -> str:
    """The rule that a default does not keep."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for rule in rules.ranges:
        if rule.property != name or not isinstance(value, int | float):
            continue
        if (rule.low is not None and value < rule.low) or (rule.high is not None and value > rule.high):
            return "its range"
    for check in rules.checks:
        if check.property == name and isinstance(value, str) and not _refused(check.pattern):
            matches = pc.match_substring_regex(pa.array([value]), pattern=anchored(check.pattern))
            if not matches[0].as_py():
                return "its check"
    return ""


def _once(found: DeclaredType, prop: DeclaredProperty, name: str, problems: Problems) -> list[Note]:
    notes = [note for note in prop.notes if note.name == name]
    for note in notes[1:]:
        problems.add(
            note.at,
            f"{found.name}.{prop.name} has @{name} twice.",
            "Leave one out.",
            type=found.name,
            property=prop.name,
        )
    return notes[:1]


def _is_end(found: DeclaredType, name: str) -> bool:
    return found.kind == "edge" and name in SYSTEM[1:]
