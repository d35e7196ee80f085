"""What writing processes do; it lives here because a spawned process imports it by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tests.system.processes import Start

import quire

SCHEMA = pa.schema([("writer", pa.int64()), ("seq", pa.int64()), ("amount", pa.int64())])
TABLES = ("debits", "credits")


@dataclass
class Written:
    """What one process was told about its own commits."""

    writer: int
    commits: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def amount(writer: int, seq: int) -> int:
    return writer * 1000 + seq + 1


def rows(writer: int, seq: int) -> pa.Table:
    return pa.table({"writer": [writer], "seq": [seq], "amount": [amount(writer, seq)]}, schema=SCHEMA)


def append_to_both(start: Start, uri: str, options: dict[str, str] | None, writer: int, count: int) -> Written:
    """`count` transactions, each one row to both tables. Errors are collected: a caller would have seen them."""
    written = Written(writer)
    lake = quire.open(uri, storage_options=options, author=f"writer {writer}")
    for table in TABLES:
        lake[table].to_arrow()  # so that nobody loads libraries while others write
    start.wait()
    for seq in range(count):
        try:
            with lake.transaction(f"{writer}/{seq}") as tx:
                for table in TABLES:
                    tx[table].append(rows(writer, seq))
        except quire.QuireError as error:
            written.errors.append(f"{type(error).__name__}: {error}")
            continue
        receipt: Any = tx.receipt
        written.commits.append(receipt.commit)
        written.attempts.append(receipt.attempts)
    return written


def append_to_own_table(start: Start, uri: str, options: dict[str, str] | None, writer: int, count: int) -> Written:
    """`count` transactions on a table that nobody else writes."""
    written = Written(writer)
    lake = quire.open(uri, storage_options=options)
    start.wait()
    for seq in range(count):
        with lake.transaction(f"{writer}/{seq}") as tx:
            tx[f"own_{writer}"].append(rows(writer, seq))
        receipt: Any = tx.receipt
        written.commits.append(receipt.commit)
    return written


def upsert_own_keys(start: Start, uri: str, options: dict[str, str] | None, writer: int, count: int) -> Written:
    """`count` transactions that each add a key of this writer's own and raise the one before it."""
    written = Written(writer)
    lake = quire.open(uri, storage_options=options)
    start.wait()
    for seq in range(count):
        with lake.transaction(f"{writer}/{seq}") as tx:
            changed = [{"id": f"{writer}/{seq}", "amount": amount(writer, seq)}]
            if seq:
                changed.append({"id": f"{writer}/{seq - 1}", "amount": -amount(writer, seq - 1)})
            tx["accounts"].upsert(changed)
        receipt: Any = tx.receipt
        written.commits.append(receipt.commit)
    return written


def create_lake(start: Start, uri: str, options: dict[str, str] | None) -> str:
    """Race to make the lake; who won, by the lake's own word."""
    start.wait()
    try:
        lake = quire.create(uri, storage_options=options)
    except quire.errors.LakeExists as lost:
        return lost.kind
    with lake.transaction("by the winner") as tx:
        tx.create_table("mine", [{"id": 1}])
    lake.close()
    return "created"


def create_or_open_lake(start: Start, uri: str, options: dict[str, str] | None, writer: int) -> str:
    """Make the lake or open it, whoever came first, and write to it; the lake's id."""
    start.wait()
    lake = quire.create(uri, storage_options=options, exist_ok=True)
    lake.create_table(f"own_{writer}", schema=SCHEMA)
    lake.close()
    return str(lake.status()["lake"])
