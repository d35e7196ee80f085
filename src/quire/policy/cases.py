"""A file of cases: who may do what, and whether the policy says so.

[[case]]
actor = "ada"
roles = ["analyst"]
action = "read"
on = 'Table::"people"'
expect = "allow"          # or "deny", or a mask: "hash", "null", "last4"
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Literal

import msgspec

from quire.errors import InvalidInput
from quire.lake.guard.protocol import Kind, Who
from quire.policy.rules import Decision, Rules
from quire.policy.words import ACTIONS, LAKE, MASKS, ON

_THING = re.compile(r'(Lake|Branch|Table|Column|Query)::"([^"]*)"|Lake')

Expected = Literal["allow", "deny", "null", "hash", "last4"]


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question, and the answer that it should have."""

    actor: str
    action: str
    on: str
    expect: Expected
    roles: tuple[str, ...] = ()
    context: dict[str, Any] = {}


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of cases."""

    case: tuple[Case, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """What a policy says of a case."""

    case: Case
    actual: str
    rules: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether it is what was expected."""
        return self.case.expect == self.actual

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**msgspec.structs.asdict(self.case), "actual": self.actual, "ok": self.ok, "rules": list(self.rules)}


def read_cases(text: str) -> tuple[Case, ...]:
    """The cases of a file."""
    try:
        found = msgspec.convert(tomllib.loads(text), File).case
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InvalidInput(
            f"The cases cannot be read: {error}.", next="Write [[case]] with actor, action, on and expect."
        ) from None
    if not found:
        raise InvalidInput("The file has no cases.", next="Write at least one [[case]].")
    return found


def thing(action: str, text: str) -> tuple[Kind, str]:
    """What a text names, for an action that is done to such things."""
    if action not in ACTIONS or action == "readRow":
        words = ", ".join(a for a in ACTIONS if a != "readRow")
        raise InvalidInput(f"{action!r} is not an action that can be asked for.", next=f"Use one of {words}.")
    found = _THING.fullmatch(text)
    kind: Any = found[1] or "Lake" if found is not None else None
    if found is None or kind not in ON[action]:
        one = ON[action][-1]
        example = f'{one}::"{LAKE}"' if one == "Lake" else f'{one}::"people{"/ssn" if one == "Column" else ""}"'
        raise InvalidInput(f"{text!r} is nothing that {action!r} is done to.", next=f"Write it as {example}.")
    return kind, LAKE if kind == "Lake" else found[2]


def ask(rules: Rules | None, who: Who, action: str, on: str, context: dict[str, Any], *, owner: str = "") -> Decision:
    """What a policy says; without one everything is allowed."""
    kind, name = thing(action, on)
    if rules is None:
        return Decision(True)
    return rules.decide(who, action, kind, name, context, owner=owner)


def answer(rules: Rules | None, case: Case) -> Answer:
    """What a policy says of a case."""
    context = dict(case.context)
    owner = str(context.pop("owner", ""))
    found = ask(rules, Who.of(case.actor, case.roles), case.action, case.on, context, owner=owner)
    mask = next((word for word in MASKS if word in found.masks), None)
    return Answer(case, "deny" if not found.allowed else mask or "allow", found.rules)
