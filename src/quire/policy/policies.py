"""The policy of a lake for programs, as `lake.policy`: show, set, check, test, explain."""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.arguments import checks_arguments
from quire.errors import InvalidInput, NotFound
from quire.lake.commit import record_time, record_values
from quire.lake.guard.core import LAKE, GovernedCore
from quire.lake.guard.protocol import Who
from quire.policy.cases import Answer, answer, ask, read_cases
from quire.policy.document import Document, Tags, entities_of, read_tags, rules_of
from quire.policy.rules import Rules, contexts
from quire.policy.stored import StoredPolicies, StoredPolicy, stored
from quire.prompt import PublicNames, one_line

if TYPE_CHECKING:
    from quire.lake.lake import Lake

Text = str | os.PathLike[str]
"""A text, or the path of a file that holds it."""


@dataclass(frozen=True)
class PolicyInfo:
    """One generation of the policy of a lake."""

    generation: int
    author: str
    time: datetime
    message: str
    text: str
    tags: Tags

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "generation": self.generation,
            "author": self.author,
            "time": self.time.isoformat(),
            "message": self.message,
            "text": self.text,
            "tables": {
                name: {"tags": list(one.tags), "columns": {c: list(words) for c, words in one.columns.items()}}
                for name, one in self.tags.tables.items()
            },
            "protected": sorted(name for name, one in self.tags.branches.items() if one.protected),
        }


@dataclass(frozen=True)
class Explained:
    """Whether an actor may do something, and why."""

    allowed: bool
    mask: str | None
    rules: tuple[str, ...]
    """Names of the rules that decided; none where no rule allows it."""
    rows: str | None
    """Of a table that may be read: which of its rows, as a condition; None for all."""
    columns: dict[str, str]
    """Of a table that may be read: for each column that is not clear "hidden" or its mask."""

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "allowed": self.allowed,
            "mask": self.mask,
            "rules": list(self.rules),
            "rows": self.rows,
            "columns": self.columns,
        }


@checks_arguments
class Policies(PublicNames):
    """Who may do what in a lake. A policy that is set holds at once, for everybody who acts by name.

    >>> import quire
    >>> lake = quire.create("memory://policy-example")
    >>> lake.policy.show() is None
    True
    """

    def __init__(self, lake: Lake) -> None:
        self._lake, self._core = lake, lake._core
        self._stored = StoredPolicies(lake._core.store)

    def __repr__(self) -> str:
        return one_line(f"<Policies of {self._lake.uri}>")

    def show(self, generation: int | None = None) -> PolicyInfo | None:
        """The policy that holds, or an earlier one; None for a lake without a policy."""
        self._administer()
        found = self._stored.newest() if generation is None else self._stored.get(generation)
        if found is None and generation is not None:
            raise NotFound(f"There is no policy {generation}.", next="`quire policy show` shows the newest.")
        return None if found is None else _told(found)

    def log(self) -> list[PolicyInfo]:
        """Every generation, newest first."""
        self._administer()
        return [_told(found) for found in reversed(list(self._stored.every()))]

    def set(self, policy: Text, *, tags: Text | None = None, message: str = "") -> PolicyInfo:
        """Let a policy hold from now on: rules in Cedar, and tags in TOML. Texts, or paths of files.

        Earlier generations stay. Nobody can set a policy by which nobody could set the next one.
        """
        core = self._core.check_writable()
        self._administer()
        document = _document(policy, tags)
        rules_of(document.text)
        now = self._stored.newest()
        made = stored(
            document,
            now.generation + 1 if now is not None else 0,
            author=core.author,
            time=record_time.now(core.store),
            salt=now.secret if now is not None else secrets.token_bytes(16),
            message=record_values.message(message),
        )
        if isinstance(core, GovernedCore):
            rules = Rules(document, made.secret)
            context = contexts({"branch": core.branch, "via": core.who.via})
            if not rules.decide(core.who, "admin", "Lake", LAKE, context).allowed:
                raise InvalidInput(
                    f"By this policy {core.who.name!r} could not set the next one.",
                    next='Permit Action::"admin" on Lake::"lake" to whoever keeps the policy.',
                )
        found = self._stored.create(made)
        if isinstance(core, GovernedCore):
            core.guard.did(core.who, "admin", "Lake", LAKE, core.branch)
            look_again = getattr(core.guard, "look_again", None)
            if look_again is not None:
                look_again()
        return _told(found)

    def check(self, policy: Text | None = None, *, tags: Text | None = None) -> list[str]:
        """What is doubtful about a policy, the one that holds or another: names that the lake does not have.

        What is wrong is an `InvalidInput`.
        """
        self._administer()
        document = self._chosen(policy, tags)
        if document is None:
            return ["The lake has no policy: everything is allowed."]
        state = self._lake._live.refresh()
        tables = {found.info.name for found in state.tables.values()}
        doubts = []
        for rule in rules_of(document.text):
            for kind, name in entities_of(rule.tree):
                table = name.partition("/")[0]
                if kind in ("Table", "Column") and table not in tables:
                    doubts.append(f"{rule.name} names table {table!r}, which is not there{_near(table, tables)}")
                elif kind == "Column" and "/" not in name:
                    doubts.append(f'{rule.name} names column {name!r}: write it as "table/column"')
                elif kind == "Lake" and name != LAKE:
                    doubts.append(f'{rule.name} names lake {name!r}: the lake of the policy is "{LAKE}"')
        doubts += [
            f"the tags name table {name!r}, which is not there{_near(name, tables)}"
            for name in document.tags.tables
            if name not in tables
        ]
        return list(dict.fromkeys(doubts))

    def test(self, cases: Text, *, policy: Text | None = None, tags: Text | None = None) -> list[Answer]:
        """What a policy says of the cases of a file: the policy that holds, or one that is to be."""
        self._administer()
        document = self._chosen(policy, tags)
        rules = Rules(document, b"") if document is not None else None
        return [answer(rules, case) for case in read_cases(_text(cases))]

    def explain(
        self,
        actor: str,
        action: str,
        on: str,
        *,
        roles: Sequence[str] = (),
        context: Mapping[str, Any] | None = None,
    ) -> Explained:
        """Whether an actor may do something, and by which rules; of a table also which rows and columns it sees.

        `on` is written as in rules: `Table::"people"`, `Column::"people/ssn"`, `Branch::"main"`, `Lake`.
        """
        if not isinstance(self._core, GovernedCore) or self._core.who.name != actor:
            self._administer()
        document = self._chosen(None, None)
        rules = Rules(document, b"") if document is not None else None
        who, given = Who.of(actor, roles), dict(context or {})
        found = ask(rules, who, action, on, given, owner=str(given.pop("owner", "")))
        rows, columns = None, {}
        if rules is not None and action == "read" and on.startswith("Table::") and found.allowed:
            state = self._lake._live.refresh().by_name(on.partition("::")[2].strip('"'))
            if state is not None:
                schema = self._core.base.format(state.pin.format).open(state.pin, state.info.name).schema
                kinds = dict(zip(schema.names, schema.types, strict=True))
                sight = rules.sight(who, str(given.get("branch", self._lake._live.name)), state.info.name, kinds)
                rows = None if sight.rows is None else str(sight.rows)
                columns = {**dict.fromkeys(sorted(sight.hidden), "hidden"), **dict(sight.masks)}
        masks = sorted(found.masks)
        return Explained(found.allowed, masks[0] if masks else None, found.rules, rows, columns)

    def _administer(self) -> None:
        core = self._core.check()
        if isinstance(core, GovernedCore):
            core.allow("admin", "Lake", LAKE)

    def _chosen(self, policy: Text | None, tags: Text | None) -> Document | None:
        if policy is not None:
            return _document(policy, tags)
        found = self._stored.newest()
        return None if found is None else found.document


def _document(policy: Text, tags: Text | None) -> Document:
    return Document(_text(policy), Tags() if tags is None else read_tags(_text(tags)))


def _text(given: Text) -> str:
    """A text, or what a file holds."""
    if isinstance(given, str) and ("\n" in given or ";" in given or not given.endswith((".cedar", ".toml"))):
        return given
    try:
        return Path(given).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"{str(given)!r} cannot be read: {why}.", next="Check the path.") from None


def _told(found: StoredPolicy) -> PolicyInfo:
    return PolicyInfo(found.generation, found.author, found.time, found.message, found.text, found.document.tags)


def _near(name: str, names: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""
