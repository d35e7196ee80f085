"""Indexes, staged like data: built on a staged version, published with the commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import AlreadyExists, InvalidInput, NotFound
from quire.formats.lance.columns import require
from quire.formats.lance.net import Stager
from quire.formats.lance.rebase import files
from quire.formats.lance.session import first_line
from quire.formats.protocol import IndexSpec

if TYPE_CHECKING:
    from lance import LanceDataset

SCALAR = ("BTREE", "BITMAP", "LABEL_LIST", "INVERTED", "NGRAM", "ZONEMAP")
VECTOR = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
ALIASES = {"FTS": "INVERTED", "TEXT": "INVERTED", "VECTOR": "IVF_PQ"}
KINDS = (*SCALAR, *VECTOR)


def normalise(kind: str) -> str:
    upper = kind.upper()
    upper = ALIASES.get(upper, upper)
    if upper not in KINDS:
        raise InvalidInput(f"There is no index kind {kind!r}.", next=f"Use one of {', '.join(KINDS)}.", kind_given=kind)
    return upper


OPTIONS: dict[str, tuple[str, ...]] = {
    "vector": (
        *("metric", "num_partitions", "num_sub_vectors", "num_bits", "sample_rate", "max_iterations", "max_iters"),
        *("m", "ef_construction", "target_partition_size", "ivf_centroids", "pq_codebook", "accelerator"),
    ),
    "INVERTED": (
        *("with_position", "base_tokenizer", "language", "max_token_length", "lower_case", "stem", "prefix_only"),
        *("remove_stop_words", "custom_stop_words", "ascii_folding", "min_ngram_length", "max_ngram_length"),
    ),
    "ZONEMAP": ("rows_per_zone",),
}
"""What Lance understands. It ignores other names without a word, and so a typo."""


def _check_options(spec: IndexSpec) -> None:
    known = OPTIONS.get("vector" if spec.kind in VECTOR else spec.kind, ())
    for name in spec.options:
        if name not in known:
            raise InvalidInput(
                f"A {spec.kind} index has no option {name!r}.",
                next=f"It takes {', '.join(known)}." if known else "It takes none.",
                option=name,
            )


def check_vector(field: Any, table: str) -> None:
    """Refuse a column that holds lists of any length where a vector is needed, and say how to make it one."""
    kind = field.type
    if getattr(kind, "list_size", None) is not None:
        return
    advice = "A vector column is a fixed-size list of floats."
    if hasattr(kind, "value_type"):
        advice += f' Make it one with alter_column("{field.name}", type=pa.list_(pa.float32(), N)), N being its length.'
    raise InvalidInput(
        f"Column {field.name!r} of table {table!r} is {kind}, not a vector.",
        next=advice,
        table=table,
        column=field.name,
    )


@dataclass
class Built:
    """An index that was built, and the data files it covers, to see whether it still fits a newer base."""

    index: Any
    covers: dict[int, tuple[str, ...]]


@dataclass
class Indexes:
    """The index statements of one transaction on one table. They apply to the final rows, whatever their order."""

    wanted: dict[str, IndexSpec] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    built: dict[str, Built] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return bool(self.wanted or self.dropped)

    def want(self, handle: LanceDataset, spec: IndexSpec, *, replace: bool, table: str) -> None:
        require(handle, [spec.column], table)
        _check_options(spec)
        if spec.kind in VECTOR:
            check_vector(handle.schema.field(spec.column), table)
        stored = _named(handle, spec.name) is not None and spec.name not in self.dropped
        if not replace and (spec.name in self.wanted or stored):
            raise AlreadyExists(
                f"Table {table!r} already has an index {spec.name!r}.",
                next="Give another name, or replace=True (`--replace`) to build it anew.",
                table=table,
                index=spec.name,
            )
        self.wanted[spec.name] = spec
        self.built.pop(spec.name, None)

    def drop(self, handle: LanceDataset, name: str, *, table: str) -> None:
        wanted = self.wanted.pop(name, None)
        stored = _named(handle, name)
        if stored is not None:
            self.dropped.add(name)
        elif wanted is None:
            raise NotFound(
                f"Table {table!r} has no index {name!r}.",
                next="`quire table describe` lists its indexes.",
                table=table,
                index=name,
            )

    def apply(self, stager: Stager, handle: LanceDataset, table: str) -> LanceDataset:
        """Stage the index changes on top of a staged version."""
        from lance import LanceOperation as Op

        gone = [ix for name in self.dropped for ix in _stored(handle, name)]
        if gone:
            handle = stager.detach(handle, Op.CreateIndex([], gone))
        for spec in self.wanted.values():
            old = _stored(handle, spec.name)
            index = self._fitting(handle, spec) or self._build(stager, handle, spec, table)
            handle = stager.detach(handle, Op.CreateIndex([index], old))
        return handle

    def _fitting(self, handle: LanceDataset, spec: IndexSpec) -> Any | None:
        """An index built earlier in this transaction, if every fragment it covers is still there with the same data.

        Rows deleted since do not matter: a query removes them by the deletion vector.
        """
        built = self.built.get(spec.name)
        if built is None:
            return None
        now = {int(f.fragment_id): files(f) for f in handle.get_fragments()}
        return built.index if all(now.get(n) == paths for n, paths in built.covers.items()) else None

    def _build(self, stager: Stager, handle: LanceDataset, spec: IndexSpec, table: str) -> Any:
        fragments = {int(f.fragment_id): files(f) for f in handle.get_fragments()}
        options = dict(spec.options)
        if spec.kind in VECTOR:
            options.setdefault("num_partitions", max(1, min(256, handle.count_rows() // 4096)))
            if spec.kind == "IVF_PQ":
                width = getattr(handle.schema.field(spec.column).type, "list_size", 1)
                options.setdefault("num_sub_vectors", next(n for n in (16, 8, 4, 2, 1) if width % n == 0))

        own = stager.session.private(stager.location, handle.version)

        def build() -> Any:
            index = own.create_index_uncommitted(
                spec.column, spec.kind, name=spec.name, replace=True, fragment_ids=list(fragments), **options
            )
            return own.merge_existing_index_segments([index]) if spec.kind == "INVERTED" else index

        index = stager.session.call(
            "index", _refusing(build, spec, table), hops=2, what=f"index {spec.name} of {table}"
        )
        stager.files.append(f"_indices/{index.uuid}/")
        self.built[spec.name] = Built(index, fragments)
        return index


def describe(handle: LanceDataset) -> list[dict[str, Any]]:
    """Indexes for people and programs: name, kind, columns, and how many rows are covered."""
    rows = handle.count_rows()
    return [
        {
            "name": d.name,
            "kind": d.index_type if hasattr(d, "index_type") else d.type_url,
            "columns": list(d.field_names),
            "rows_indexed": int(d.num_rows_indexed),
            "rows_unindexed": max(0, rows - int(d.num_rows_indexed)),
        }
        for d in _described(handle)
    ]


def _refusing(build: Callable[[], Any], spec: IndexSpec, table: str) -> Callable[[], Any]:
    def run() -> Any:
        try:
            return build()
        except (ValueError, TypeError, NotImplementedError, KeyError) as error:
            raise InvalidInput(
                f"Cannot build a {spec.kind} index on column {spec.column!r} of table {table!r}: {first_line(error)}.",
                next="Check the column's type, the number of rows and the options.",
                table=table,
                column=spec.column,
            ) from None

    return run


def _named(handle: LanceDataset, name: str) -> Any | None:
    return next((ix for ix in _described(handle) if ix.name == name), None)


def _described(handle: LanceDataset) -> list[Any]:
    return list(handle.describe_indices()) if handle.has_index else []


def segments(handle: LanceDataset) -> list[str]:
    """Ids of everything stored for the table's indexes; each has a folder of its own."""
    return [str(segment.uuid) for index in _described(handle) for segment in index.segments]


def _stored(handle: LanceDataset, name: str) -> list[Any]:
    """The stored segments of an index, as an operation wants them to remove."""
    from lance.dataset import Index

    found = _named(handle, name)
    if found is None:
        return []
    return [
        Index(
            uuid=segment.uuid,
            name=name,
            fields=list(found.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )
        for segment in found.segments
    ]
