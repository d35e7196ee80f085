"""One policy, ready to be asked: decisions, and what an actor sees of a table. Answers are kept; rules never change."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.lake.guard.protocol import STRICTEST, Kind, MaskKind, Sight, Who
from quire.policy import rows
from quire.policy.document import Document, Tags, cedar, rules_of
from quire.policy.words import CONTEXT, LAKE

if TYPE_CHECKING:
    import pyarrow as pa

KEPT = 20_000
"""Answers that are remembered."""


@dataclass(frozen=True)
class Decision:
    """Whether something is allowed, and by which rules that was decided."""

    allowed: bool
    rules: tuple[str, ...] = ()
    masks: frozenset[MaskKind] = frozenset()
    errors: tuple[str, ...] = ()


class Rules:
    """A policy that can be asked."""

    def __init__(self, document: Document, salt: bytes) -> None:
        self._cedar = cedar()
        self.rules = {rule.id: rule for rule in rules_of(document.text)}
        self._policies = self._cedar.PolicySet.from_str(document.text)
        self._tags, self._salt = document.tags, salt
        self.asks_for_owner = "owner" in document.text
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    # -- decisions ----------------------------------------------------------------------------------------------

    def decide(
        self, who: Who, action: str, kind: Kind, name: str, context: Mapping[str, Any], *, owner: str = ""
    ) -> Decision:
        """Whether an actor may do something. `context` may leave out what does not matter."""
        full = contexts(context)
        key = (who.name, who.roles, action, kind, name, json.dumps(full, sort_keys=True), owner)
        found: Decision = self._remembered(key, lambda: self._decided(who, action, kind, [name], full, owner)[0])
        return found

    def sight(self, who: Who, branch: str, table: str, columns: Mapping[str, pa.DataType]) -> Sight:
        """What an actor sees of a table that it may read."""
        key = (who.name, who.roles, who.via, branch, table, tuple((n, str(t)) for n, t in columns.items()))
        found: Sight = self._remembered(key, lambda: self._sight(who, branch, table, columns))
        return found

    def _remembered(self, key: Any, make: Any) -> Any:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = make()
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def _decided(
        self, who: Who, action: str, kind: Kind, names: Sequence[str], context: Mapping[str, Any], owner: str
    ) -> list[Decision]:
        entities = [*_actor(who), *_things(kind, names, self._tags, owner), *ACTION_ENTITIES]
        asked = [
            {
                "principal": {"type": "Actor", "id": who.name},
                "action": {"type": "Action", "id": action},
                "resource": {"type": kind, "id": name},
                "context": json.dumps(context),
            }
            for name in names
        ]
        answers = self._cedar.is_authorized_batch(asked, self._policies, json.dumps(entities))
        return [self._told(answer) for answer in answers]

    def _told(self, answer: Any) -> Decision:
        reasons = [self.rules[id] for id in answer.diagnostics.reasons if id in self.rules]
        masks: frozenset[Any] = frozenset(rule.mask for rule in reasons if rule.mask)
        errors = tuple(answer.diagnostics.errors)
        failed = any(
            rule.effect == "forbid" and f"`{rule.id}`" in said for rule in self.rules.values() for said in errors
        )
        allowed = bool(answer.allowed) and not failed  # nobody knows whether a forbid that fails would hold
        return Decision(allowed, tuple(rule.name for rule in reasons), masks, errors)

    def _sight(self, who: Who, branch: str, table: str, columns: Mapping[str, pa.DataType]) -> Sight:
        context = contexts({"branch": branch, "via": who.via})
        names = list(columns)
        found = self._decided(who, "readColumn", "Column", [f"{table}/{name}" for name in names], context, "")
        by_name = dict(zip(names, found, strict=True))
        hidden = frozenset(name for name, decision in by_name.items() if not decision.allowed)
        masks = {
            name: next(kind for kind in STRICTEST if kind in decision.masks)
            for name, decision in by_name.items()
            if decision.allowed and decision.masks
        }
        return Sight(self._rows(who, context, table, columns), hidden, masks, self._salt)

    def _rows(self, who: Who, context: Mapping[str, Any], table: str, columns: Mapping[str, pa.DataType]) -> Any:
        entities = [*_actor(who), *_things("Table", [table], self._tags, ""), *ACTION_ENTITIES]
        name = who.name.replace("\\", "\\\\").replace('"', '\\"')  # it is printable, so nothing else needs it
        asked = {
            "principal": f'Actor::"{name}"',
            "action": 'Action::"readRow"',
            "context": json.dumps(context),
        }
        found = self._cedar.is_authorized_partial(asked, self._policies, json.dumps(entities))
        return rows.condition(found.residuals, table, columns)


def contexts(given: Mapping[str, Any]) -> dict[str, Any]:
    """A context that has all that rules may ask for."""
    defaults: dict[str, Any] = {"branch": "main", "source": "", "ops": [], "via": "", "approvals": 0}
    return {name: given.get(name, defaults[name]) for name in CONTEXT}


# -- what rules are told of things ------------------------------------------------------------------------------

ACTION_ENTITIES = [
    {
        "uid": {"type": "Action", "id": name},
        "attrs": {},
        "parents": [{"type": "Action", "id": "read"}] if name in ("readColumn", "readRow") else [],
    }
    for name in ("read", "readColumn", "readRow")
]


def _actor(who: Who) -> list[dict[str, Any]]:
    roles = [{"type": "Role", "id": role} for role in sorted(who.roles)]
    own = {"uid": {"type": "Actor", "id": who.name}, "attrs": {"name": who.name}, "parents": roles}
    return [own, *({"uid": role, "attrs": {}, "parents": []} for role in roles)]


def _things(kind: Kind, names: Sequence[str], tags: Tags, owner: str) -> list[dict[str, Any]]:
    lake = {"type": "Lake", "id": LAKE}
    found: list[dict[str, Any]] = [{"uid": lake, "attrs": {}, "parents": []}]
    for name in dict.fromkeys(names):
        uid = {"type": kind, "id": name}
        if kind == "Branch":
            known = tags.branches.get(name)
            protected = known.protected if known is not None else False
            found.append(_entity(uid, {"name": name, "owner": owner, "protected": protected}, lake))
        elif kind == "Table":
            found.append(_table(name, tags))
        elif kind == "Column":
            table, _, column = name.partition("/")
            if not any(entity["uid"] == {"type": "Table", "id": table} for entity in found):
                found.append(_table(table, tags))
            known_table = tags.tables.get(table)
            words = known_table.columns.get(column, ()) if known_table is not None else ()
            attrs = {"name": column, "table": table, "tags": list(words)}
            found.append(_entity(uid, attrs, {"type": "Table", "id": table}))
        elif kind == "Query":
            found.append(_entity(uid, {"name": name}, lake))
    return found


def _table(name: str, tags: Tags) -> dict[str, Any]:
    known = tags.tables.get(name)
    attrs = {"name": name, "tags": list(known.tags) if known is not None else []}
    return _entity({"type": "Table", "id": name}, attrs, {"type": "Lake", "id": LAKE})


def _entity(uid: Any, attrs: Any, parent: Any) -> dict[str, Any]:
    return {"uid": uid, "attrs": attrs, "parents": [parent]}
