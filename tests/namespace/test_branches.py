"""A branch by its address: clients that know no branches write to it, and main stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lance
import lance_namespace as spec
import lancedb
import pyarrow as pa
import pytest
from tests.namespace.conftest import docs, ids, opened
from tests.namespace.serving import served

import quire
from quire.lance import Batch, Namespace


@pytest.fixture
def trial(lake: quire.Lake) -> quire.Lake:
    lake.create_branch("trial/one")
    return lake.branch("trial/one")


@pytest.fixture(params=["class", "http"])
def view(request: pytest.FixtureRequest, lake: quire.Lake, trial: quire.Lake) -> Iterator[Any]:
    if request.param == "class":
        yield Namespace(lake).branch("trial/one")
        return
    with served(lake) as web:
        yield spec.connect("rest", {"uri": f"{web.url}/lance/demo/branch/trial%2Fone"})


def agree(lake: quire.Lake, trial: quire.Lake) -> None:
    lake.refresh()
    trial.refresh()
    lake.backfill()
    assert ids(lake) == [0, 1, 2, 3]
    assert lake.head == "1.0"
    assert lake.verify(deep=True).findings == []


def test_every_verb_is_a_commit_on_the_branch(view: Any, lake: quire.Lake, trial: quire.Lake) -> None:
    dataset = opened(view)
    dataset.insert(docs(10))
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9))
    dataset.update({"text": "'changed'"}, where="id = 0")
    dataset.delete("id = 1")
    dataset.create_scalar_index("id", "BTREE")
    dataset.add_columns({"twice": "id * 2"})
    trial.refresh()
    assert ids(trial) == [0, 2, 3, 9, 10]
    assert trial.head == "7.0"
    assert [r["twice"] for r in trial["docs"].to_arrow().to_pylist() if r["id"] == 9] == [18]
    assert opened(view).to_table().num_rows == 5
    agree(lake, trial)


@pytest.mark.slow
def test_a_handle_that_others_have_overtaken_is_stopped(lake: quire.Lake, trial: quire.Lake) -> None:
    """Lance looks for what came between in the plain line alone: it gives up, and nothing is lost."""
    view = Namespace(lake).branch("trial/one")
    stale = opened(view)
    opened(view).delete("id = 0")
    with trial.transaction(fresh=True) as tx:
        tx["docs"].append(docs(20))
    with pytest.raises(OSError, match="[Cc]onflict|concurrent"):
        stale.delete("id = 1")
    opened(view).delete("id = 1")
    trial.refresh()
    assert ids(trial) == [2, 3, 20]
    agree(lake, trial)


def test_a_table_that_a_client_makes(view: Any, lake: quire.Lake, trial: quire.Lake) -> None:
    made = lance.write_dataset(docs(1), namespace_client=view, table_id=["made"])
    made.insert(docs(2))
    opened(view, "made").insert(docs(3))
    made.checkout_version(made.latest_version).insert(docs(4))
    trial.refresh()
    assert ids(trial, "made") == [1, 2, 3, 4]
    agree(lake, trial)
    assert "made" not in lake
    lake.merge("trial/one")
    lake.backfill()
    assert opened(Namespace(lake), "made").count_rows() == 4
    assert lake.verify(deep=True).findings == []


def test_old_states_have_their_numbers(view: Any, lake: quire.Lake, trial: quire.Lake) -> None:
    dataset = opened(view)
    before = dataset.version
    dataset.insert(docs(10))
    assert opened(view, version=before).count_rows() == 4
    assert opened(view, version=dataset.version).count_rows() == 5
    with pytest.raises(Exception, match="no version|not found"):
        opened(view, version=dataset.version + 5)


def test_lancedb_and_rows_through_the_server(lake: quire.Lake, trial: quire.Lake) -> None:
    with served(lake) as web:
        uri = f"{web.url}/lance/demo/branch/trial%2Fone"
        db = lancedb.connect_namespace("rest", {"uri": uri})
        db.open_table("docs").add(docs(30))
        remote = lancedb.connect("db://demo", api_key="any", host_override=uri)
        remote.open_table("docs").add(docs(31))
        assert remote.open_table("docs").count_rows() == 6
        web("POST", "/lance/demo/branch/none/v1/table/docs/describe", {}, status=404)
    trial.refresh()
    assert ids(trial) == [0, 1, 2, 3, 30, 31]
    agree(lake, trial)


def test_a_batch_on_a_branch(lake: quire.Lake, trial: quire.Lake) -> None:
    view = Namespace(lake).branch("trial/one")
    with Batch(view) as batch:
        opened(batch).insert(docs(40))
        opened(batch, "people").insert(pa.table({"id": [40], "name": ["forty"]}))
    trial.refresh()
    assert set(trial.show(trial.head).tables) == {"docs", "people"}
    agree(lake, trial)


def test_a_lost_answer_is_found_out_on_a_branch(lake: quire.Lake, trial: quire.Lake) -> None:
    from quire.lance.branches import BranchNamespace

    class Lossy(BranchNamespace):
        lost = 1

        def create_table_version(self, request: Any) -> Any:
            made = super().create_table_version(request)
            if self.lost:
                self.lost -= 1
                raise spec.ServiceUnavailableError("the answer was lost")
            return made

    dataset = opened(Lossy(trial))
    dataset.insert(docs(10))
    dataset.insert(docs(11))
    trial.refresh()
    assert ids(trial) == [0, 1, 2, 3, 10, 11]
    assert trial.head == "3.0"
    agree(lake, trial)
