"""The guard at the head of every verb: what each one takes, in one table for each class.

A public name that has no place here is an error when its class is made, so that no verb can be added without one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Rule:
    """What a verb takes: an action on something."""

    action: str
    on: str = "branch"
    """The branch of the handle, the lake, or the parameter that names a table or branch: `table:name`."""
    source: str = ""
    """The parameter that names the branch from which something comes."""
    whole: bool = False
    """Whether it works on all of the lake once it is allowed, and not through what the actor sees."""
    all_rows: bool = False
    """Whether it takes a look at every row of the tables that it touches."""


FREE = Rule("")
"""Tells and does nothing that rules could be about, or passes through other verbs alone."""
READ = Rule("read")
MAINTAIN = Rule("maintain", "lake", whole=True)
ADMIN = Rule("admin", "lake", whole=True)

LAKE: Mapping[str, Rule] = {
    "uri": FREE, "branch_name": FREE, "read_only": FREE, "cost": FREE, "flush": FREE, "close": FREE, "acting": FREE,
    "head": READ, "refresh": READ, "snapshot": READ, "tables": READ, "sql": READ, "export": READ, "at": READ,
    "log": READ, "show": READ, "diff": READ, "history": READ, "changes": READ, "consumers": READ, "watch": READ,
    "transaction": READ, "transact": READ, "create_table": READ, "outcome": READ, "branch": READ, "branches": READ,
    "requests": READ, "tags": READ, "policy": READ, "audit": Rule("admin", "lake"),
    "revert": Rule("revert", whole=True, all_rows=True),
    "cherry_pick": Rule("mergeInto", whole=True, all_rows=True),
    "restore": Rule("revert", whole=True, all_rows=True),
    "merge": Rule("mergeInto", "branch:into", source="source", whole=True, all_rows=True),
    "fast_forward": Rule("mergeInto", source="source", whole=True, all_rows=True),
    "create_branch": Rule("branchCreate", "branch:name", whole=True),
    "delete_branch": Rule("branchDelete", "branch:name", whole=True),
    "tag": Rule("tag", whole=True), "delete_tag": Rule("tag", whole=True),
    "claim": ADMIN, "register_database": ADMIN, "take_over": ADMIN, "adopt": ADMIN,
    "backfill": MAINTAIN, "recover": MAINTAIN, "recoveries": MAINTAIN, "optimize": MAINTAIN, "cleanup": MAINTAIN,
    "maintain": MAINTAIN, "status": MAINTAIN, "verify": MAINTAIN, "repair": ADMIN, "foreign": MAINTAIN,
}  # fmt: skip

SNAPSHOT: Mapping[str, Rule] = {
    "commit": FREE, "time": FREE, "cost": FREE,
    "tables": READ, "sql": READ, "lease": READ, "export": READ,
}  # fmt: skip

TABLE: Mapping[str, Rule] = dict.fromkeys(
    ("name", "id", "key", "version", "bytes", "commit", "schema", "count", "scan", "head", "search", "to_arrow",
     "to_pylist", "to_pandas", "to_polars", "to_duckdb", "parts", "indexes", "describe"), READ,
)  # fmt: skip

TRANSACTION: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("repeated", "commit", "receipt", "discard", "edited"), FREE,
    ),
    "tables": READ, "sql": READ,
    "create_table": Rule("schema", "table:name"),
    "register_table": Rule("admin", "lake"),
    "drop_table": Rule("schema", "table:name"),
    "rename_table": Rule("schema", "table:old"),
}  # fmt: skip

WRITE = Rule("write", "table")
REWRITE = Rule("write", "table", all_rows=True)
SCHEMA = Rule("schema", "table", all_rows=True)

TRANSACTION_TABLE: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("name", "key", "dropped", "rules", "schema", "version", "bytes", "commit", "count", "identified_by"), READ
    ),
    "append": WRITE, "insert": REWRITE, "upsert": REWRITE, "update": REWRITE, "delete": REWRITE, "overwrite": REWRITE,
    "target": REWRITE, "hand_in": REWRITE,
    "add_columns": SCHEMA, "drop_columns": SCHEMA, "rename_column": SCHEMA, "alter_column": SCHEMA, "set_rules": SCHEMA,
    "create_index": Rule("index", "table", all_rows=True), "drop_index": Rule("index", "table", all_rows=True),
    "delta": Rule("read", "table", all_rows=True), "require_keys": Rule("read", "table", all_rows=True),
    "require_absent": Rule("read", "table", all_rows=True), "require_none": Rule("read", "table", all_rows=True),
}  # fmt: skip

SHOWING = ("__getitem__", "__contains__", "__iter__", "__len__", "__arrow_c_stream__")
"""What Python calls by signs: it reads as `tables` or `scan` do."""


def guarded(rules: Mapping[str, Rule]) -> Callable[[C], C]:
    """Put the guard at the head of every public name of a class."""

    def decorate(cls: C) -> C:
        lacking = [name for name in vars(cls) if not name.startswith("_") and name not in rules]
        if lacking:
            raise TypeError(f"{cls.__name__}.{lacking[0]} has no rule in quire.lake.guard.verbs.")
        for name, found in list(vars(cls).items()):
            rule = rules.get(name, READ if name in SHOWING else FREE)
            if rule is FREE:
                continue
            if isinstance(found, property) and found.fget is not None:
                setattr(cls, name, property(_headed(found.fget, rule), found.fset, found.fdel, found.__doc__))
            elif inspect.isfunction(found):
                setattr(cls, name, _headed(found, rule))
        return cls

    return decorate


def _headed(verb: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    signature = inspect.signature(verb)

    @functools.wraps(verb)
    def headed(self: Any, *args: Any, **named: Any) -> Any:
        gate = self._gate
        if gate is None:
            return verb(self, *args, **named)
        try:
            given = signature.bind(self, *args, **named).arguments
        except TypeError:
            given = {}  # the verb itself says what is wrong with them
        return gate.enter(self, rule, verb, given, args, named)

    return headed
