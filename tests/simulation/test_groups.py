"""Threads of one simulated program share slots, and the model knows every commit in them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import quire
from quire.errors import CommitUnknown, QuireError
from quire.ledger import Point
from quire.store import Outcome, clock
from quire.testing import memory
from quire.testing.simulation import Fault, Faults, Process, SimulatedWorld
from quire.testing.simulation.model import Model

URI = "sim://bucket/lake"


class Slow(Faults):
    """Slots take a second; whoever comes meanwhile waits for the next one, slot 3, and shares it.

    The faults befall the write of slot 3 and the requests for it that follow.
    """

    def __init__(self, *faults: Fault) -> None:
        self.faults = list(faults)
        self.begun = False

    def draw(self, process: Process, verb: str, key: str) -> Fault | None:
        if not key.endswith(f"{3:020d}"):
            return None
        self.begun = self.begun or verb == "create"
        return self.faults.pop(0) if self.begun and self.faults else None

    def latency(self, process: Process, verb: str, key: str) -> float:
        return 1.0 if verb == "create" and "/log/" in key else 0.0


@dataclass
class Crowd:
    """What four threads were told that append a row each, at the same moment."""

    world: SimulatedWorld
    model: Model
    told: dict[int, Any] = field(default_factory=dict)
    settled: dict[int, Outcome] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """How many commits each slot holds, after the first table was made."""
        return [len(record.commits) for slot, record in self.log.records.items() if slot > 1]

    @property
    def log(self) -> Any:
        return self.model.logs[self.model.main]


def crowd(*faults: Fault, look: Callable[[quire.Lake, Crowd], None] = lambda lake, crowd: None) -> Crowd:
    memory.install()
    world = SimulatedWorld(7, faults=Slow(*faults))
    crowd = Crowd(world, Model(world.bucket, "lake"))

    def append(lake: quire.Lake, number: int) -> None:
        try:
            with lake.transaction(f"row {number}") as tx:
                tx["t"].append([{"n": number}])
            crowd.told[number] = tx.receipt.commit if tx.status == "committed" else None
        except QuireError as error:
            crowd.told[number] = error

    def program() -> None:
        lake = quire.open(URI, backfill=False)
        threads = [clock.start(lambda n=n: append(lake, n), f"{n}") for n in range(1, 5)]  # type: ignore[misc]
        for thread in threads:
            thread.join()
        clock.sleep(60)
        for number, error in crowd.told.items():
            if isinstance(error, CommitUnknown):
                crowd.settled[number] = lake.outcome(error)

    with clock.using(world):
        lake = quire.create(URI, backfill=False)
        with lake.transaction("table") as tx:
            tx.create_table("t", [{"n": 0}], format="memory")
        world.scheduler.spawn(Process("p"), "main", program)
        world.scheduler.run()
        assert world.scheduler.errors == []
        look(quire.open(URI, read_only=True), crowd)
    assert crowd.model.violations == []
    return crowd


def test_whoever_comes_while_a_slot_is_written_shares_the_next() -> None:
    found = crowd()
    assert found.sizes == [1, 3]
    assert sorted(found.told.values()) == ["2.0", "3.0", "3.1", "3.2"]
    assert found.model.counts["grouped commit"] == 3
    assert found.model.counts["fused"] == 2


def test_the_model_knows_every_commit_of_a_slot() -> None:
    def look(lake: quire.Lake, crowd: Crowd) -> None:
        model = crowd.model
        for index in range(3):
            at = Point(branch=model.main, slot=3, index=index)
            state, before = model.state(at), model.before(at)
            assert state is not None
            assert before is not None
            assert state.partial == (index < 2)
            assert before.head.commit == ("2.0" if index == 0 else f"3.{index - 1}")
            [mine] = (
                model.rows(state.tables[next(iter(state.tables))].pin).keys()
                - model.rows(before.tables[next(iter(before.tables))].pin).keys()
            )
            assert crowd.told[mine] == f"3.{index}"
            snapshot = lake.at(commit=f"3.{index}")
            assert model.seen(snapshot._state) is state
            assert len(snapshot["t"].to_pylist()) == 3 + index
        commits = [state.head.commit for state in model.between(model.main, (2, 0), (3, 1))]
        assert commits == ["2.0", "3.0", "3.1"]
        assert [after.head.commit for _, _, _, after in model.chain(model.main)] == ["1.0", "2.0", "3.0", "3.1", "3.2"]

    crowd(look=look)


def test_a_state_that_never_was_is_not_seen() -> None:
    def look(lake: quire.Lake, crowd: Crowd) -> None:
        whole, part = lake.snapshot()._state, lake.at(commit="3.1")._state
        assert crowd.model.seen(whole) == crowd.log.states[3]
        mixed = type(whole)(
            **{**{f: getattr(whole, f) for f in whole.__struct_fields__}, "head": crowd.log.states[2].head}
        )
        assert crowd.model.seen(mixed) is None, "slot 3 without any of its commits"
        assert crowd.model.seen(part) == crowd.log.commits[3, 1] != crowd.log.states[3]

    crowd(look=look)


def test_a_lost_answer_is_unknown_to_every_member_and_settled_for_each() -> None:
    found = crowd("after", *["before"] * 8)
    assert found.sizes == [1, 3]
    unknown = {number for number, told in found.told.items() if isinstance(told, CommitUnknown)}
    assert len(unknown) == 3
    assert {found.told[number].fields["write"] for number in unknown} == {
        commit.write for commit in found.log.records[3].commits
    }
    assert found.settled == dict.fromkeys(unknown, Outcome.COMMITTED)


@pytest.mark.parametrize(("fault", "sizes"), [("crash before", [1]), ("crash after", [1, 3])])
def test_a_program_that_dies_takes_its_whole_group_along(fault: Fault, sizes: list[int]) -> None:
    found = crowd(fault)
    assert found.sizes == sizes
    assert list(found.told.values()) == ["2.0"]
