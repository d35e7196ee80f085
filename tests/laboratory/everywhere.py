"""Every crash point: end a client at every request that an operation makes, and look at what is left.

An operation is run once through the proxy to count its requests, those of its background work included. Then it is run
again for every one of them, each time on a fresh copy of a prepared lake, and the client dies there: before the server
has seen the request, or after the server has acted on it. Nothing that it sends afterwards arrives. Another client then
opens the lake without the proxy and finds everything in order, or `Damage` says what is wrong.

    operation = Operation("append", lambda lake: lake.transact(lambda tx: tx["t"].append(rows)))
    rounds = Rounds(s3, Image.of(s3, "prepared"), operation)
    for number, side in rounds.everywhere():
        rounds.crash(number, side)

What is in order: `verify` finds nothing; all tables, branches and tags together are exactly as before the operation or
exactly as after it; an operation that reported success is there; one that raised did nothing, unless it raised
`CommitUnknown`, and then `lake.outcome` says which; the lake can be written to; and `backfill` brings every plain HEAD
to what was published. `uncovered` derives the public methods that no operation covers, so that none is forgotten.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import quire
from quire.store import Outcome, Store, clock, run_parallel
from quire.testing.proxy import Fault, Proxy, Request, Side
from quire.testing.s3 import SeaweedFS

SIDES: tuple[Side, Side] = ("before", "after")
RETRIES = {"client_max_retries": "0", "client_retry_timeout": "1"}
"""Lance's own retries: none, since a dead client is not heard however often it asks."""

_dying = ThreadPoolExecutor(64, thread_name_prefix="quire-dying")


class Damage(AssertionError):
    """A crash left something that is not in order."""


class Hasty(clock.World):
    """A world in which nobody waits long before trying again; how often they try is as ever.

    Its clock goes slowly, so that a busy machine does not make the client do what is done only after a while: a note,
    a look at the newest commit before a transaction that comes after a pause.
    """

    def monotonic(self) -> float:
        return time.monotonic() / 20

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.001))

    def start(self, work: Callable[[], object], name: str) -> clock.Thread:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name=name, daemon=True)
        thread.start()
        return thread


@dataclass
class Place:
    """Where a client finds a lake, and the handles it has opened there."""

    uri: str
    options: dict[str, str]
    handles: list[quire.Lake] = field(default_factory=list)
    ends: ExitStack = field(default_factory=ExitStack)
    """What ends with the operation, such as a server."""

    def open(self, **options: Any) -> quire.Lake:
        return self.keep(quire.open(self.uri, storage_options=self.options, **options))

    def keep(self, lake: quire.Lake) -> quire.Lake:
        """A handle whose background work belongs to the operation."""
        self.handles.append(lake)
        return lake

    def flush(self) -> None:
        for lake in self.handles:
            lake.flush()


@dataclass(frozen=True)
class Operation:
    """What a client does. `begin` comes before the requests that are counted; `act` gets what it returned.

    `covers` names the public methods that this is about. `finish` is what the next client does before it writes. An
    operation that tells nobody whether it worked says `tells=False`; one that looks at the age of objects wants the
    prepared lake to be of an `age`, in seconds. `finds` are checks of `verify` that fail on the prepared lake already.
    """

    name: str
    act: Callable[[Any], Any]
    covers: tuple[str, ...] = ()
    begin: Callable[[Place], Any] = Place.open
    image: str = "plain"
    finish: Callable[[quire.Lake], Any] | None = None
    finds: tuple[str, ...] = ()
    tells: bool = True
    age: float = 0.0


class Image:
    """The objects of a prepared lake, to be put down elsewhere: pins are relative, so a lake can be copied."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects

    @staticmethod
    def of(s3: SeaweedFS, prefix: str) -> Image:
        store = Store.open(s3.uri(prefix), s3.options)
        keys = [entry.key for entry in store.list("")]
        return Image(dict(zip(keys, run_parallel([partial(store.get, key) for key in keys]), strict=True)))

    def put(self, uri: str, options: dict[str, str]) -> None:
        store = Store.open(uri, options)
        run_parallel([partial(store.put, key, body) for key, body in self.objects.items()])


@dataclass(frozen=True)
class Crash:
    """How one run ended for the client. `request` is None when the operation was done before it came to the cut."""

    request: Request | None
    error: Exception | None
    did: bool
    """Whether the operation is there."""


class Rounds:
    """One operation on copies of one prepared lake. Rounds may run side by side."""

    def __init__(self, s3: SeaweedFS, image: Image, operation: Operation) -> None:
        self._s3, self._image, self.operation = s3, image, operation
        self._folder = f"everywhere-{uuid.uuid4().hex}"
        self._laid: dict[tuple[int, Side], str] = {}
        self.before: Any = None
        with clock.using(Hasty()):
            uri = self._copy("rehearsal")
            self._grow_old()
            self.seen, _, _ = self._run(uri, None)
            self.after = observe(uri, s3.options)

    @property
    def requests(self) -> int:
        """How many requests the operation makes."""
        return len(self.seen)

    def everywhere(self) -> list[tuple[int, Side]]:
        """Every request on both sides; on one for those that only read, since the server is the same after them."""
        return [
            (number, side)
            for number, request in enumerate(self.seen, 1)
            for side in SIDES
            if side == "before" or not request.reads
        ]

    def lay(self, cases: Sequence[tuple[int, Side]]) -> None:
        """Make the copies for these rounds beforehand: for an operation that wants them to be of an age."""
        copies = run_parallel([partial(self._copy, f"{number}-{side}") for number, side in cases])
        self._laid = dict(zip(cases, copies, strict=True))
        self._grow_old()

    def crash(self, number: int, side: Side) -> Crash:
        """End the client at this request, and check what is left."""
        with clock.using(Hasty()):
            uri = self._laid.get((number, side)) or self._copy(f"{number}-{side}")
            _, error, request = self._run(uri, number, side)
            try:
                did = self._check(uri, error)
                if request is None or not request.reads:
                    # After a read the server is as it was after the write before it, which has rounds of its own.
                    self._check_next(uri)
                return Crash(request, error, did)
            except (Damage, quire.QuireError) as damage:
                where = f"{self.operation.name}, cut {side} request {number} ({request}), which raised {error!r}"
                raise Damage(f"{where}: {damage} The lake is at {uri}.") from damage

    def _copy(self, name: str) -> str:
        uri = self._s3.uri(f"{self._folder}/{name}")
        self._image.put(uri, self._s3.options)
        return uri

    def _grow_old(self) -> None:
        time.sleep(self.operation.age)

    def _cut(self, proxy: Proxy, number: int, side: Side) -> Fault:
        """Cut at the request that is this one's like: what runs side by side comes in another order each time."""
        like = [(r.kind, r.key_class) for r in self.seen[:number]]
        return proxy.cut(
            lambda r: (r.kind, r.key_class) == like[-1], nth=like.count(like[-1]), side=side, then_dead=True
        )

    def _run(
        self, uri: str, number: int | None, side: Side = "before"
    ) -> tuple[list[Request], Exception | None, Request | None]:
        """The operation through a proxy of its own: the requests it made, how it ended, and at which it was cut."""
        with ExitStack() as stack:
            proxy = stack.enter_context(Proxy(self._s3.endpoint))
            place = Place(uri, {**self._s3.options, **RETRIES, "aws_endpoint": proxy.endpoint})
            begun = self.operation.begin(place)
            place.flush()
            if number is None:
                self.before = observe(uri, self._s3.options)
            start = proxy.mark()
            cut = self._cut(proxy, number, side) if number is not None else None
            ended: Exception | None = None
            try:
                self.operation.act(begun)
            except Exception as error:
                if cut is None:
                    raise
                ended = error
            idle = clock.start(place.flush, "quire-flush")
            while idle.is_alive() and not (cut and cut.hits):
                idle.join(0.01)
            if not proxy.settle():
                raise Damage("Requests were still under way after half a minute.")
            if cut is None or not cut.hits:
                return proxy.since(start), ended, None
            # The dead go on trying for a while, in vain; their port must not be given to another meanwhile.
            stack.callback(idle.join)
            _dying.submit(stack.pop_all().close)
            return proxy.since(start), ended, cut.hits[0]

    # -- what must hold afterwards ----------------------------------------------------------------------------

    def _check(self, uri: str, error: Exception | None) -> bool:
        found = observe(uri, self._s3.options)
        did = found == self.after
        if not did and found != self.before:
            raise Damage(f"The lake is neither as before nor as after: {_difference(found, self.before, self.after)}.")
        if self.before != self.after and self.operation.tells:
            self._check_word(uri, error, did)
        return did

    def _check_next(self, uri: str) -> None:
        """The next client finds nothing wrong, and goes on."""
        try:
            lake = quire.open(uri, storage_options=self._s3.options)
        except quire.errors.LakeNotFound:
            lake = quire.create(uri, storage_options=self._s3.options)
        with lake:
            self._verify(lake)
            if self.operation.finish is not None:
                self.operation.finish(lake)
            self._check_writable(lake)
            self._check_plain(lake)

    def _check_word(self, uri: str, error: Exception | None, did: bool) -> None:
        """What the client was told is true."""
        if error is None and not did:
            raise Damage("It reported success, and it is not there.")
        if error is not None and did and not isinstance(error, quire.CommitUnknown):
            raise Damage("It raised, which says that nothing was done, and it was done.")
        if isinstance(error, quire.CommitUnknown) and "slot" in error.fields:
            outcome = quire.open(uri, storage_options=self._s3.options, read_only=True).outcome(error)
            if (outcome is Outcome.COMMITTED) is not did:
                raise Damage(f"Its outcome is said to be {outcome.value}.")

    def _verify(self, lake: quire.Lake) -> None:
        wrong = [f for f in lake.verify().findings if f.check not in self.operation.finds]
        if wrong:
            raise Damage(f"verify: {'; '.join(f'{f.check} {f.where}: {f.message}' for f in wrong)}.")

    def _check_writable(self, lake: quire.Lake) -> None:
        before = lake.snapshot()
        with lake.transaction("the next client") as tx:
            tx.create_table("afterwards", [{"id": 1}])
            for name in before.tables():
                one = before[name].to_arrow().slice(0, 1)
                if one.num_rows and before[name].key:
                    tx[name].upsert(one)
                elif one.num_rows:
                    tx[name].append(one)
        if "afterwards" not in lake.snapshot():
            raise Damage("The next client's commit is not there.")

    def _check_plain(self, lake: quire.Lake) -> None:
        """Plain Lance clients see what was published."""
        import lance

        lake.flush()
        left = [p for p in lake.backfill() if p.outcome not in ("current", "promoted")]
        if left:
            raise Damage(f"backfill left {left}.")
        snapshot = lake.snapshot()
        for name in snapshot.tables():
            table = snapshot[name]
            location = table.describe()["location"]
            if location.endswith(".delta"):
                self._check_published(lake, name)
                continue
            plain = lance.dataset(f"{lake.uri}/{location}", storage_options=self._s3.options).to_table()
            if _rows(plain) != _rows(table.to_arrow()):
                raise Damage(f"Plain Lance clients see something else in table {name!r}.")

    def _check_published(self, lake: quire.Lake, name: str) -> None:
        """The log of a Delta table ends with the version that is pinned, and it is that very commit."""
        entry = lake._live.state.by_name(name)
        assert entry is not None
        format_ = lake._core.format(entry.pin.format)
        differs = format_.head_differs(entry.pin)
        if differs or not format_.is_at(entry.pin, format_.head(entry.pin).version, ""):
            raise Damage(f"Delta clients see something else in table {name!r}: {differs}")


def observe(uri: str, options: dict[str, str]) -> dict[str, Any] | None:
    """Everything that can be seen of a lake and is the same for every copy of it; None where there is none."""
    try:
        lake = quire.open(uri, storage_options=options, read_only=True)
    except quire.errors.LakeNotFound:
        return None
    seen: dict[str, Any] = {"tags": lake.tags()}
    for name in seen["tags"]:
        tagged = lake.at(tag=name)
        seen[f"tag {name}"] = {table: _rows(tagged[table].to_arrow()) for table in tagged.tables()}
    for info in lake.branches():
        branch = lake.branch(info.name)
        snapshot = branch.snapshot()
        seen[f"branch {info.name}"] = {"head": snapshot.commit, "epoch": branch._live.state.epoch}
        for name in snapshot.tables():
            table = snapshot[name]
            seen[f"table {name} on {info.name}"] = {
                "version": table.version,
                "key": table.key,
                "schema": str(table.schema),
                "indexes": sorted(index["name"] for index in table.indexes()),
                "rows": _rows(table.to_arrow()),
            }
    return seen


def _rows(table: Any) -> list[str]:
    """Rows to compare: their order and the order of columns are nobody's promise."""
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


def _difference(found: Any, before: Any, after: Any) -> str:
    if not (found and before and after):
        return f"found {found}"
    names = sorted(found.keys() | before.keys() | after.keys())
    odd = [n for n in names if before.get(n) != after.get(n) or found.get(n) not in (before.get(n), after.get(n))]
    return "; ".join(f"{n}: {found.get(n)} (before {before.get(n)}, after {after.get(n)})" for n in odd)


def uncovered(classes: Iterable[type], known: Iterable[str]) -> tuple[set[str], set[str]]:
    """Public names of these classes that are not known as `Class.name`, and known names that do not exist."""
    there = {f"{c.__name__}.{name}" for c in classes for name, _ in inspect.getmembers(c) if not name.startswith("_")}
    given = set(known)
    return there - given, given - there
