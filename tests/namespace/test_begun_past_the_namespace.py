"""Clients that declare a table and write its first version by themselves, such as Spark's `CREATE TABLE`."""

from __future__ import annotations

from pathlib import Path

import lance
import lance_namespace as spec
import pytest
from tests.namespace.conftest import docs, ids, opened, sound

import quire
from quire.lance import Batch, Namespace


def begun(namespace: Namespace, name: str = "begun", **properties: str) -> str:
    """A table that is declared, and whose folder holds a version that no namespace was asked for."""
    declared = namespace.declare_table(spec.DeclareTableRequest(id=[name], properties=properties))
    lance.write_dataset(docs(1, 2), str(declared.location))
    return str(declared.location)


def test_the_table_is_there_with_what_is_written_next(lake: quire.Lake, namespace: Namespace) -> None:
    begun(namespace)
    dataset = opened(namespace, "begun")
    assert dataset.count_rows() == 2
    dataset.insert(docs(3))
    assert ids(lake, "begun") == [1, 2, 3]
    assert [commit.message for commit in list(lake.log())[:2]] == [
        "append begun (Lance client)",
        "create begun (Lance client)",
    ]
    assert opened(namespace, "begun", version=1).count_rows() == 2
    assert namespace.list_tables(spec.ListTablesRequest(id=[])).tables == ["begun", "docs", "people"]
    opened(namespace, "begun").delete("id = 1")
    with lake.transaction() as tx:
        tx["begun"].append(docs(4))
    lake.cleanup(keep=1, older_than=0, grace=0)
    assert ids(lake, "begun") == [2, 3, 4]
    assert lake.foreign() == []
    sound(lake)


def test_only_what_follows_what_lies_there(lake: quire.Lake, namespace: Namespace) -> None:
    """A version that was made on something else makes no table."""
    location = begun(namespace)
    dataset = opened(namespace, "begun")
    lance.write_dataset(docs(9), location, mode="append")
    head = lake.refresh()
    name = f"{2**64 - 1 - 2:020}.manifest"  # of version 2, which is there and is not the client's
    staged = Path(location, "_versions", f"{name}-0123456789abcdef")
    staged.write_bytes(Path(location, "_versions", name).read_bytes())
    with pytest.raises(spec.ConcurrentModificationError):
        namespace.create_table_version(
            spec.CreateTableVersionRequest(id=["begun"], version=2, manifest_path=str(staged).strip("/"))
        )
    assert lake.refresh() == head
    dataset.insert(docs(3))  # looks again, and follows
    assert ids(lake, "begun") == [1, 2, 3, 9]
    sound(lake)


def test_rows_that_break_the_key_make_no_table(lake: quire.Lake, namespace: Namespace) -> None:
    location = begun(namespace, **{"quire.key": "id"})
    lance.write_dataset(docs(1), location, mode="append")
    head = lake.refresh()
    with pytest.raises(OSError, match="unknown|result"):
        opened(namespace, "begun").insert(docs(3))
    assert lake.refresh() == head
    assert "begun" not in lake


def test_settings_that_delete_versions_are_taken_away(lake: quire.Lake, namespace: Namespace) -> None:
    """Older clients give every table settings by which it deletes its own versions."""
    location = begun(namespace)
    lance.dataset(location).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    opened(namespace, "begun").insert(docs(3))
    assert ids(lake, "begun") == [1, 2, 3]
    assert lance.dataset(location).config() == {}
    assert opened(namespace, "begun", version=1).count_rows() == 2
    sound(lake)


def test_not_in_a_batch(lake: quire.Lake, namespace: Namespace) -> None:
    """A batch is one commit or nothing."""
    begun(namespace)
    head = lake.refresh()
    with pytest.raises(spec.ConcurrentModificationError):
        _both(namespace)
    assert lake.refresh() == head
    assert ids(lake) == [0, 1, 2, 3]


def _both(namespace: Namespace) -> None:
    with Batch(namespace) as batch:
        opened(batch, "begun").insert(docs(3))
        opened(batch).insert(docs(10))
