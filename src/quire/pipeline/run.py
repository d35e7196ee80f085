"""Running a pipeline: every file is a task, whichever table or type it feeds; all of it is one commit."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from quire.arguments import checked
from quire.errors import IntegrityError, InvalidInput, KeyConflict
from quire.formats import Handed, task_table, tasks
from quire.graph.integrity import Violations
from quire.graph.integrity.violations import Violation
from quire.graph.load.receipt import SHOWN
from quire.lake import Lake, Transaction, TransactionTable, engines
from quire.lake.handles import store_of
from quire.lake.key_files import KeyFiles
from quire.pipeline import check, graph_feeds
from quire.pipeline.key_check import Clash, Keys, clashes
from quire.pipeline.map_rows import refuse_lacking
from quire.pipeline.mapping import MODES, Feed, Mode, Pipeline, read_pipeline, tolerance
from quire.pipeline.result import Fed, Loaded, again, told_name
from quire.pipeline.task import Batches, Care, IntoTable, Piece, on_frame
from quire.progress import Progress
from quire.rowfiles import inputs
from quire.rowfiles.csv import PLAIN
from quire.rowfiles.files import grouped
from quire.rowfiles.kinds import Kind
from quire.rowfiles.rejects import RejectFolder
from quire.store.forwarded_credentials import carried

if TYPE_CHECKING:
    from quire.lake.commit.tokens import Token

SMALL = 100_000
"""Keys of a table that the driver compares itself: a Spark job takes longer."""
LARGEST = 5_000_000
"""And so many rows of the table at most."""


@checked
def run(
    lake: Lake,
    pipeline: str | os.PathLike[str] | dict[str, Any] | Pipeline,
    *,
    engine: engines.Engine = "local",
    mode: Mode | None = None,
    base: str | os.PathLike[str] | None = None,
    frames: Mapping[str, Any] | None = None,
    message: str | None = None,
    token: Token | None = None,
    rejects: str | os.PathLike[str] | None = None,
    skip_rejects: bool | int | str | None = None,
    max_errors: int = 20,
    dry_run: bool = False,
    progress: Progress | None = None,
    embedder: Any = None,
    options: Mapping[str, Any] | None = None,
) -> Loaded:
    """Load everything that a pipeline names in one commit: `engine` is "local", a Spark session, or "auto".

    Each file is read and written by one task, a large one by several; on Spark the tasks of all tables are one job.
    `append` inserts strictly where a table has a key, `insert` by the columns that the source names, `merge` replaces
    rows by key, `overwrite` replaces all rows of what is fed.

    Rows that break a rule refuse the load with one `IntegrityError` that names file, line, column and rule, and nothing
    is committed. With `skip_rejects` it goes on without them: without any number (True), a number, or a share ("1%") of
    all rows; more than that refuse it. `rejects` is a folder or an address to which they are written as NDJSON.
    What is given here wins over what the pipeline says, and its names of folders start from the working directory;
    `base` is the folder, or the address, that names in the pipeline start from. `options` are those of
    `lake.transaction`.

    A run whose `token` was used reads and writes nothing: it tells what was done the first time (`repeated`).
    """
    plan = _planned(read_pipeline(pipeline), mode, rejects, skip_rejects, message, base)
    given = dict(frames or {})
    _check_frames(plan, given)
    located = _options_of(lake)
    how: dict[str, Any] = {"token": token, "fresh": True, **dict(options or {})}
    tx = lake.transaction(plan.message, **how)
    first = tx.repeated()
    if first is not None:
        return again(plan, first, dry_run=dry_run)
    done = Loaded(plan.mode)
    with tx:
        sources = _pieces(plan, located)
        session = engines.chosen(engine, lambda: size_of(lake, plan))
        care = _care(plan, tx, max_errors, located)
        check.check(tx, plan, sources)
        bar = Bar(progress, len(sources) + len(plan.sources) + 1)
        work = PipelineRun(session, tx, plan, care, bar, embedder, collects=dry_run)
        done = work.run(sources, given)
        tx.left_out = Counter({name: fed.rejected for name, fed in done.tables.items() if fed.rejected})
        work.bar.tell("commit")
        if dry_run:
            tx.discard()
        elif tx.status != "committed":
            tx.commit()
        work.bar.add("commit")
    first = None if dry_run else tx.repeated()
    if first is not None:  # somebody else was faster
        return again(plan, first)
    return replace(done, dry_run=dry_run, receipt=None if dry_run else tx.receipt)


@checked
def size_of(
    lake: Lake,
    pipeline: str | os.PathLike[str] | dict[str, Any] | Pipeline,
    base: str | os.PathLike[str] | None = None,
) -> int:
    """Bytes of all files that a pipeline reads."""
    plan = _planned(read_pipeline(pipeline), None, None, None, None, base)
    options = _options_of(lake)
    paths = {path for feed in plan.sources for path in feed.paths(plan.base, options)}
    return sum(inputs.size_of(path, options if inputs.is_remote(path) else None) for path in paths)


def _planned(plan: Pipeline, mode: Any, rejects: Any, skip: Any, message: str | None, base: Any) -> Pipeline:
    """The pipeline with what the caller says instead."""
    if mode is not None and mode not in MODES:
        raise InvalidInput(f"There is no mode {mode!r}.", next=f"Use one of {', '.join(MODES)}.")
    sources = plan.sources if mode is None else [_moded(feed, mode) for feed in plan.sources]
    found = Pipeline(
        sources,
        plan.mode if mode is None else mode,
        plan.message if message is None else message,
        plan.rejects if rejects is None else _from_here(rejects),
        plan.skip_rejects if skip is None else skip,
        plan.base if base is None else os.fspath(base),
    )
    return found.check()


def _from_here(place: str | os.PathLike[str]) -> str:
    """A place that a caller names: seen from the working directory, unlike one that a pipeline names."""
    text = os.fspath(place)
    return text if inputs.is_remote(text) else os.path.abspath(text.removeprefix("file://"))


def _moded(feed: Feed, mode: Mode) -> Feed:
    import msgspec

    return msgspec.structs.replace(feed, mode=mode)


def _check_frames(plan: Pipeline, frames: Mapping[str, Any]) -> None:
    wanted = [feed.frame for feed in plan.sources if feed.frame is not None]
    for name in wanted:
        if name not in frames:
            raise InvalidInput(
                f"The pipeline takes a frame {name!r} that was not given.", next=f'Pass frames={{"{name}": …}}.'
            )


def _pieces(plan: Pipeline, options: dict[str, str]) -> list[tuple[Feed, Piece]]:
    found: list[tuple[Feed, Piece]] = []
    for feed in plan.sources:
        for path in feed.paths(plan.base, options):
            mine = options if inputs.is_remote(path) else {}
            form = PLAIN if feed.csv is None else feed.csv.form()
            file = Piece(path, feed.kind_of(path), form, options=mine)
            # The graph's loader tells every line by its number in the file, which a part of JSON does not know.
            apart = file.kind is Kind.parquet or not feed.is_graph
            found += [(feed, piece) for piece in (file.shares() if apart else [file])]
    several = Counter(id(feed) for feed, _ in found)
    return [(feed, replace(piece, alone=several[id(feed)] == 1)) for feed, piece in found]


def _care(plan: Pipeline, tx: Transaction, most: int, options: dict[str, str]) -> Care:
    number, share = tolerance(plan.skip_rejects)
    skip: bool | int = True if share is not None or number is None else number
    place = plan.rejects
    if place is not None and not inputs.is_remote(place):
        place = os.path.abspath(place if inputs.is_remote(plan.base) else os.path.join(plan.base, place))
    mine = options if place and inputs.is_remote(place) else {}
    return Care(max(1, most), skip, RejectFolder(place, tx.write[:12], mine))


@dataclass
class Bar:
    """One bar over everything that a run does."""

    progress: Progress | None
    total: int
    done: int = 0

    def tell(self, what: str, more: int = 0) -> None:
        """So many more are done of this step, which is not at its end."""
        if self.progress is not None:
            self.progress(what, min(self.done + more, self.total), self.total)

    def add(self, what: str, count: int = 1) -> None:
        """So many are done for good."""
        self.done += count
        self.tell(what)


@dataclass
class _Written:
    """What the tasks have written for one table."""

    feeds: list[Feed]
    into: IntoTable
    parts: list[dict[str, Any]] = field(default_factory=list)
    sources: list[Any] = field(default_factory=list)
    files: set[str] = field(default_factory=set)

    @property
    def fragments(self) -> list[str]:
        return [text for part in self.parts for text in part["written"]]

    @property
    def rows(self) -> int:
        return sum(part["rows"] for part in self.parts)


def _options_of(lake: Lake) -> dict[str, str]:
    """The storage options of a lake, with which tasks read files in buckets."""
    store = store_of(lake)
    return carried(store.scheme, store.options)


@dataclass(frozen=True)
class _Read:
    """Reads and writes the pieces of some groups; it is sent to tasks."""

    intos: list[IntoTable]
    pieces: list[Piece]
    groups: list[list[int]]

    def __call__(self, number: int) -> engines.Answer:
        return {"parts": [self.intos[n](self.pieces[n], n)[0] for n in self.groups[number]]}, b""


@dataclass(frozen=True)
class _LeaveOut:
    """Writes what parts have written without some of their rows; it is sent to tasks."""

    into: IntoTable
    parts: list[tuple[list[str], Any, Any, dict[int, str]]]
    numbers: list[int]
    why: str

    def __call__(self, number: int) -> engines.Answer:
        paths, lines, source, wrong = self.parts[number]
        return self.into.again(paths, lines, source, f"{self.numbers[number]:05}-{self.why}", wrong)


@dataclass
class PipelineRun:
    session: Any
    tx: Transaction
    plan: Pipeline
    care: Care
    bar: Bar
    embedder: Any = None
    collects: bool = False
    """Whether what is wrong with tables does not keep it from looking at the graph."""
    found: Violations = field(default_factory=Violations)
    rejected: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    """Rows that were read and not rejected."""

    def run(self, sources: Sequence[tuple[Feed, Piece]], frames: Mapping[str, Any]) -> Loaded:
        targets = dict.fromkeys(feed.target for feed in self.plan.sources)
        with engines.named_job(f"load {engines.listed(targets)}", self.tx.meter):
            return self._run(sources, frames)

    def _run(self, sources: Sequence[tuple[Feed, Piece]], frames: Mapping[str, Any]) -> Loaded:
        self.found = Violations(self.care.most)
        done: dict[str, Fed] = {}
        failed: list[IntegrityError] = []
        for step in (self._tables, self._graph):
            try:
                done |= step(sources, frames)
            except IntegrityError as error:
                if not self.collects:
                    raise
                failed.append(error)
                self.found, self.rejected = Violations(self.care.most), Counter()
        if failed:
            raise _together(failed, self.care.most)
        for name, count in self.rejected.items():
            done.setdefault(name, Fed()).rejected = count
        total = sum(self.rejected.values())
        some = tuple(self.found.violations[:SHOWN])
        return Loaded(self.plan.mode, done, total, violations=some, violation_count=self.found.count)

    def _tables(self, sources: Sequence[tuple[Feed, Piece]], frames: Mapping[str, Any]) -> dict[str, Fed]:
        feeds = [feed for feed in self.plan.sources if not feed.is_graph]
        written = self._write(feeds, [(f, p) for f, p in sources if not f.is_graph], frames)
        self._judge()
        return self._hand_in(written)

    def _mode(self, feed: Feed) -> Mode:
        return feed.mode or self.plan.mode

    # -- writing ----------------------------------------------------------------------------------------------

    def _write(
        self, feeds: Sequence[Feed], given: Sequence[tuple[Feed, Piece]], frames: Mapping[str, Any]
    ) -> dict[str, _Written]:
        """Let every piece be read and written, whichever table it is for: one job. Frames are one each."""
        found: dict[str, _Written] = {}
        for feed in feeds:
            known = found.get(feed.target)
            if known is None:
                found[feed.target] = _Written([feed], self._into(feed))
            else:
                self._check_alike(known.feeds[0], feed)
                known.feeds.append(feed)
        intos = [replace(found[feed.target].into, feed=feed) for feed, _ in given]
        some = [piece for _, piece in given]
        groups = grouped([piece.size for piece in some], engines.slots(self.session))

        def tell(what: str, done: int, total: int | None) -> None:
            self.bar.tell("read", len(some) * done // (total or 1))

        answers = engines.tasks_on(self.session, tell)(len(groups), _Read(intos, some, groups))
        heads = [head for answer, _ in answers for head in answer["parts"]]
        refuse_lacking([(feed, head["met"]) for (feed, _), head in zip(given, heads, strict=True)])
        for (feed, piece), head in zip(given, heads, strict=True):
            self._take(found[feed.target], head, piece)
        self.bar.add("read", len(some))
        for number, feed in enumerate(f for f in feeds if f.frame is not None):
            into = replace(found[feed.target].into, feed=feed)
            source = Batches(f"frame {feed.frame}", [])
            for head in on_frame(self.session, frames[str(feed.frame)], into, source.path, len(some) + number):
                self._take(found[feed.target], head, source)
        return found

    def _into(self, feed: Feed) -> IntoTable:
        table, mode = self.tx[feed.target], self._mode(feed)
        on = self._on(table, feed)
        schema = table.schema
        output = tasks.Output(
            table.target(),
            table.name,
            on,
            mode="overwrite" if mode == "overwrite" else "append",
            schema=schema if mode == "overwrite" else None,
        )
        return IntoTable(feed, output, schema, self.care)

    def _on(self, table: TransactionTable, feed: Feed) -> tuple[str, ...]:
        """The columns by which rows of this feed are known; () where they are not."""
        mode = self._mode(feed)
        if mode == "overwrite" or (mode == "append" and feed.keys is None):
            return table.key
        return table.identified_by(feed.keys)

    def _check_alike(self, one: Feed, other: Feed) -> None:
        if (self._mode(one), one.keys) != (self._mode(other), other.keys):
            raise InvalidInput(
                f"Two sources feed table {one.target!r}, with different modes or key columns.",
                next="Give them one mode, or load them in two pipelines.",
                table=one.target,
            )

    def _take(self, into: _Written, head: dict[str, Any], source: Any) -> None:
        into.parts.append(head)
        into.sources.append(source)
        if isinstance(source, Piece):
            into.files.add(source.path)
        self.rows += head["rows"]
        self._reject(into.feeds[0].target, head)

    def _reject(self, target: str, head: dict[str, Any]) -> None:
        self.found.add([Violation(**v) for v in head["violations"]], head["count"])
        if head["rejected"]:
            self.rejected[target] += head["rejected"]

    def _judge(self, *, last: bool = False) -> None:
        """Refuse the load when more rows were left out than may be. A share is one of all rows: it is judged last."""
        number, share = tolerance(self.plan.skip_rejects)
        if not self.found or (self._counts_later and not last):
            return
        rejected = sum(self.rejected.values())
        allowed = number if share is None else int(share * (self.rows + rejected))
        if allowed is not None and rejected > allowed:
            self.found.stopped = share is None  # with a share, all rows were read
            error = self.found.error()
            if not any(feed.is_graph for feed in self.plan.sources if feed.target in self.rejected):
                error.fields["subject"] = "tables"
            if self.care.folder.writes:
                error.fields["rejects"] = self.care.folder.address
            raise error

    # -- into the transaction ---------------------------------------------------------------------------------

    def _hand_in(self, written: dict[str, _Written]) -> dict[str, Fed]:
        keyed = {name: one for name, one in written.items() if one.into.output.on and one.rows > 1}
        self.bar.tell("check keys")
        self._without_clashes(keyed, existing=False)
        done: dict[str, Fed] = {}
        for name, one in written.items():
            self.bar.tell(f"stage {name}")
            try:
                done[name] = self._hand_in_one(one)
            except KeyConflict:
                self._without_clashes({name: one}, existing=True)
                done[name] = self._hand_in_one(one)
            done[name].files = len(one.files)
            self.bar.add(f"stage {name}", len(one.feeds))
        return done

    def _hand_in_one(self, one: _Written) -> Fed:
        table, fragments = self.tx[one.feeds[0].target], tuple(one.fragments)
        mode, on = self._mode(one.feeds[0]), one.into.output.on
        if mode == "overwrite":
            before = table.count()
            table.hand_in(Handed("overwrite", fragments, schema=table.schema))
            return Fed(inserted=one.rows, removed=before)
        if not on:
            table.hand_in(Handed("append", fragments))
            return Fed(inserted=one.rows)
        place = table.target()
        paths = tuple(tasks.paths_of(place, fragments))
        session = None if self._is_small(table, one.rows) else self.session
        keys = KeyFiles(session, place, paths, on, one.rows, table.name, on == table.key)
        handed = Handed("upsert" if mode == "merge" else "insert", fragments, on, keys.seek)
        matched = table.hand_in(handed)
        return Fed(inserted=one.rows - matched, updated=matched)

    def _is_small(self, table: TransactionTable, rows: int) -> bool:
        return rows <= SMALL and table.count() <= LARGEST

    def _without_clashes(self, written: dict[str, _Written], *, existing: bool) -> None:
        """Leave out rows whose key is there twice, or in the table: their tasks write what they wrote without them."""
        small = [n for n, one in written.items() if self._is_small(self.tx[n], one.rows)]
        for names, session in ((small, None), ([n for n in written if n not in small], self.session)):
            if not names:
                continue
            keys = [self._keys(written[name], existing) for name in names]
            found = clashes(engines.tasks_on(session), keys, self._limit())
            for name, (count, some) in zip(names, found, strict=True):
                if count:
                    self._leave_out(written[name], count, some, "there" if existing else "twice")
        self._judge()

    @property
    def _counts_later(self) -> bool:
        """Whether rows of the graph, which are not read yet, decide how many may be left out."""
        return tolerance(self.plan.skip_rejects)[1] is not None and any(feed.is_graph for feed in self.plan.sources)

    def _limit(self) -> int:
        """So many clashes are asked for: as many as can be left out, and those that are told."""
        number, share = tolerance(self.plan.skip_rejects)
        allowed = number if share is None else int(share * self.rows) + 1
        allowed = None if self._counts_later else allowed
        return max(self.rows if allowed is None else allowed, self.care.most) + 1

    def _keys(self, one: _Written, existing: bool) -> Keys:
        table = self.tx[one.feeds[0].target]
        place = table.target()
        paths = tuple(tasks.paths_of(place, one.fragments))
        old = tuple(task_table(place).parts()) if existing else ()
        return Keys(table.name, place, paths, one.into.output.on, one.rows, old)

    def _leave_out(self, one: _Written, count: int, some: Sequence[Clash], why: str) -> None:
        by_part: dict[int, dict[int, str]] = {}
        starts = _starts(one)
        for clash in some:
            part, position = starts[clash.path][0], starts[clash.path][1] + clash.offset
            key = ", ".join(f"{name}={value!r}" for name, value in clash.key.items())
            said = f"Table {one.feeds[0].target!r} has a row with {key} already."
            if clash.why == "twice":
                said = f"The key {key} of table {one.feeds[0].target!r} is in the data more than once."
            by_part.setdefault(part, {})[position] = said
        numbers, place = list(by_part), one.into.output.place
        jobs = [
            (tasks.paths_of(place, one.parts[n]["written"]), one.parts[n]["lines"], one.sources[n], by_part[n])
            for n in numbers
        ]
        work = _LeaveOut(one.into, jobs, numbers, why)
        for n, (head, _) in zip(numbers, engines.tasks_on(self.session)(len(jobs), work), strict=True):
            self.rows += head["rows"] - one.parts[n]["rows"]
            one.parts[n] = head
            self._reject(one.feeds[0].target, head)
        if count > len(some):  # there are more than may be left out, and this ends here
            self.found.add([], count - len(some))
            self.rejected[one.feeds[0].target] += count - len(some)

    # -- the graph --------------------------------------------------------------------------------------------

    def _graph(self, sources: Sequence[tuple[Feed, Piece]], frames: Mapping[str, Any]) -> dict[str, Fed]:
        feeds = [feed for feed in self.plan.sources if feed.is_graph]
        given = [(f, p) for f, p in sources if f.is_graph]
        done: dict[str, Fed] = {}
        for number, (mode, mine) in enumerate(graph_feeds.in_order([(self._mode(feed), feed) for feed in feeds])):
            some = [(f, p) for f, p in given if any(f is feed for feed in mine)]
            loaded = graph_feeds.load(self, mode, mine, some, frames, number)
            self.bar.add("stage", len(mine) + len(some))
            self.found.add(loaded.violations, loaded.violation_count)
            self.rows += loaded.rows
            for type, one in loaded.types.items():
                name = told_name(self.plan, next(feed for feed in mine if feed.target == type))
                fed = done.setdefault(name, Fed())
                fed.inserted, fed.updated = fed.inserted + one.inserted, fed.updated + one.updated
                fed.removed += one.removed
                if one.rejected:
                    self.rejected[name] += one.rejected
        self._judge(last=True)
        return done


def _together(errors: Sequence[IntegrityError], most: int) -> IntegrityError:
    """What is wrong with tables and with the graph, as one error."""
    if len(errors) == 1:
        return errors[0]
    found = Violations(most)
    for error in errors:
        found.add([Violation(**v) for v in error.fields["violations"]], error.fields["count"])
        found.stopped = found.stopped or error.fields["stopped"]
    made = found.error()
    made.fields["subject"] = "rows"
    return made


def _starts(one: _Written) -> list[tuple[int, int]]:
    """For every data file: which part it is of, and the position of its first row there."""
    found: list[tuple[int, int]] = []
    table = task_table(one.into.output.place)
    for number, part in enumerate(one.parts):
        at = 0
        for file in table.new_files(part["written"]):
            found.append((number, at))
            at += file.rows
    return found
