"""Commits that one process offers and another publishes. Two handles that were opened apart stand for two processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks.commits.memory_s3 import MemoryS3
from benchmarks.commits.places import OPTIONS
from tests.lake.crowd import wait_for

import quire
from quire.errors import CommitUnknown, Fenced, InvalidInput, KeyConflict
from quire.lake.commit.offering import Offering, rests_on
from quire.lake.publish.control_records import mark
from quire.ledger import Floor, encode
from quire.ledger.offers import FOLDER, LARGEST_OFFER, SPAN, Offer, named, offer_key, read_offer
from quire.ledger.records import decode, raw, seal
from quire.store import Outcome


def expects_rivals(lake: quire.Lake, *, patient: bool) -> None:
    """Make a handle believe that many others compete: a patient one waits long for somebody to take its commits."""
    offers = lake._live.offers
    offers.rivals, offers.round = (64.0, 1e6) if patient else (1.0, 1e-9)
    offers.hop = 0.001
    offers._until = float("inf")


class Handover:
    """An owner that waits for its commits to be taken, and a taker."""

    def __init__(self, uri: str) -> None:
        self.owner, self.taker = (
            quire.open(uri, author=who, backfill=False, offers=True) for who in ("owner", "taker")
        )
        expects_rivals(self.owner, patient=True)
        expects_rivals(self.taker, patient=False)
        self.outcome: list[Any] = []
        self._thread: threading.Thread | None = None

    def offer(self, work: Callable[[quire.Transaction], Any], **options: Any) -> Offer:
        """Begin a commit of the owner, and wait for its offer."""
        known = set(self.listed())

        def run() -> None:
            try:
                with self.owner.transaction("offered", **options) as tx:
                    work(tx)
                self.outcome.append(tx.receipt)
            except Exception as error:
                self.outcome.append(error)

        self._thread = threading.Thread(target=run)
        self._thread.start()
        wait_for(lambda: bool(set(self.listed()) - known))
        [key] = set(self.listed()) - known
        return read_offer(self.taker._core.store.get(key), key)

    def listed(self) -> list[str]:
        return [entry.key for entry in self.taker._core.store.list(FOLDER)]

    def commit(self, work: Callable[[quire.Transaction], Any]) -> quire.Receipt:
        """A commit of the taker."""
        with self.taker.transaction("taker's") as tx:
            work(tx)
        return tx.receipt

    def ended(self) -> Any:
        """What the owner was told."""
        assert self._thread is not None
        self._thread.join(30)
        assert not self._thread.is_alive(), "the owner waits for ever"
        return self.outcome[0]

    def lead(self) -> Any:
        """Let the owner publish by itself."""
        expects_rivals(self.owner, patient=False)
        self.owner._live.offers._until = float("-inf")
        return self.ended()


@pytest.fixture
def place(tmp_path: Path) -> str:
    uri = str(tmp_path / "lake")
    with quire.create(uri, backfill=False) as lake, lake.transaction("tables") as tx:
        for name in ("mine", "yours", "ours"):
            tx.create_table(name, [{"n": 0}])
        tx.create_table("keyed", [{"id": 0, "v": 0}], key="id")
    return uri


@pytest.fixture
def handover(place: str) -> Iterator[Handover]:
    found = Handover(place)
    yield found
    found.owner.close()
    found.taker.close()


def row(table: str, n: int = 1) -> Callable[[quire.Transaction], Any]:
    return lambda tx: tx[table].append([{"n": n}])


def rows(lake: quire.Lake, table: str) -> list[int]:
    lake.refresh()
    return sorted(r["n"] for r in lake.snapshot()[table].to_pylist())


# -- taken ------------------------------------------------------------------------------------------------------------


def test_a_commit_is_published_by_whoever_comes_next_and_its_owner_is_told_its_id(handover: Handover) -> None:
    offer = handover.offer(row("mine"), metadata={"job": "7"})
    assert (offer.base, offer.until) == (1, 1 + SPAN)

    taken = handover.commit(row("yours"))

    told = handover.ended()
    assert (taken.commit, told.commit) == ("2.0", "2.1")
    assert told.tables["mine"].added == 1
    [newest, before] = list(handover.taker.log())[:2]
    assert (newest.id, newest.author, newest.message, newest.metadata) == ("2.1", "owner", "offered", {"job": "7"})
    assert before.id == "2.0"
    for lake in (handover.owner, handover.taker):
        assert (rows(lake, "mine"), rows(lake, "yours")) == ([0, 1], [0, 1])
    assert handover.taker.verify().ok


def test_rows_of_one_table_are_added_behind_those_of_others(handover: Handover) -> None:
    handover.offer(row("ours", 1))
    handover.commit(row("yours"))  # before the owner looks: taken as it was staged
    handover.ended()
    handover.outcome.clear()

    handover.offer(row("ours", 2))
    handover.commit(row("ours", 3))

    assert handover.ended().commit == "3.1"
    assert rows(handover.owner, "ours") == [0, 1, 2, 3]
    versions = [handover.taker.at(commit=c)["ours"].version for c in ("2.0", "2.1", "3.0", "3.1")]
    assert versions == [1, 2, 3, 4]
    assert [r["n"] for r in handover.taker.at(commit="3.0")["ours"].to_pylist()] == [0, 1, 3]
    assert handover.taker.verify(deep=True).ok


def test_inserts_of_other_keys_come_along_and_of_the_same_key_do_not(handover: Handover) -> None:
    handover.offer(lambda tx: tx["keyed"].insert([{"id": 1, "v": 1}]))
    handover.commit(lambda tx: tx["keyed"].insert([{"id": 2, "v": 2}]))
    assert handover.ended().commit == "2.1"
    handover.outcome.clear()

    handover.offer(lambda tx: tx["keyed"].insert([{"id": 3, "v": 1}]))
    handover.commit(lambda tx: tx["keyed"].insert([{"id": 3, "v": 2}]))

    assert isinstance(handover.lead(), KeyConflict)
    handover.taker.refresh()
    assert handover.taker.snapshot()["keyed"].count() == 4


@pytest.mark.parametrize("what", ["update", "delete", "upsert", "overwrite"])
def test_what_rests_on_a_table_that_moved_is_left_to_its_owner(handover: Handover, what: str) -> None:
    def change(tx: quire.Transaction) -> None:
        table = tx["keyed"]
        {
            "update": lambda: table.update({"v": "v + 1"}, where="id = 0"),
            "delete": lambda: table.delete("id = 0"),
            "upsert": lambda: table.upsert([{"id": 0, "v": 5}]),
            "overwrite": lambda: table.overwrite([{"id": 7, "v": 7}]),
        }[what]()

    handover.offer(change)
    assert handover.commit(lambda tx: tx["keyed"].upsert([{"id": 9, "v": 9}])).commit == "2.0"

    assert len(list(handover.taker.log())) == 3
    handover.lead()
    assert handover.taker.verify().ok


def test_the_owner_may_lead_at_any_time(handover: Handover) -> None:
    handover.offer(row("mine"))
    assert handover.lead().commit == "2.0"
    handover.taker._live.offers.met(5)
    assert handover.commit(row("yours")).commit == "3.0", "what is in the log is not taken again"
    assert rows(handover.taker, "mine") == [0, 1]


# -- left alone -------------------------------------------------------------------------------------------------------


def test_a_floor_ends_every_offer_before_it(handover: Handover, place: str) -> None:
    handover.offer(row("mine"), timeout=0.5)
    error = handover.ended()  # it sees no floor, and offers no more
    assert isinstance(error, CommitUnknown)
    with quire.open(place, backfill=False) as other:
        mark(other._live, "floor", Floor(slot=1, horizon=datetime(2020, 1, 1, tzinfo=UTC)))
    assert handover.commit(row("yours")).commit == "3.0"
    assert rows(handover.taker, "mine") == [0]
    assert handover.owner.outcome(error) is Outcome.UNKNOWN, "the log is not beyond its last slot"


def test_a_writer_offers_again_after_a_floor(handover: Handover, place: str) -> None:
    handover.offer(row("mine"))
    with quire.open(place, backfill=False) as other:
        mark(other._live, "floor", Floor(slot=1, horizon=datetime(2020, 1, 1, tzinfo=UTC)))
    wait_for(lambda: any(f"-{2:020d}-" in key for key in handover.listed()))
    assert handover.commit(row("yours")).commit == "3.0"
    assert handover.ended().commit == "3.1"


def test_a_claim_ends_every_offer_before_it(handover: Handover, place: str) -> None:
    handover.offer(row("mine"))
    with quire.open(place, backfill=False, offers=True) as heir:
        heir.claim()
        expects_rivals(heir, patient=False)
        with heir.transaction("heir's") as tx:
            tx["yours"].append([{"n": 1}])
        assert rows(heir, "mine") == [0]
    assert isinstance(handover.lead(), Fenced)


def forged(offer: Offer, **parts: Any) -> Offer:
    return msgspec.structs.replace(offer, **parts)


def _elsewhere(offer: Offer) -> Offer:
    [change] = offer.commit.changes
    assert change.pin is not None
    pin = msgspec.structs.replace(change.pin, location="s3://elsewhere/t")
    return _with(offer, msgspec.structs.replace(change, pin=pin))


def _with(offer: Offer, change: Any) -> Offer:
    return forged(offer, commit=msgspec.structs.replace(offer.commit, changes=(change,)))


def _counted(offer: Offer) -> Offer:
    [change] = offer.commit.changes
    assert change.pin is not None
    return _with(offer, msgspec.structs.replace(change, pin=msgspec.structs.replace(change.pin, counter=9)))


FORGERIES: dict[str, Callable[[Offer], Offer]] = {
    "another log": lambda o: forged(o, branch="0" * 16),
    "another record before it": lambda o: forged(o, previous="0" * 16),
    "another epoch": lambda o: forged(o, epoch=o.epoch + 1),
    "a base that is not there": lambda o: forged(o, base=o.base + 50, until=o.until + 50),
    "a table elsewhere": _elsewhere,
    "a counter that leaps": _counted,
    "another state of its table": lambda o: forged(o, needs=dict.fromkeys(o.needs, "77")),
    "a table that is not there": lambda o: forged(o, needs={**o.needs, "0" * 16: "1"}),
    "another name": lambda o: _with(o, msgspec.structs.replace(o.commit.changes[0], name="yours")),
    "an author that is too long": lambda o: forged(o, commit=msgspec.structs.replace(o.commit, author="x" * 20_000)),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_offer_is_never_taken(handover: Handover, kind: str) -> None:
    offer = handover.offer(row("mine"))
    store = handover.taker._core.store
    store.delete(offer.key)
    wrong = FORGERIES[kind](forged(offer, commit=msgspec.structs.replace(offer.commit, write="f" * 16)))
    store.put(f"{FOLDER}/{offer.branch}/{wrong.key.rpartition('/')[2]}", raw(wrong))

    assert handover.commit(row("yours")).commit == "2.0"
    assert len(list(handover.taker.log())) == 3
    assert handover.lead().commit == "3.0"
    assert rows(handover.taker, "mine") == [0, 1]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "more"])
def test_a_damaged_offer_is_left_alone_and_reported(handover: Handover, damage: str) -> None:
    offer = handover.offer(row("mine"))
    store, body = handover.taker._core.store, encode(offer)
    newer = seal(body[: body.index(b',"sum"')] + b',"later":1}')
    store.put(
        offer.key,
        {"cut": body[:-9], "flipped": body.replace(b"offered", b"0ffered"), "empty": b"", "text": b"{", "more": newer}[
            damage
        ],
    )
    assert handover.commit(row("yours")).commit == "2.0"
    assert len(list(handover.taker.log())) == 3

    findings = handover.taker.verify().findings
    assert [(f.check, f.where) for f in findings] == ([] if damage == "more" else [("offer", offer.key)])
    assert handover.lead().commit == "3.0"


def test_an_offer_says_only_what_an_owner_could_have_staged(handover: Handover) -> None:
    offer = handover.offer(row("mine"))
    [change] = offer.commit.changes
    wrong: list[dict[str, Any]] = [
        {"until": offer.base + SPAN + 1},
        {"until": offer.base},
        {"needs": {}},
        {"additions": {"0" * 16: "[]"}},
        *(
            {"commit": msgspec.structs.replace(offer.commit, changes=changes)}
            for changes in (
                (),
                (change, change),
                (msgspec.structs.replace(change, ops=("drop",), pin=None),),
                (msgspec.structs.replace(change, ops=("schema",)),),
                (msgspec.structs.replace(change, pin=None),),
            )
        ),
    ]
    for parts in wrong:
        with pytest.raises(ValueError, match="it |what "):
            forged(offer, **parts)
    handover.lead()


def test_names_of_offers_are_checked_before_anything_is_read() -> None:
    assert named(offer_key("log", 9, 8, "ab")) is not None
    for key in ("", "x", offer_key("log", 8, 8, "ab"), offer_key("log", 99, 8, "ab"), offer_key("log", 9, 8, "a/../b")):
        assert named(key) is None
    assert LARGEST_OFFER < 64 * 1024


# -- what its owner is told -------------------------------------------------------------------------------------------


def test_a_deadline_after_the_offer_leaves_an_outcome_that_is_settled_by_the_log(handover: Handover) -> None:
    handover.offer(row("mine"), timeout=2.0)
    error = handover.ended()
    assert isinstance(error, CommitUnknown)
    assert (error.fields["slot"], error.fields["until"]) == (2, 1 + SPAN)
    assert handover.owner.outcome(error) is Outcome.UNKNOWN

    handover.commit(row("yours"))

    for what in (error, error.token):
        assert handover.owner.outcome(what) is Outcome.COMMITTED
    assert rows(handover.taker, "mine") == [0, 1]


def test_an_offer_that_nobody_took_is_refused_for_certain_when_the_log_is_beyond_it(handover: Handover) -> None:
    handover.offer(row("mine"), timeout=1.0)
    error = handover.ended()
    assert isinstance(error, CommitUnknown)
    handover.taker._live.offers._until = float("-inf")
    handover.taker._core.offers = False
    for number in range(SPAN):
        assert handover.owner.outcome(error) is Outcome.UNKNOWN
        handover.commit(row("yours", number))
    assert handover.owner.outcome(error) is Outcome.CONFLICT
    assert rows(handover.taker, "mine") == [0]


def test_tokens_of_outcomes_name_a_sane_range_of_slots(handover: Handover) -> None:
    for token in ("log/5-4/w", "log/5-99999/w", "log/5-/w"):
        with pytest.raises(InvalidInput, match="is not the token"):
            handover.owner.outcome(token)


# -- who offers -------------------------------------------------------------------------------------------------------


def test_on_a_quiet_branch_nobody_lists_or_offers(place: str) -> None:
    found = []
    for offers in (True, False):
        with quire.open(place, backfill=False, offers=offers) as lake:
            for _ in range(2):
                with lake.transaction() as tx:
                    tx["mine"].append([{"n": 1}])
            found.append((tx.receipt.cost["requests"], tx.receipt.cost["hops"]))
    assert found[0] == found[1]
    assert "list" not in found[0][0]


@pytest.mark.parametrize("off", ["argument", "environment"])
def test_offers_can_be_switched_off(place: str, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    monkeypatch.setenv("QUIRE_OFFERS", "0" if off == "environment" else "1")
    with quire.open(place, backfill=False, offers=False if off == "argument" else None) as lake:
        expects_rivals(lake, patient=True)
        with lake.transaction() as tx:
            tx["mine"].append([{"n": 1}])
        assert tx.receipt.commit == "2.0"
        assert list(lake._core.store.list(FOLDER)) == []


def test_the_manifest_ledger_knows_no_offers(tmp_path: Path) -> None:
    with quire.create(tmp_path / "lake", ledger="manifest", backfill=False, offers=True) as lake:
        assert not lake._live.offers.on


CHANGES: dict[str, Callable[[quire.Transaction], Any]] = {
    "create": lambda tx: tx.create_table("new", [{"n": 1}]),
    "rename": lambda tx: tx.rename_table("mine", "renamed"),
    "drop": lambda tx: tx.drop_table("mine"),
    "schema": lambda tx: tx["mine"].add_columns({"m": "n"}),
    "index": lambda tx: tx["mine"].create_index("n"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_changes_more_than_rows_is_not_offered(place: str, kind: str) -> None:
    with quire.open(place, backfill=False, offers=True) as lake:
        tx = lake.transaction(kind)
        row("yours")(tx)
        assert rests_on(tx) is not None
        CHANGES[kind](tx)
        assert rests_on(tx) is None
        tx.discard()


@pytest.mark.parametrize("options", [{"if_head": "1.0"}, {"expect": {"nothing": 0}}])
def test_what_is_about_the_head_or_about_a_table_that_is_not_there_is_not_offered(place: str, options: Any) -> None:
    with quire.open(place, backfill=False, offers=True) as lake:
        tx = lake.transaction(**options)
        row("yours")(tx)
        assert rests_on(tx) is None
        tx.discard()


def test_processes_share_slots_unless_told_otherwise(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUIRE_OFFERS", raising=False)
    with quire.open(place, backfill=False) as lake:
        assert lake._live.offers.on


def test_offers_that_are_over_are_removed(handover: Handover) -> None:
    offer = handover.offer(row("mine"))
    assert handover.taker.status()["offers"] == {"on": True, "waiting": 1}
    handover.commit(row("yours"))
    handover.ended()
    handover.owner.flush()
    wait_for(lambda: offer.key not in handover.listed())


def test_cleanup_removes_offers_of_the_dead(handover: Handover, place: str) -> None:
    offer = handover.offer(row("mine"), timeout=0.5)
    assert isinstance(handover.ended(), CommitUnknown)
    handover.commit(row("yours"))
    assert offer.key in handover.listed()
    time.sleep(6)  # the margin
    with quire.open(place, backfill=False, offers=True) as lake:
        lake.cleanup(keep=1, older_than=timedelta(0), grace=timedelta(0))
    assert offer.key not in handover.listed()
    assert handover.taker.verify().ok


def test_offers_are_read_as_they_were_written(handover: Handover) -> None:
    offer = handover.offer(row("mine"))
    assert decode(encode(offer), Offer, offer.key) == offer
    handover.lead()


def test_a_handle_knows_how_far_the_store_is_from_its_own_slots(tmp_path: Path) -> None:
    """Before it has waited for anybody: it is what tells it how long others take to come by."""
    with MemoryS3() as server:
        options = {**OPTIONS, "aws_endpoint": server.endpoint}
        with quire.create("s3://lake/far", storage_options=options, backfill=False) as lake:
            server.latency = 0.2
            lake.create_table("mine", [{"n": 1}])
            assert lake._live.offers.hop >= 0.2


@pytest.mark.parametrize("losses", [2, 3, 10])
@pytest.mark.parametrize("hop", [0.0005, 0.05, 0.5])
def test_a_writer_that_loses_again_offers_more_often_than_not_however_far_the_store_is(
    place: str, hop: float, losses: int
) -> None:
    offering = 0
    with quire.open(place, backfill=False, offers=True) as lake:
        lake._live.offers.took(hop)
        for _ in range(100):
            tx = lake.transaction()
            row("mine")(tx)
            turn = Offering(tx)
            for _ in range(losses):
                turn.lost(1)
            offering += turn.waits
            tx.discard()
    assert offering > 40
