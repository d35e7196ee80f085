"""The simulated store: each fault does what it says, and the rest is what object stores promise."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quire.errors import PermissionDenied, StorageError
from quire.store import Outcome, Store, clock
from quire.testing.simulation import Crashed, Fault, Faults, Process, SimulatedWorld


class At(Faults):
    """One fault at the first request with this verb; every request takes `seconds`."""

    def __init__(self, verb: str, fault: Fault, *, times: int = 1, seconds: float = 0.0) -> None:
        self.verb, self.fault, self.left, self.seconds = verb, fault, times, seconds

    def draw(self, process: Process, verb: str, key: str) -> Fault | None:
        if verb != self.verb or not self.left:
            return None
        self.left -= 1
        return self.fault

    def latency(self, process: Process, verb: str, key: str) -> float:
        return self.seconds

    def outage(self) -> float:
        return 1000.0

    def lateness(self) -> float:
        return 500.0


def ours(found: bytes) -> bool:
    return found == b"mine"


@pytest.fixture
def in_process() -> Iterator[Callable[..., Any]]:
    """Run something on a store, inside a simulated process; gives its result, or raises its error."""

    def run(work: Callable[[Store], Any], faults: Faults | None = None) -> tuple[Any, SimulatedWorld]:
        world = SimulatedWorld(1, faults=faults)
        done: list[Any] = []

        def main() -> None:
            try:
                done.append(work(Store.open("sim://bucket")))
            except Exception as error:
                done.append(error)

        with clock.using(world):
            world.scheduler.spawn(Process("p"), "main", main)
            world.scheduler.run()
        assert not world.scheduler.errors
        return (done[0] if done else "dead"), world

    return run


def bytes_of(world: SimulatedWorld, key: str = "k") -> bytes | None:
    found = world.bucket.objects.get(key)
    return found[0] if found else None


def test_without_faults_it_is_a_store(in_process: Any) -> None:
    def work(store: Store) -> None:
        store.put("a/1", b"one")
        store.put("a/2", b"two")
        store.put("b", b"three")
        assert store.get("a/1") == b"one"
        assert store.get_range("b", 2, 2) == b"re"
        assert store.create("a/1", b"mine", mine=ours).outcome is Outcome.CONFLICT
        assert store.create("c", b"mine", mine=ours).outcome is Outcome.COMMITTED
        store.delete("a/2")
        store.delete("a/2")
        assert store.get_or_none("a/2") is None
        assert [e.key for e in store.list("a")] == ["a/1"]
        assert [e.key for e in store.list("")] == ["a/1", "b", "c"]
        assert [e.key for e in store.list("", after="a/1")] == ["b", "c"]
        found = store.stat("b")
        assert found is not None
        assert found.size == 5

    result, _ = in_process(work)
    assert result is None


def test_a_listing_comes_in_pages_between_which_others_act(in_process: Any) -> None:
    class Small(Faults):
        def page(self) -> int:
            return 2

        def latency(self, process: Process, verb: str, key: str) -> float:
            return 1.0

    def work(store: Store) -> list[str]:
        for name in "abcde":
            store.put(name, b"")
        seen = []
        for entry in store.list(""):
            seen.append(entry.key)
            if entry.key == "a":
                store.delete("d")
        return seen

    result, world = in_process(work, Small())
    assert result == ["a", "b", "c", "e"]
    assert world.scheduler.now == 9.0  # five puts, a delete, three pages


@pytest.mark.parametrize(("fault", "there"), [("before", None), ("after", b"x")])
def test_a_request_fails_before_or_after_its_effect(in_process: Any, fault: Fault, there: bytes | None) -> None:
    result, world = in_process(lambda store: store.put("k", b"x"), At("put", fault, times=9))
    assert isinstance(result, StorageError)
    assert bytes_of(world) == there


def test_a_lost_answer_to_a_create_is_settled_by_reading_back(in_process: Any) -> None:
    result, world = in_process(lambda store: store.create("k", b"mine", mine=ours), At("create", "after"))
    assert result.outcome is Outcome.COMMITTED
    assert bytes_of(world) == b"mine"


def test_a_create_that_the_transport_repeats_meets_itself(in_process: Any) -> None:
    result, _ = in_process(lambda store: store.create("k", b"mine", mine=ours), At("create", "twice"))
    assert result.outcome is Outcome.COMMITTED


def test_a_late_request_lands_after_its_sender_gave_up(in_process: Any) -> None:
    def work(store: Store) -> object:
        outcome = store.create("k", b"mine", mine=ours).outcome
        return outcome, store.get_or_none("k")

    result, world = in_process(work, At("create", "late", times=9))
    assert result == (Outcome.UNKNOWN, None)
    assert bytes_of(world) == b"mine"
    assert world.scheduler.now >= 500


def test_a_late_create_loses_to_whoever_came_first(in_process: Any) -> None:
    def work(store: Store) -> object:
        outcome = store.create("k", b"mine", mine=ours).outcome
        store.put("k", b"theirs")
        return outcome

    result, world = in_process(work, At("create", "late", times=9))
    assert result is Outcome.UNKNOWN
    assert bytes_of(world) == b"theirs"


def test_what_is_denied_is_told_so(in_process: Any) -> None:
    result, world = in_process(lambda store: store.put("k", b"x"), At("put", "denied"))
    assert isinstance(result, PermissionDenied)
    assert bytes_of(world) is None


def test_who_is_cut_off_reaches_nothing_for_a_while(in_process: Any) -> None:
    def work(store: Store) -> str:
        with pytest.raises(StorageError):
            store.get("k")
        with pytest.raises(StorageError):
            store.stat("k")
        clock.sleep(1000)
        store.put("k", b"x")
        return "reached"

    result, _ = in_process(work, At("get", "cut"))
    assert result == "reached"


@pytest.mark.parametrize(("fault", "there"), [("crash before", None), ("crash after", b"x")])
def test_a_crash_unwinds_the_process_and_nothing_runs_after_it(
    in_process: Any, fault: Fault, there: bytes | None
) -> None:
    told: list[str] = []

    def work(store: Store) -> None:
        try:
            store.put("k", b"x")
        except Exception:
            told.append("survived")
        finally:
            with pytest.raises(Crashed):
                store.put("after", b"death")

    result, world = in_process(work, At("put", fault))
    assert (result, told) == ("dead", [])
    assert bytes_of(world) == there
    assert bytes_of(world, "after") is None


def test_one_request_runs_between_send_and_answer_of_another() -> None:
    world = SimulatedWorld(3, faults=At("none", "before", seconds=1.0))
    order: list[str] = []

    def program(name: str) -> Callable[[], None]:
        def work() -> None:
            store = Store.open("sim://bucket")
            for number in range(3):
                store.put(f"{name}{number}", b"")
                order.append(name)

        return work

    with clock.using(world):
        world.scheduler.spawn(Process("a"), "main", program("a"))
        world.scheduler.spawn(Process("b"), "main", program("b"), delay=0.5)
        world.scheduler.run()
    assert order == ["a", "b"] * 3


def test_a_simulated_address_needs_a_simulated_world() -> None:
    with pytest.raises(RuntimeError, match="simulated world"):
        Store.open("sim://bucket")
