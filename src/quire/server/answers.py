"""The types of answers in JSON, as `openapi.json` names them. Tests hold what handlers answer against them."""

from __future__ import annotations

from typing import Any

import msgspec


class Problem(msgspec.Struct):
    """What every error says (RFC 9457); some kinds have more fields."""

    type: str
    title: str
    status: int
    detail: str
    kind: str
    next: str | None
    retryable: bool
    request_id: str


class LakeEntry(msgspec.Struct):
    name: str
    read_only: bool


class Lakes(msgspec.Struct):
    lakes: list[LakeEntry]


class TableEntry(msgspec.Struct):
    name: str
    id: str
    version: int
    rows: int
    bytes: int
    key: list[str]
    commit: str


class Tables(msgspec.Struct):
    commit: str
    branch: str
    time: str
    tables: list[TableEntry]


class Column(msgspec.Struct):
    name: str
    type: str
    nullable: bool


class TableDescription(msgspec.Struct):
    name: str
    id: str
    format: str
    version: int
    commit: str
    key: list[str]
    rows: int
    bytes: int
    stable_row_ids: bool
    columns: list[Column]
    indexes: list[dict[str, Any]]
    schema: str
    """The columns as a schema of Arrow, in base64."""


class Page(msgspec.Struct):
    """Rows of one commit. `next` is where the next page begins, if there is one."""

    commit: str
    columns: list[Column]
    rows: list[dict[str, Any]]
    next: str | None = None
    truncated: bool = False


class Count(msgspec.Struct):
    commit: str
    count: int


class TableChange(msgspec.Struct):
    version: int | None
    ops: list[str]
    added: int
    removed: int


class Commit(msgspec.Struct):
    id: str
    branch: str
    parents: list[str]
    author: str
    message: str
    time: str
    write: str
    token: str | None
    reverts: str | None
    metadata: dict[str, str]
    adopts: str | None
    tables: dict[str, TableChange]
    cost: dict[str, Any] | None


class Commits(msgspec.Struct):
    commits: list[Commit]
    next: str | None = None


class Receipt(msgspec.Struct):
    commit: str | None
    branch: str
    time: str | None
    tables: dict[str, TableChange]
    attempts: int
    rebased: int
    replayed: int
    slowed: dict[str, Any] | None
    repeated: bool
    adopted: str | None
    cost: dict[str, Any]
    results: list[Any] = []
    """What each statement returned."""


class Difference(msgspec.Struct):
    before: str
    after: str
    tables: list[dict[str, Any]]


class Branch(msgspec.Struct):
    name: str
    head: str
    start: str | None
    author: str
    time: str


class Branches(msgspec.Struct):
    branches: list[Branch]


class TableFiles(msgspec.Struct):
    """Where a table lies, and its version at the commit."""

    location: str
    format: str
    version: str


class Credentials(msgspec.Struct):
    """Storage options that read the folders of these tables until they expire."""

    commit: str
    expires: str
    options: dict[str, str]
    tables: dict[str, TableFiles]


class Tag(msgspec.Struct):
    name: str
    commit: str
    message: str | None
    author: str | None
    time: str | None


class Tags(msgspec.Struct):
    tags: list[Tag]


class Outcome(msgspec.Struct):
    outcome: str


class RowVersion(msgspec.Struct):
    commit: str
    change: str
    author: str
    message: str
    time: str
    row: dict[str, Any] | None
    columns: list[str]
    metadata: dict[str, str]


class History(msgspec.Struct):
    versions: list[RowVersion]
    complete: bool
    """Whether the oldest of them is the one with which the row began."""


class Changes(msgspec.Struct):
    changes: list[dict[str, Any]]
    cursor: str


class Health(msgspec.Struct):
    status: str


class TypeRecord(msgspec.Struct):
    """What the lake keeps of a type with its table."""

    id: str
    name: str
    validator: str
    rules: str


class Schema(msgspec.Struct):
    commit: str
    schema: str
    types: list[TypeRecord]


class SchemaPlan(msgspec.Struct):
    steps: list[dict[str, Any]]
    refusals: list[dict[str, Any]]


class SchemaApplied(msgspec.Struct):
    commit: str | None
    steps: list[dict[str, Any]]
    receipt: dict[str, Any] | None


class Explanation(msgspec.Struct):
    """How a query is answered."""

    commit: str
    name: str
    tree: list[str]
    scans: list[Any]
    sql: str


class Finding(msgspec.Struct):
    severity: str
    code: str
    message: str
    query: str
    line: int
    column: int
    file: str


class Findings(msgspec.Struct):
    commit: str
    findings: list[Finding]


class StoredNames(msgspec.Struct):
    stored: list[str]


class Consumer(msgspec.Struct):
    name: str
    branch: str
    commit: str
    author: str
    changed: str
    hold: float
    holds: bool
    baseline: bool


class Consumers(msgspec.Struct):
    consumers: list[Consumer]


class ConsumerAt(msgspec.Struct):
    name: str
    commit: str


class MergeConflicts(msgspec.Struct):
    """Some conflicts of a preview, and how many there are."""

    conflicts: list[dict[str, Any]]
    count: int
    open: int


class StoredQueries(msgspec.Struct):
    queries: dict[str, str]


class Mutated(msgspec.Struct):
    """Rows by type. When it was `repeated`, the commit of the first time, which tells by table what it did."""

    commit: str | None
    inserted: dict[str, int]
    updated: dict[str, int]
    deleted: dict[str, int]
    repeated: bool = False


class LoadedRows(msgspec.Struct):
    commit: str | None
    mode: str
    types: dict[str, dict[str, int]]
    rows: int
    rejected: int
    dry_run: bool
    violations: list[dict[str, Any]]
    repeated: bool


class Begun(msgspec.Struct):
    """A transaction that was begun; or the receipt, when the key was committed before."""

    id: str | None
    base: str | None
    tables: list[str]
    receipt: dict[str, Any] | None


class Results(msgspec.Struct):
    """What each statement returned."""

    results: list[Any]


class Names(msgspec.Struct):
    tables: list[str]


class TransactionTable(msgspec.Struct):
    name: str
    key: list[str]
    rows: int
    columns: list[Column]
    schema: str


class Merge(msgspec.Struct):
    """A receipt; with `preview` a plan, with its conflicts."""

    outcome: str | None = None
    commit: str | None = None
    tables: Any = None
    counts: dict[str, int] | None = None
    open: int = 0
    conflicts: list[dict[str, Any]] = []
    truncated: bool = False
    more: str | None = None
    """Where all conflicts are listed, by pages."""


class MergeRequest(msgspec.Struct):
    number: int
    title: str
    text: str
    source: str
    target: str
    state: str
    author: str
    time: str
    changed: str
    reviews: list[dict[str, Any]]
    resolutions: list[dict[str, Any]]
    merged: str | None


class MergeRequests(msgspec.Struct):
    requests: list[MergeRequest]


class Job(msgspec.Struct):
    id: str
    verb: str
    actor: str
    state: str
    began: str
    ended: str | None
    result: Any
    error: dict[str, Any] | None


class Status(msgspec.Struct):
    branch: str
    head: str
