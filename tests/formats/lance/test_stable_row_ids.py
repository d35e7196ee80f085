"""Tables with Lance's stable row ids: an option whose rows must be as right as without it."""

from __future__ import annotations

from pathlib import Path

import lance

import quire


def test_interleaved_writers_an_index_and_backfill_agree_with_a_model(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    lake = quire.create(uri, backfill=False)
    with lake.transaction() as tx:
        tx.create_table("t", [{"id": i, "v": i * 10} for i in range(20)], key="id", stable_row_ids=True)
        tx["t"].create_index("v")
    other = quire.open(uri, backfill=False)
    model = {i: i * 10 for i in range(20)}

    for step in range(4):
        mine = lake.transaction()
        mine["t"].upsert([{"id": step, "v": 1000 + step}, {"id": 100 + step, "v": step}])
        with other.transaction() as tx:
            tx["t"].update({"v": "v + 1"}, where=f"id = {10 + step}")
        with other.transaction() as tx:
            tx["t"].delete(f"id = {19 - step}")
        mine.commit()
        model |= {step: 1000 + step, 100 + step: step, 10 + step: model[10 + step] + 1}
        del model[19 - step]

        table = lake.snapshot()["t"]
        assert {r["id"]: r["v"] for r in table.to_pylist()} == model
        assert table.count() == len(model)
        for value in set(model.values()):
            found = {r["id"] for r in table.scan(filter=f"v = {value}").to_pylist()}
            assert found == {k for k, v in model.items() if v == value}

    lake.backfill()
    plain = lance.dataset(f"{uri}/{lake['t'].describe()['location']}")
    seen = plain.scanner(columns=["id"], with_row_id=True).to_table()
    assert plain.has_stable_row_ids
    assert sorted(seen["id"].to_pylist()) == sorted(model)
    assert len(set(seen["_rowid"].to_pylist())) == len(model)
