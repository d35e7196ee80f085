"""Several tables of unmodified handles in one commit, or none."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import pyarrow as pa
import pytest
from tests.namespace.conftest import docs, ids, opened, sound

import quire
from quire.lance import Batch, Namespace


def people(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"new {n}" for n in numbers]})


def test_writes_on_two_tables_are_one_commit(lake: quire.Lake, namespace: Namespace) -> None:
    with Batch(namespace) as batch:
        first, second = opened(batch), opened(batch, "people")
        first.insert(docs(10))
        first.insert(docs(11))
        first.delete("id = 0")
        second.insert(people(10))
        assert (first.count_rows(), second.count_rows()) == (5, 5)
        assert opened(batch).count_rows() == 5
        assert lake.refresh() == "1.0"
        assert opened(namespace).count_rows() == 4
        versions = Path(first.uri) / "_versions"
        assert len([name for name in versions.iterdir() if re.fullmatch(r"\d{20}\.manifest", name.name)]) == 1

    assert batch.transaction_id == "2.0" == lake.refresh()
    assert set(lake.show("2.0").tables) == {"docs", "people"}
    assert (ids(lake), ids(lake, "people")) == ([1, 2, 3, 10, 11], [0, 1, 2, 3, 10])
    assert [v["version"] for v in opened(namespace).versions()] == [1, 2, 3, 4]
    sound(lake)


def test_a_new_table_in_a_batch(lake: quire.Lake, namespace: Namespace) -> None:
    with Batch(namespace) as batch:
        made = lance.write_dataset(docs(1), namespace_client=batch, table_id=["made"])
        made.insert(docs(2))
        opened(batch).insert(docs(10))
        assert "made" not in lake.snapshot()
    assert (ids(lake), ids(lake, "made")) == ([0, 1, 2, 3, 10], [1, 2])
    assert set(lake.show(lake.refresh()).tables) == {"docs", "made", "_lance:namespace"}
    sound(lake)


def test_a_rival_of_one_table_leaves_both_as_they_were(lake: quire.Lake, namespace: Namespace) -> None:
    batch = Batch(namespace)
    opened(batch).insert(docs(10))
    opened(batch, "people").insert(people(10))
    with lake.transaction() as tx:
        tx["people"].insert(people(50))
    with pytest.raises(spec.ConcurrentModificationError) as caught:
        batch.commit()
    told = json.loads(str(caught.value).partition("\n")[0]) if str(caught.value).startswith("{") else {}
    assert not told or told["actual"] == 2
    assert (ids(lake), ids(lake, "people")) == ([0, 1, 2, 3], [0, 1, 2, 3, 50])
    with pytest.raises(spec.InvalidTableStateError, match="The batch is over"):
        batch.commit()
    sound(lake)


def test_an_exception_discards_a_batch(lake: quire.Lake, namespace: Namespace) -> None:
    with contextlib.suppress(ZeroDivisionError), Batch(namespace) as batch:
        opened(batch).insert(docs(10))
        raise ZeroDivisionError
    assert lake.refresh() == "1.0"


def kept(namespace: Namespace, *tables: str) -> list[spec.CreateTableVersionRequest]:
    """What handles ask for."""
    batch = Batch(namespace)
    for name in tables:
        opened(batch, name).insert(people(70) if name == "people" else docs(70))
    return batch._versions


def test_a_batch_of_every_kind_is_answered_in_order(lake: quire.Lake, namespace: Namespace) -> None:
    with lake.transaction() as tx:
        tx.create_table("old", [{"id": 1}])
    [version] = kept(namespace, "docs")
    operations = [
        spec.CommitTableOperation(declare_table=spec.DeclareTableRequest(id=["later"], properties={"a": "b"})),
        spec.CommitTableOperation(create_table_version=version),
        spec.CommitTableOperation(deregister_table=spec.DeregisterTableRequest(id=["old"])),
    ]
    asked = spec.BatchCommitTablesRequest(
        operations=operations, context={"quire.message": "all at once", "quire.author": "bo"}
    )
    done = namespace.batch_commit_tables(asked)
    declared, created, dropped = done.results
    assert declared.declare_table.properties == {"a": "b"}
    assert created.create_table_version.version.version == 2
    assert dropped.deregister_table.id == ["old"]
    commit = lake.show(lake.refresh())
    assert (commit.id, commit.message, commit.author) == (done.transaction_id, "all at once", "bo")
    assert ids(lake) == [0, 1, 2, 3, 70]
    assert "old" not in lake.snapshot()
    described = namespace.describe_table(spec.DescribeTableRequest(id=["later"]))
    assert described.is_only_declared
    assert described.location == declared.declare_table.location


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ({"delete_table_versions": {"id": ["docs"], "ranges": []}}, spec.UnsupportedOperationError),
        ({"deregister_table": {"id": ["nothing"]}}, spec.TableNotFoundError),
        ({"declare_table": {"id": ["docs"]}}, spec.TableAlreadyExistsError),
        ({"declare_table": {"id": ["x"], "location": "s3://elsewhere"}}, spec.InvalidInputError),
        ({}, spec.InvalidInputError),
        (
            {"deregister_table": {"id": ["people"], "context": {"quire.expected_version": "7"}}},
            spec.ConcurrentModificationError,
        ),
    ],
)
def test_one_bad_operation_undoes_the_batch(
    lake: quire.Lake, namespace: Namespace, bad: dict[str, Any], kind: type[Exception]
) -> None:
    [version] = kept(namespace, "docs")
    operations = [
        spec.CommitTableOperation(create_table_version=version),
        spec.CommitTableOperation.model_validate(bad),
    ]
    with pytest.raises(kind):
        namespace.batch_commit_tables(spec.BatchCommitTablesRequest(operations=operations))
    assert lake.refresh() == "1.0"
    assert ids(lake) == [0, 1, 2, 3]


def test_batch_create_answers_every_version(lake: quire.Lake, namespace: Namespace) -> None:
    entries = [
        spec.CreateTableVersionEntry.model_validate(v.model_dump(exclude={"identity", "context"}))
        for v in kept(namespace, "docs", "people")
    ]
    done = namespace.batch_create_table_versions(spec.BatchCreateTableVersionsRequest(entries=entries))
    assert [v.version for v in done.versions] == [2, 2]
    assert all(v.manifest_path.endswith(".manifest") for v in done.versions)
    assert done.transaction_id == lake.refresh() == "2.0"
    with pytest.raises(spec.ConcurrentModificationError):
        namespace.batch_create_table_versions(spec.BatchCreateTableVersionsRequest(entries=entries))
    sound(lake)
