"""What a server tells, as the library's own classes: values of JSON become those of their columns again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from quire.lake.branch.requests import MergeRequest, Review
from quire.lake.branch.tags import TagInfo, restored
from quire.lake.commit.preconditions import TableVersion
from quire.lake.feed.consumers import ConsumerInfo
from quire.lake.read.row_history import RowVersion
from quire.lake.receipt import CommitInfo, Receipt, TableReceipt
from quire.ledger import Point
from quire.rowfiles import json_values

if TYPE_CHECKING:
    import pyarrow as pa


def receipt_of(told: dict[str, Any]) -> Receipt:
    """A receipt from what the server says."""
    return Receipt(
        told["commit"],
        told["branch"],
        time=datetime.fromisoformat(told["time"]) if told["time"] else None,
        tables=table_receipts(told["tables"]),
        attempts=told["attempts"],
        rebased=told["rebased"],
        replayed=told["replayed"],
        repeated=told["repeated"],
        adopted=told["adopted"],
        outcome=told.get("outcome"),
        cost=told["cost"],
    )


def table_receipts(told: dict[str, Any]) -> dict[str, TableReceipt]:
    """What a commit did to its tables."""
    return {
        name: TableReceipt(
            None if one["version"] is None else TableVersion(one["version"]),
            tuple(one["ops"]),
            one["added"],
            one["removed"],
        )
        for name, one in told.items()
    }


def commit_of(told: dict[str, Any]) -> CommitInfo:
    """An entry of the log."""
    places: dict[str, Any] = {}
    if "point" in told:
        places = {"point": Point(**told["point"]), "kept": tuple(Point(**one) for one in told["kept"])}
    return CommitInfo(
        id=told["id"],
        branch=told["branch"],
        parents=tuple(told["parents"]),
        author=told["author"],
        message=told["message"],
        time=datetime.fromisoformat(told["time"]),
        tables=table_receipts(told["tables"]),
        write=told["write"],
        token=told["token"],
        reverts=told["reverts"],
        cost=told["cost"],
        metadata=told["metadata"],
        adopts=told["adopts"],
        **places,
    )


def tag_of(told: dict[str, Any]) -> TagInfo:
    """A tag in a listing."""
    return restored(told["commit"], told["message"], told["author"], datetime.fromisoformat(told["time"]))


def request_of(told: dict[str, Any]) -> MergeRequest:
    """A merge request."""
    times = {name: datetime.fromisoformat(told[name]) for name in ("time", "changed")}
    reviews = tuple(Review(**{**one, "time": datetime.fromisoformat(one["time"])}) for one in told["reviews"])
    return MergeRequest(**{**told, **times, "reviews": reviews, "resolutions": tuple(told["resolutions"])})


def consumer_of(told: dict[str, Any]) -> ConsumerInfo:
    """A consumer in a listing."""
    return ConsumerInfo(**{**told, "changed": datetime.fromisoformat(told["changed"])})


def version_of(told: dict[str, Any], schema: pa.Schema | None) -> RowVersion:
    """A version of a row."""
    row = told["row"] if told["row"] is None else typed(told["row"], schema)
    time = datetime.fromisoformat(told["time"])
    return RowVersion(**{**told, "time": time, "row": row, "columns": tuple(told["columns"])})


def typed(row: Mapping[str, Any], schema: pa.Schema | None) -> dict[str, Any]:
    """Values of JSON as those of their columns."""
    if schema is None:
        return dict(row)
    kinds = {field.name: field.type for field in schema if not hasattr(field.type, "extension_name")}
    return {
        name: value if value is None or name not in kinds else json_values.column([value], kinds[name], name)[0].as_py()
        for name, value in row.items()
    }
