"""A policy as it is written: rules in Cedar, and what they may call tables, columns and branches by (tags)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from quire.errors import InvalidInput, Unsupported
from quire.policy.words import ACTIONS, KINDS, MASKS

MOST_TEXT = 256 << 10


class TableTags(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words for a table, and for columns of it."""

    tags: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = {}


class BranchTags(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What rules may know of a branch beside its name and owner."""

    protected: bool = False


class Tags(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What rules may call things by."""

    tables: dict[str, TableTags] = {}
    branches: dict[str, BranchTags] = {}


class Document(msgspec.Struct, frozen=True):
    """A policy as somebody wrote it."""

    text: str
    tags: Tags = Tags()


def cedar() -> Any:
    """The engine, where it is installed."""
    try:
        import cedarpy
    except ImportError:
        raise Unsupported(
            "A policy needs the package cedarpy.", next="pip install 'quire[policy]'.", package="cedarpy"
        ) from None
    return cedarpy


def read_tags(text: str) -> Tags:
    """Tags from TOML."""
    try:
        return msgspec.convert(tomllib.loads(text), Tags)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InvalidInput(
            f"The tags cannot be read: {error}.", next='Write [tables.people] tags = ["pii"], or [branches.main].'
        ) from None


class Static(msgspec.Struct, frozen=True):
    """One rule."""

    id: str
    """By which Cedar tells it."""
    name: str
    """By which a person does: what it is annotated with as `@id`, or its place."""
    effect: str
    mask: str | None
    tree: Mapping[str, Any]


def rules_of(text: str) -> list[Static]:
    """The rules of a text, or `InvalidInput` with everything that is wrong with them."""
    if len(text) > MOST_TEXT:
        raise InvalidInput(f"A policy holds {MOST_TEXT:,} characters.", next="Write fewer rules.")
    if not text.strip():
        raise InvalidInput("The policy has no rules.", next="Write at least one permit.")
    try:
        parsed = json.loads(cedar().policies_to_json_str(text))
    except ValueError as error:
        said = " ".join(str(error).split())[:400]
        raise InvalidInput(f"The policy cannot be read: {said}.", next="Correct it; it is written in Cedar.") from None
    if parsed.get("templates"):
        raise InvalidInput("A policy holds no templates.", next="Write each rule out.")
    found = []
    for id, tree in parsed["staticPolicies"].items():
        notes = tree.get("annotations") or {}
        name = notes.get("id") or f"rule {int(re.sub('[^0-9]', '', id) or 0) + 1}"
        found.append(Static(id, name, tree["effect"], notes.get("mask"), tree))
    problems = [problem for rule in found for problem in _problems(rule)]
    if problems:
        raise InvalidInput(
            f"The policy has {len(problems)} {'problem' if len(problems) == 1 else 'problems'}: {'; '.join(problems)}.",
            next="Correct it.",
            problems=problems,
        )
    return found


def _problems(rule: Static) -> Iterator[str]:
    if rule.mask is not None:
        if rule.mask not in MASKS:
            yield f"{rule.name}: {rule.mask!r} is no mask (use one of {', '.join(MASKS)})"
        if rule.effect != "permit":
            yield f"{rule.name}: a mask stands at a permit"
    for kind, id in entities_of(rule.tree):
        if kind not in KINDS:
            yield f"{rule.name}: there is no kind {kind!r} of things"
        elif kind == "Action" and id not in ACTIONS:
            yield f"{rule.name}: there is no action {id!r}"


def entities_of(tree: Any) -> Iterator[tuple[str, str]]:
    """Everything that a rule names."""
    if isinstance(tree, Mapping):
        if set(tree) >= {"type", "id"} and isinstance(tree["type"], str):
            yield tree["type"], str(tree["id"])
        elif isinstance(tree.get("entity_type"), str):
            yield tree["entity_type"], ""
        for value in tree.values():
            yield from entities_of(value)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for value in tree:
            yield from entities_of(value)
