"""Unmodified pylance handles write versions of tables: each is a commit, and lies in the plain line as they made it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import pyarrow as pa
import pytest
from lance_namespace.errors import LanceNamespaceError
from tests.namespace.conftest import docs, ids, opened, sound

import quire
from quire.lance import Batch, Namespace

WRITES: dict[str, tuple[Callable[[Any], Any], str, list[int]]] = {
    "append": (lambda d: d.insert(docs(10, 11)), "append", [0, 1, 2, 3, 10, 11]),
    "delete": (lambda d: d.delete("id < 2"), "delete", [2, 3]),
    "update": (lambda d: d.update({"text": "'changed'"}, where="id = 1"), "update", [0, 1, 2, 3]),
    "merge": (
        lambda d: d.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9)),
        "update",
        [0, 1, 2, 3, 9],
    ),
    "index": (lambda d: d.create_scalar_index("id", "BTREE"), "index", [0, 1, 2, 3]),
    "add a column": (lambda d: d.add_columns({"twice": "id * 2"}), "schema", [0, 1, 2, 3]),
    "rename a column": (lambda d: d.alter_columns({"path": "text", "name": "body"}), "schema", [0, 1, 2, 3]),
    "drop a column": (lambda d: d.drop_columns(["text"]), "schema", [0, 1, 2, 3]),
    "settings": (lambda d: d.update_config({"owner": "ada"}), "schema", [0, 1, 2, 3]),
}


@pytest.mark.parametrize("what", WRITES)
def test_what_a_client_writes_is_a_commit(lake: quire.Lake, namespace: Namespace, what: str) -> None:
    write, op, expected = WRITES[what]
    dataset = opened(namespace)

    write(dataset)

    assert dataset.version == 2
    assert ids(lake) == expected
    entry = lake.show(lake.refresh())
    assert entry.tables["docs"].ops == (op,)
    assert opened(namespace).version == 2
    sound(lake)


@pytest.mark.parametrize("what", ["append", "delete", "update", "merge"])
def test_a_stale_handle_follows_a_commit_of_quire(lake: quire.Lake, namespace: Namespace, what: str) -> None:
    write, _, expected = WRITES[what]
    dataset = opened(namespace)
    with lake.transaction() as tx:
        tx["docs"].append(docs(50))

    write(dataset)

    assert ids(lake) == sorted([*expected, 50])
    sound(lake)


def test_commits_of_quire_and_clients_take_turns(lake: quire.Lake, namespace: Namespace) -> None:
    dataset = opened(namespace)
    for number in range(100, 104):
        dataset.insert(docs(number))
        with lake.transaction() as tx:
            tx["docs"].append(docs(-number))
    dataset.delete("id < -101")  # of the rows that the handle has seen: it did not see the last one

    assert ids(lake) == [-103, -101, -100, 0, 1, 2, 3, 100, 101, 102, 103]
    assert len(opened(namespace).versions()) == 10
    sound(lake)


def test_versions_are_described_and_listed_as_they_lie(lake: quire.Lake, namespace: Namespace) -> None:
    opened(namespace).insert(docs(7))
    newest = namespace.list_table_versions(spec.ListTableVersionsRequest(id=["docs"], limit=1, descending=True))
    [version] = newest.versions
    assert version.version == 2
    assert version.metadata == {"quire.commit": "2.0", "quire.version": "2"}
    assert f"/{version.manifest_path}".startswith(str(lake.uri))
    assert Path(f"/{version.manifest_path}").stat().st_size == version.manifest_size
    every = namespace.list_table_versions(spec.ListTableVersionsRequest(id=["docs"]))
    assert [v.version for v in every.versions] == [1, 2]
    first = namespace.list_table_versions(spec.ListTableVersionsRequest(id=["docs"], limit=1))
    assert [v.version for v in first.versions] == [1]
    found = namespace.describe_table_version(spec.DescribeTableVersionRequest(id=["docs"], version=1))
    assert found.version.version == 1
    with pytest.raises(spec.TableVersionNotFoundError, match="has no version 3"):
        namespace.describe_table_version(spec.DescribeTableVersionRequest(id=["docs"], version=3))


def test_an_old_version_is_read_and_restored(lake: quire.Lake, namespace: Namespace) -> None:
    opened(namespace).insert(docs(7))
    old = opened(namespace, version=1)
    assert old.count_rows() == 4
    old.restore()
    assert ids(lake) == [0, 1, 2, 3]
    assert lake.head == "3.0"
    sound(lake)


def test_a_client_overwrites_a_table(lake: quire.Lake, namespace: Namespace) -> None:
    lance.write_dataset(docs(1), namespace_client=namespace, table_id=["docs"], mode="overwrite")
    assert ids(lake) == [1]
    assert lake.show(lake.refresh()).tables["docs"].ops == ("overwrite",)
    sound(lake)


def test_a_client_creates_a_table(lake: quire.Lake, namespace: Namespace) -> None:
    made = lance.write_dataset(docs(1, 2), namespace_client=namespace, table_id=["made"])
    assert made.version == 1
    made.insert(docs(3))
    assert ids(lake, "made") == [1, 2, 3]
    assert lake["made"].version == 2
    with pytest.raises(Exception, match="exists, or is declared"):
        lance.write_dataset(docs(1), namespace_client=namespace, table_id=["made"])
    sound(lake)


def test_a_commit_message_of_a_client_is_that_of_the_commit(lake: quire.Lake, namespace: Namespace) -> None:
    lance.write_dataset(docs(8), opened(namespace), mode="append", commit_message="from a client")
    assert lake.show(lake.refresh()).message == "from a client"


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_client_does_not_compact(lake: quire.Lake, namespace: Namespace) -> None:
    dataset = opened(namespace)
    dataset.insert(docs(7))
    head = lake.refresh()
    with pytest.raises(Exception):
        dataset.optimize.compact_files()
    assert lake.refresh() == head
    sound(lake)


def test_a_client_that_breaks_a_key_is_refused(lake: quire.Lake, namespace: Namespace) -> None:
    people = opened(namespace, "people")
    head = lake.refresh()
    with pytest.raises(Exception):
        people.insert(pa.table({"id": [2], "name": ["twice"]}))
    assert lake.refresh() == head
    opened(namespace, "people").insert(pa.table({"id": [9], "name": ["once"]}))
    with pytest.raises(quire.KeyConflict), lake.transaction() as tx:
        tx["people"].insert([{"id": 9, "name": "again"}])
    sound(lake)


def test_a_branch_of_one_table_does_not_exist(namespace: Namespace) -> None:
    with pytest.raises(spec.TableBranchNotFoundError, match="Branches of a lake hold all its tables"):
        namespace.describe_table(spec.DescribeTableRequest(id=["docs"], branch="exp"))


def staged(lake: quire.Lake, namespace: Namespace, write: Callable[[Any], Any]) -> spec.CreateTableVersionRequest:
    """What a client asks for, caught before it is asked."""
    kept: list[Any] = []

    class Watched(Namespace):
        def create_table_version(self, request: Any) -> Any:
            kept.append(request)
            raise spec.ServiceUnavailableError("not now")

    with pytest.raises(Exception):
        write(opened(Watched(lake)))
    return spec.CreateTableVersionRequest.model_validate(kept[0].model_dump())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 9}, "is of version 2, not 9"),
        ({"manifest_size": 3}, "bytes instead of 3"),
        ({"naming_scheme": "V1"}, "no staged manifests"),
        ({"manifest_path": "etc/passwd"}, "is not a file of the table"),
        (
            {"manifest_path": "{folder}/_versions/18446744073709551613.manifest"},
            "not a manifest that a client has staged",
        ),
        (
            {"manifest_path": "{folder}/_versions/../../../_quire/format.json"},
            "not a manifest that a client has staged",
        ),
        ({"manifest_path": "{folder}/_versions/18446744073709551613.manifest-00000000"}, "there is no such file"),
    ],
)
def test_a_request_that_no_client_makes_is_refused(
    lake: quire.Lake, namespace: Namespace, change: dict[str, Any], said: str
) -> None:
    request = staged(lake, namespace, lambda d: d.insert(docs(7)))
    folder = request.manifest_path.partition("/_versions/")[0]
    change = {k: v.format(folder=folder) if isinstance(v, str) else v for k, v in change.items()}
    with pytest.raises(spec.InvalidInputError, match=said.replace("(", "\\(")):
        namespace.create_table_version(request.model_copy(update=change))
    assert ids(lake) == [0, 1, 2, 3]


def test_a_version_on_top_of_what_was_never_the_newest_state_is_refused(
    lake: quire.Lake, namespace: Namespace, tmp_path: Path
) -> None:
    """It has the right number and would take the rows of a commit away that it never saw."""
    opened(namespace).insert(docs(7))
    request = staged(lake, namespace, lambda d: d.insert(docs(8)))
    with lake.transaction() as tx:
        tx["docs"].append(docs(50))
    lake.backfill()
    # Another client of the same number, whose table never had the commit.
    table = Path(f"/{request.manifest_path}").parent.parent
    forged = Path(f"/{request.manifest_path}").with_name(
        f"{2**64 - 1 - 4:020d}.manifest-{request.manifest_path.rpartition('manifest-')[2]}"
    )
    from quire.formats.lance.manifest_bytes import renumbered

    forged.write_bytes(renumbered(Path(f"/{request.manifest_path}").read_bytes(), 4))
    path = str(forged).lstrip("/")
    assert table.is_dir()
    with pytest.raises(spec.ConcurrentModificationError, match="has seen another state"):
        namespace.create_table_version(
            request.model_copy(update={"version": 4, "manifest_path": path, "manifest_size": None})
        )
    assert ids(lake) == [0, 1, 2, 3, 7, 50]


def test_the_same_transaction_is_committed_once(lake: quire.Lake, namespace: Namespace) -> None:
    """An older client tries the next number when it heard nothing, with the same transaction."""
    request = staged(lake, namespace, lambda d: d.insert(docs(7)))
    namespace.create_table_version(request)
    again = Path(f"/{request.manifest_path}")
    from quire.formats.lance.manifest_bytes import renumbered

    newer = again.with_name(f"{2**64 - 1 - 3:020d}.{again.name.partition('.')[2]}")
    newer.write_bytes(renumbered(again.read_bytes(), 3))
    body = {"version": 3, "manifest_path": str(newer).lstrip("/"), "manifest_size": None}
    for asked in (request, request.model_copy(update=body)):
        with pytest.raises(spec.ConcurrentModificationError):
            namespace.create_table_version(asked)
    assert ids(lake) == [0, 1, 2, 3, 7]


def test_a_conflict_tells_table_and_versions(lake: quire.Lake, namespace: Namespace) -> None:
    request = staged(lake, namespace, lambda d: d.insert(docs(7)))
    opened(namespace).insert(docs(8))
    with pytest.raises(LanceNamespaceError) as caught:
        namespace.create_table_version(request)
    assert int(caught.value.code) == 14
    import json

    told = json.loads(str(caught.value))
    assert (told["table"], told["expected"], told["actual"]) == (["docs"], 1, 2)


def test_a_version_whose_data_is_gone_is_refused(lake: quire.Lake, namespace: Namespace) -> None:
    request = staged(lake, namespace, lambda d: d.insert(docs(7)))
    table = Path(f"/{request.manifest_path}").parent.parent
    newest = max((table / "data").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    newest.unlink()
    with pytest.raises(spec.ConcurrentModificationError, match="is not in the store"):
        namespace.create_table_version(request)
    assert ids(lake) == [0, 1, 2, 3]


def test_a_write_past_the_lake_is_adopted_before_clients_go_on(lake: quire.Lake, namespace: Namespace) -> None:
    dataset = opened(namespace)
    dataset.insert(docs(7))
    lance.write_dataset(docs(8), dataset.uri, mode="append")  # knows no namespace
    with pytest.raises(ValueError, match="quire adopt"):
        opened(namespace)
    lake.adopt("docs")
    opened(namespace).insert(docs(9))
    assert ids(lake) == [0, 1, 2, 3, 7, 8, 9]
    sound(lake)


def test_a_read_only_lake_is_read(lake: quire.Lake, namespace: Namespace) -> None:
    opened(namespace).insert(docs(7))
    with quire.open(lake.uri, read_only=True) as same:
        dataset = opened(Namespace(same))
        assert dataset.count_rows() == 5
        with pytest.raises(Exception):
            dataset.insert(docs(8))
    assert ids(lake) == [0, 1, 2, 3, 7]


@pytest.mark.s3
def test_clients_write_tables_in_a_bucket(s3: Any) -> None:
    uri = s3.uri(uuid.uuid4().hex)
    with quire.create(uri, storage_options=s3.options) as lake:
        lake.create_table("docs", [{"id": n, "text": f"text {n}"} for n in range(4)])
        namespace = Namespace(lake)
        dataset = opened(namespace)
        dataset.insert(docs(10))
        with lake.transaction() as tx:
            tx["docs"].append(docs(50))
        dataset.delete("id = 0")
        made = lance.write_dataset(docs(1), namespace_client=namespace, table_id=["made"])
        made.insert(docs(2))
        with Batch(namespace) as batch:
            opened(batch).insert(docs(11))
            opened(batch, "made").insert(docs(3))
        assert (ids(lake), ids(lake, "made")) == ([1, 2, 3, 10, 11, 50], [1, 2, 3])
        assert lance.dataset(dataset.uri, storage_options=s3.options).count_rows() == 6
        lake.backfill()
        assert lake.verify(deep=True).findings == []
