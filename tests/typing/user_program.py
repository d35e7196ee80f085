"""A program as a user writes it, under `mypy --strict` (`make types`).

What must be refused is marked with the error that refuses it: a mark that is not needed fails the check.
"""

from __future__ import annotations

from pathlib import Path

import quire


def right(spark: object) -> str | None:
    lake = quire.create("memory://typed", author="ada")
    created: quire.Receipt = lake.create_table("people", [{"id": 1, "name": "Ada"}], key="id")
    with lake.transaction("more", token=quire.StreamToken("feed", 1), isolation="serializable") as tx:
        people: quire.TransactionTable = tx["people"]
        people.upsert([{"id": 2, "name": "Bo"}])
        people.create_index("vector", "IVF_PQ", num_partitions=2, metric="cosine")
    versions = {name: table.version for name, table in tx.receipt.tables.items()}
    lake.transact(lambda tx: tx["people"].delete("id = 2"), "less", expect={"people": 2}, metadata={"job": "7"})
    lake.export("out", tables=["people"], format="csv")
    names = lake["people"].to_pandas()["name"]
    frame = lake.sql("select * from people").to_polars()
    graph = quire.Graph(lake)
    graph.apply_schema("node Person { name: String @key }", if_head="1.0")
    done = graph.load(Path("people.jsonl"), "merge", max_errors=5, skip_rejects=True, options={"if_head": "2.0"})
    graph.store("query q() { … }", token="feed:2")
    print(created.commit, versions, names, frame.height, done.rows, quire.errors.Conflict.kind)
    return tx.receipt.commit


def wrong(lake: quire.Lake, graph: quire.Graph) -> None:
    lake.create_table("people", kye="id")  # type: ignore[call-arg]
    lake.create_table("people", key=1)  # type: ignore[arg-type]
    lake.transaction("more", isolation="serialisable")  # type: ignore[arg-type]
    lake.transact(lambda tx: tx.tables(), if_haed="1.0")  # type: ignore[call-arg]
    lake.export("out", format="excel")  # type: ignore[arg-type]
    lake.snapshot().export("out", table="people")  # type: ignore[call-arg]
    with lake.transaction() as tx:
        tx.create_table("people", rows=[])  # type: ignore[call-arg]
        tx["people"].append([], mising="null")  # type: ignore[call-arg]
        tx["people"].create_index("vector", "IVF_PQ", num_partition=2)  # type: ignore[call-arg]
    graph.load("people.jsonl", max_error=5)  # type: ignore[call-arg]
    graph.load("people.jsonl", "update")  # type: ignore[arg-type]
    graph.load("people.jsonl", options={"if_haed": "1.0"})  # type: ignore[arg-type]
    graph.apply_schema("", if_haed="1.0")  # type: ignore[call-arg]
    graph.store("", meta={})  # type: ignore[call-arg]
    quire.opne("lake")  # type: ignore[attr-defined]
    quire.open("lake", readonly=True)  # type: ignore[call-arg]
    lake.heads  # type: ignore[attr-defined]  # noqa: B018
