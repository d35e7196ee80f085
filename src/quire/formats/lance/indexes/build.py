"""Indexes, staged like data: built on a staged version, published with the commit."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import AlreadyExists, InvalidInput, NotFound
from quire.formats import IndexSpec, Run
from quire.formats.lance.indexes.carried import Segments
from quire.formats.lance.metering import Scan, metered
from quire.formats.lance.session import described, first_line, translating
from quire.formats.lance.staging.rebase import files
from quire.formats.lance.staging.schema_change import require
from quire.formats.lance.staging.stager import Stager
from quire.formats.query_vectors import check_vector

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


_IVF = (
    *("metric", "num_partitions", "target_partition_size", "sample_rate", "max_iters", "ivf_centroids"),
    "accelerator",
)
_PQ = ("num_sub_vectors", "num_bits", "pq_codebook")
_SQ = ("num_bits",)
_HNSW = ("m", "ef_construction", "max_level")

OPTIONS: dict[str, tuple[str, ...]] = {
    "IVF_FLAT": _IVF,
    "IVF_PQ": (*_IVF, *_PQ),
    "IVF_SQ": (*_IVF, *_SQ),
    "IVF_HNSW_FLAT": (*_IVF, *_HNSW),
    "IVF_HNSW_PQ": (*_IVF, *_PQ, *_HNSW),
    "IVF_HNSW_SQ": (*_IVF, *_SQ, *_HNSW),
    "INVERTED": (
        *("with_position", "base_tokenizer", "language", "max_token_length", "lower_case", "stem", "prefix_only"),
        *("remove_stop_words", "custom_stop_words", "ascii_folding", "min_ngram_length", "max_ngram_length"),
    ),
    "ZONEMAP": ("rows_per_zone",),
}
"""The options that each kind uses; a kind that is not here has none. Lance ignores every other without a word."""


def _check_options(spec: IndexSpec) -> None:
    known = OPTIONS.get(spec.kind, ())
    for name in spec.options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            takes = f"It takes {', '.join(known)}." if known else "It takes none."
            raise InvalidInput(
                f"A {spec.kind} index has no option {name!r}.",
                next=f"Did you mean {near[0]!r}? {takes}" if near else takes,
                option=name,
                index_kind=spec.kind,
                options=known,
            )
        _check_count(spec, name)


_COUNTS = frozenset(
    {
        *("num_partitions", "target_partition_size", "sample_rate", "max_iters", "num_sub_vectors", "num_bits", "m"),
        *("ef_construction", "max_level", "max_token_length", "min_ngram_length", "max_ngram_length", "rows_per_zone"),
    }
)
MOST = 2**31 - 1


def _check_count(spec: IndexSpec, name: str) -> None:
    """Refuse an option that counts something and is no such number, before anything is built."""
    value = spec.options[name]
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool) and 1 <= int(value) <= MOST
    if name in _COUNTS and not whole and not (name == "max_token_length" and value is None):
        raise InvalidInput(
            f"{name} of {spec.kind} indexes must be a whole number from 1 to {MOST}, not {value!r}.",
            next="Correct it, or leave it out.",
            option=name,
            index_kind=spec.kind,
        )


def _check_fits(spec: IndexSpec, field: Any, table: str) -> None:
    """Refuse an index of a kind that a column cannot have, and say which it can."""
    if spec.kind in VECTOR:
        check_vector(field, table)
        return
    fitting = kinds_for(field.type)
    if spec.kind not in fitting:
        advice = f"Such a column can have {', '.join(fitting)}." if fitting else "Such a column can have no index."
        raise InvalidInput(
            f"Column {field.name!r} of table {table!r} is {field.type}, which cannot have a {spec.kind} index.",
            next=advice,
            table=table,
            column=field.name,
            kinds=list(fitting),
        )


def kinds_for(kind: Any) -> tuple[str, ...]:
    """The kinds of index that a column of a type can have."""
    import pyarrow as pa
    import pyarrow.types as t

    if isinstance(kind, pa.BaseExtensionType):
        return KINDS if kind.extension_name == "arrow.json" else ()
    if t.is_fixed_size_list(kind):
        return (*VECTOR, "ZONEMAP")
    if t.is_list(kind) or t.is_large_list(kind):
        words = t.is_string(kind.value_type) or t.is_large_string(kind.value_type)
        return ("LABEL_LIST", "INVERTED", "ZONEMAP") if words else ("LABEL_LIST", "ZONEMAP")
    if t.is_string(kind) or t.is_large_string(kind):
        return ("BTREE", "BITMAP", "INVERTED", "NGRAM", "ZONEMAP")
    return ("ZONEMAP",) if t.is_nested(kind) else ("BTREE", "BITMAP", "ZONEMAP")


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
    builders: dict[str, Run] = field(default_factory=dict)
    """Who builds an index that this process does not build itself."""
    carried: dict[str, Segments] = field(default_factory=dict)
    """Of another line of the table: what of them fits the final fragments is taken over, unless one has the name."""

    @property
    def changed(self) -> bool:
        return bool(self.wanted or self.dropped or self.carried)

    @property
    def names(self) -> set[str]:
        return {*self.wanted, *self.dropped, *self.carried}

    def want(self, handle: LanceDataset, spec: IndexSpec, *, replace: bool, table: str, run: Run | None = None) -> None:
        require(handle, [spec.column], table)
        _check_options(spec)
        _check_fits(spec, handle.schema.field(spec.column), table)
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
        self.builders.pop(spec.name, None)
        if run is not None:
            self.builders[spec.name] = run

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

        if not self.changed:
            return handle
        handle = stager.placed(handle)  # its indexes and its rows are read from there
        gone = [ix for name in self.dropped for ix in _stored(handle, name)]
        if gone:
            handle = stager.detach(handle, Op.CreateIndex([], gone))
        for spec in self.wanted.values():
            handle = stager.placed(handle)
            old = _stored(handle, spec.name)
            index = self._fitting(handle, spec) or self._build(stager, handle, spec, table)
            handle = stager.detach(handle, Op.CreateIndex([index], old))
        for name, segments in self.carried.items():
            handle = stager.placed(handle)
            found = segments.on(handle) if _named(handle, name) is None else []
            if found:
                handle = stager.detach(handle, Op.CreateIndex(found, []))
                stager.files.extend(f"_indices/{segment.uuid}/" for segment in found)
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
        run = self.builders.get(spec.name)
        if run is None:
            index = build(stager, handle, spec, list(fragments), handle.count_rows(), table)
        else:
            from quire.formats.lance.indexes.distributed import build_by

            index = build_by(run, stager, handle, spec, table)
        self.built[spec.name] = Built(index, fragments)
        return index


def build(
    stager: Stager, handle: LanceDataset, spec: IndexSpec, fragments: Sequence[int], rows: int, table: str
) -> Any:
    """Write an index over some fragments. No manifest names it yet."""
    own = stager.session.private(stager.location, handle.version)
    index = make(own, settled(spec, handle, rows), fragments, table)
    stager.files.extend(files_of(index))
    return index


def settled(spec: IndexSpec, handle: LanceDataset, rows: int) -> IndexSpec:
    """The same index with what was left open about it, now that it is known how many rows it will cover."""
    if spec.kind not in VECTOR:
        return spec
    options = dict(spec.options)
    options.setdefault("num_partitions", max(1, min(256, rows // 4096)))
    if spec.kind in ("IVF_PQ", "IVF_HNSW_PQ"):
        width = getattr(handle.schema.field(spec.column).type, "list_size", 1)
        options.setdefault("num_sub_vectors", next(n for n in (16, 8, 4, 2, 1) if width % n == 0))
    return IndexSpec(spec.column, spec.kind, spec.name, options)


def make(own: LanceDataset, spec: IndexSpec, fragments: Sequence[int], table: str, **model: Any) -> Any:
    """Write an index over some fragments, through a handle that nobody else uses."""

    def work() -> Any:
        index = own.create_index_uncommitted(
            spec.column, spec.kind, name=spec.name, replace=True, fragment_ids=list(fragments), **spec.options, **model
        )
        return own.merge_existing_index_segments([index]) if spec.kind == "INVERTED" else index

    covered = set(fragments)
    if spec.kind == "BITMAP" and not sum(f.count_rows() for f in own.get_fragments() if int(f.fragment_id) in covered):
        raise InvalidInput(
            f"Table {table!r} has no rows, and a BITMAP index is built of the values that there are.",
            next="Add rows first, or build a BTREE index, which can be empty.",
            table=table,
            column=spec.column,
        )
    scan = Scan(own, [f for f in own.get_fragments() if int(f.fragment_id) in covered])
    with metered("index", own.uri, steps=2) as window, translating(f"index {spec.name} of {table}"):
        window.in_turn = len(fragments) <= 1
        index = refusing(work, spec, table)()
        window.steps = scan.steps + max(1, len(index.files or ()))
    return index


def files_of(index: Any) -> list[str]:
    """The files of an index that was built just now, by name: later it must be known whether one of them is missing."""
    folder = f"_indices/{index.uuid}/"
    return [f"{folder}{file.path}" for file in index.files or ()] or [folder]


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
        for d in described(handle)
    ]


def refusing(build: Callable[[], Any], spec: IndexSpec, table: str) -> Callable[[], Any]:
    def run() -> Any:
        try:
            return build()
        except (ValueError, TypeError, NotImplementedError, KeyError, RuntimeError) as error:
            raise InvalidInput(
                f"Cannot build a {spec.kind} index on column {spec.column!r} of table {table!r}: {first_line(error)}.",
                next="Check the column's type, the number of rows and the options.",
                table=table,
                column=spec.column,
            ) from None

    return run


def _named(handle: LanceDataset, name: str) -> Any | None:
    return next((ix for ix in described(handle) if ix.name == name), None)


def coverage(handle: LanceDataset) -> list[tuple[Any, list[tuple[Any, frozenset[int]]]]]:
    """Every index as Lance describes it, with its stored segments and the fragments that each says it covers.

    A fragment may be gone: Lance passes over what a segment says about fragments that the table does not have.
    """
    from lance.dataset import Index

    return [
        (
            found,
            [
                (
                    Index(
                        uuid=segment.uuid,
                        name=found.name,
                        fields=list(found.fields),
                        dataset_version=segment.dataset_version_at_last_update,
                        fragment_ids=segment.fragment_ids,
                        index_version=segment.index_version,
                    ),
                    frozenset(int(n) for n in segment.fragment_ids),
                )
                for segment in found.segments
            ],
        )
        for found in described(handle)
    ]


def segments(handle: LanceDataset, *, bare: bool = True) -> dict[str, int | None]:
    """Ids of everything stored for the table's indexes, each with the bytes of its files where the manifest says it.

    Each has a folder of its own. A segment for which there were no rows to learn from covers nothing and may have no
    file at all; such ones are left out unless `bare`.
    """
    return {
        str(segment.uuid): int(segment.size_bytes) if segment.size_bytes else None
        for index in described(handle)
        for segment in index.segments
        if bare or segment.size_bytes or len(segment.fragment_ids)
    }


def _stored(handle: LanceDataset, name: str) -> list[Any]:
    """The stored segments of an index, as an operation wants them to remove."""
    return [stored for found, parts in coverage(handle) if found.name == name for stored, _ in parts]
