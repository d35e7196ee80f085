"""How a query is run: what each scan reads and through which index, what narrowed it, the SQL, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from quire.filters import Condition
from quire.formats import Indexed
from quire.graph.language import plan
from quire.graph.query.duckdb_run import execute
from quire.graph.query.implied_nodes import imply
from quire.graph.query.prepare import Prepared, prepare
from quire.graph.query.pushed_filters import both
from quire.graph.query.scans import Source
from quire.graph.query.search.ranked_run import ranked
from quire.graph.query.search.settings import Settings
from quire.graph.query.semi_join import narrow
from quire.graph.query.sql.walks import is_single
from quire.lake.handles import view_of
from quire.lake.read.sql_limits import Watch
from quire.prompt import OneLine, counted
from quire.store import metering

if TYPE_CHECKING:
    from quire.graph.query.search.search import Embed
    from quire.lake.read.snapshot import Snapshot


@dataclass(frozen=True)
class Scanned:
    """What is read of one variable."""

    variable: str
    relation: str
    """Its name in the SQL."""
    table: str
    columns: tuple[str, ...]
    filter: str | None
    """What is pushed into the scan."""
    limit: int | None
    indexes: tuple[str, ...]
    """Indexes that the scan uses for the filter."""
    rows: int | None = None
    """Rows that were read before the SQL ran, when it was analyzed and they were few."""
    narrowed_by: str = ""

    def __str__(self) -> str:
        parts = [f"{self.relation} = {self.table} [{', '.join(self.columns)}]"]
        parts += [f"filter {self.filter}"] if self.filter else []
        parts += [f"limit {self.limit}"] if self.limit is not None else []
        parts += [f"index {', '.join(self.indexes)}"] if self.indexes else []
        parts += [f"{self.rows} rows by {self.narrowed_by}"] if self.rows is not None else []
        return "  ".join(parts)


@dataclass(frozen=True, repr=False)
class Explained(OneLine):
    """A query as it runs; `str` shows it to people."""

    name: str
    tree: tuple[str, ...]
    """The plan, a line each, indented by depth."""
    scans: tuple[Scanned, ...]
    sql: str
    values: Mapping[str, Any]
    """What the SQL binds."""
    rows: int | None = None
    """Rows of the answer, when it was analyzed."""
    cost: Mapping[str, Any] = field(default_factory=dict)
    """Requests, hops, bytes and seconds, when it was analyzed."""
    ranking: str = ""
    """What found the best rows, and whether they are exactly those, when it was analyzed and a search ranks them."""

    def _facts(self) -> str:
        rows = f", {counted(self.rows, 'row')} in {self.cost['seconds']:.3f} s" if self.rows is not None else ""
        return f"query {self.name}, {counted(len(self.scans), 'scan')}{rows}"

    def __str__(self) -> str:
        lines = [f"query {self.name}", *self.tree, "", *map(str, self.scans), "", self.sql]
        if self.ranking:
            lines += ["", f"ranked by {self.ranking}"]
        if self.rows is not None:
            requests = self.cost["total"] + sum(self.cost["external"].values())
            lines += ["", f"{self.rows} rows, {requests} requests, {self.cost['seconds']:.3f} s"]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "name": self.name,
            "tree": list(self.tree),
            "scans": [
                vars(scan) | {"columns": list(scan.columns), "indexes": list(scan.indexes)} for scan in self.scans
            ],
            "sql": self.sql,
            "values": dict(self.values),
            "rows": self.rows,
            "cost": dict(self.cost),
            "ranking": self.ranking,
        }


def explain(
    query: plan.Query,
    snapshot: Snapshot,
    params: Mapping[str, Any],
    *,
    embed: Embed | None = None,
    analyze: bool = False,
    reduce: bool = True,
    settings: Settings | None = None,
) -> Explained:
    """How a read is run. With `analyze` it is run: then it says what narrowed the scans, and what was requested."""
    with metering() as meter:
        best = ranked(query, snapshot, params, embed, settings, Watch()) if analyze and reduce else None
        if best is not None:
            prepared, rows = best.prepared, best.rows.num_rows
        else:
            prepared = prepare(query, snapshot, params, embed)
            imply(prepared)
            prepared.searches.reads = analyze
            if analyze and reduce:
                narrow(prepared)
            rows = execute(prepared).to_arrow().num_rows if analyze else None
        statement = prepared.statement()
    told = described(query, prepared, statement.text, rows, meter.to_dict() if analyze else {})
    if best is None:
        return told
    return replace(told, ranking=f"{best.how} ({f'approximate: {best.approximate}' if best.approximate else 'exact'})")


def described(
    query: plan.Query, prepared: Prepared, sql: str, rows: int | None = None, cost: Mapping[str, Any] | None = None
) -> Explained:
    """A read that is prepared, with the SQL that an engine runs for it."""
    read = {n: source for n, source in prepared.sources.items() if n not in prepared.layout.implied}
    scans = tuple(_scanned(prepared, name, source) for name, source in read.items())
    tree = tuple(_tree(prepared, prepared.read.block, 1))
    return Explained(query.name, tree, scans, sql, prepared.values.bound, rows, cost or {})


def _scanned(prepared: Prepared, variable: str, source: Source) -> Scanned:
    filter = both(source.filters)
    return Scanned(
        variable,
        source.place.relation,
        source.place.entity.table,
        tuple(source.place.columns.values()),
        None if filter is None else str(filter),
        source.limit,
        tuple(_indexes(prepared, source, filter)),
        None if source.rows is None else source.rows.num_rows,
        source.why,
    )


def _indexes(prepared: Prepared, source: Source, filter: Condition | None) -> list[str]:
    """The indexes that a scan says it would use."""
    view = view_of(source.table(prepared.snapshot))
    if filter is None or not isinstance(view, Indexed):
        return []
    return view.used_indexes(list(source.place.columns.values()), filter)


def _tree(prepared: Prepared, block: plan.Block, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for scan in block.scans:
        implied = prepared.layout.implied.get(scan.variable)
        how = _relation(prepared, scan.variable) if implied is None else f"not read, its id is {implied}"
        types = "|".join(member.entity.name for member in scan.members)
        if types:
            types = f" = {types}"
            how = ", ".join(_relation(prepared, member.variable) for member in scan.members)
        yield f"{indent}scan ${scan.variable}: {scan.entity.name}{types} ({how})"
    for step in block.expansions:
        yield f"{indent}expand {_step(prepared, step)}"
    for path in block.paths:
        yield f"{indent}shortest ${path.path} = {_step(prepared, path.step)}"
    yield from _conditions(prepared, block.conditions, depth)
    for part in block.optional:
        yield f"{indent}optional"
        yield from _tree(prepared, part.block, depth + 1)
    for one in block.counts:
        yield f"{indent}count"
        yield from _tree(prepared, one.block, depth + 1)
    yield from _conditions(prepared, block.after, depth)


def _conditions(prepared: Prepared, conditions: tuple[plan.Condition, ...], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for condition in conditions:
        if isinstance(condition, plan.Without):
            yield f"{indent}not"
            yield from _tree(prepared, condition.block, depth + 1)
        elif isinstance(condition, plan.Either):
            yield f"{indent}or"
            for block in condition.blocks:
                yield f"{indent}  either"
                yield from _tree(prepared, block, depth + 2)
        else:
            where = "in the scan" if id(condition) in prepared.pushed else "in the SQL"
            yield f"{indent}filter {type(condition).__name__} {where}"


def _relation(prepared: Prepared, variable: str) -> str:
    return prepared.layout.place(variable).relation


def _step(prepared: Prepared, step: plan.Expand) -> str:
    shape = {"forward": "-{}->", "backward": "<-{}-", "either": "-{}-"}[step.direction]
    hops = "" if is_single(step) else f"{{{step.least},{'' if step.most is None else step.most}}}"
    arrow = shape.format("|".join(along.entity.name for along in step.every) + hops)
    relations = ", ".join(_relation(prepared, along.edge) for along in step.every)
    return f"${step.source} {arrow} ${step.target} ({relations})"
