"""Time, randomness and threads come from one place, so that a simulation can replace them."""

import ast
import threading
from pathlib import Path

import pytest

import quire
from quire.store import clock, run_parallel, submit

ROOM = Path(quire.__file__).parent
DIRECT = {
    "time": {"monotonic", "monotonic_ns", "sleep", "time", "time_ns"},
    "random": None,
    "secrets": None,
    "uuid": None,
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "threading": {"Thread", "Timer", "Condition", "Event", "RLock", "Semaphore", "Barrier"},
}
"""By module or class, what is forbidden; None: all of it. `threading.Lock` guards memory and is held by no request."""
ALLOWED = {
    ("store/threads.py", "threading.Condition"),  # a simulated group is never waited for
    ("lake/read/sql_limits.py", "threading.Timer"),  # it bounds the work of DuckDB, which no clock of ours moves
}


def _modules() -> list[Path]:
    found = [path for layer in ("store", "ledger", "lake") for path in (ROOM / layer).rglob("*.py")]
    assert len(found) > 20
    return [path for path in found if path.name != "clock.py"]


def direct_uses(source: str) -> set[str]:
    """Names such as `time.sleep` that a source text uses itself."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = DIRECT.get(node.value.id, set())
            if names is None or node.attr in names:
                found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in DIRECT and node.module != "datetime":
            names = DIRECT[node.module]
            found |= {f"{node.module}.{a.name}" for a in node.names if names is None or a.name in names}
    return found


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(ROOM)))
def test_nothing_asks_the_system_for_time_chance_or_threads(path: Path) -> None:
    name = path.relative_to(ROOM).as_posix()
    found = {use for use in direct_uses(path.read_text()) if (name, use) not in ALLOWED}
    assert not found, f"{name} uses {', '.join(sorted(found))}; take it from quire.store.clock"


def test_the_search_sees_each_way_to_ask() -> None:
    assert direct_uses("import time\ntime.sleep(1)") == {"time.sleep"}
    assert direct_uses("from time import monotonic") == {"time.monotonic"}
    assert direct_uses("datetime.now(UTC)") == {"datetime.now"}
    assert direct_uses("threading.Thread(target=f)") == {"threading.Thread"}
    assert direct_uses("secrets.token_hex(8)") == {"secrets.token_hex"}
    assert direct_uses("time.perf_counter()") == set()


class Still(clock.World):
    """A world in which time stands and everything happens on one thread, last call first."""

    simulated = True

    def monotonic(self) -> float:
        return 7.0

    def random_bytes(self, count: int) -> bytes:
        return b"\x01" * count

    def order(self, count: int) -> range:
        return range(count - 1, -1, -1)


def test_a_world_answers_for_the_context_it_was_put_in() -> None:
    with clock.using(Still()):
        assert clock.monotonic() == 7.0
        assert clock.token() == "01" * 8
    assert clock.monotonic() != 7.0
    assert clock.token() != clock.token()


def test_a_simulated_world_runs_parallel_calls_alone_and_in_its_order() -> None:
    ran: list[int] = []
    threads = set()

    def call(index: int) -> int:
        ran.append(index)
        threads.add(threading.current_thread())
        return index * 10

    with clock.using(Still()):
        assert run_parallel([lambda i=i: call(i) for i in range(3)]) == [0, 10, 20]
        future = submit(lambda: call(9))
        assert future.done()
        assert future.result() == 90
    assert ran == [2, 1, 0, 9]
    assert threads == {threading.current_thread()}


def test_an_error_of_a_simulated_submit_is_in_its_future() -> None:
    with clock.using(Still()):
        future = submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        future.result()
