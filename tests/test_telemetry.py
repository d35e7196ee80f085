"""What monitoring is told: Prometheus text, spans and metrics, and nothing where nobody listens."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.store.watched import Points, Spans, measured, traced

import quire
from quire import telemetry
from quire.errors import Conflict
from quire.store import Store, metering, phase, record_external, record_retry, totals

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def memory() -> Store:
    return Store.open(f"memory://telemetry-{uuid.uuid4().hex}")


@pytest.fixture
def spans() -> Iterator[Spans]:
    with traced() as found:
        yield found


def samples() -> Samples:
    """The text, read by the reference parser: values by name and labels."""
    families = list(text_string_to_metric_families(quire.metrics()))
    assert {f.type for f in families} == {"counter", "histogram"}
    assert all(f.documentation for f in families)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def grown(before: Samples, after: Samples) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for (name, labels), value in after.items():
        more = value - before.get((name, labels), 0.0)
        if more:
            found.setdefault(name, {})[labels] = more
    return found


def commit(store: Store, outcome: str, *, gets: int = 1, fail: type[BaseException] | None = None) -> None:
    """As the lake reports a commit."""
    with metering() as meter, telemetry.operation("commit", meter, {"quire.branch": "main"}) as told:
        for _ in range(gets):
            store.get_or_none("k")
        told.outcome = outcome
        if fail is not None:
            raise fail("row 7 of table people: Ada")


# -- Prometheus --------------------------------------------------------------------------------------------------------


def test_requests_bytes_and_retries_are_told(memory: Store) -> None:
    before = samples()
    memory.put("k", b"12345")
    memory.get("k")
    memory.get("k")
    record_retry()
    first = totals()["external"].get("somebody", 0)
    record_external("somebody", "append", window=(first + 5, first + 12), hops=1, start=0.0, end=1.0)
    assert grown(before, samples()) == {
        "quire_requests_total": {
            (("kind", "put"), ("system", "quire")): 1,
            (("kind", "get"), ("system", "quire")): 2,
            (("system", "somebody"),): 7,
        },
        "quire_bytes_total": {(("direction", "in"),): 10, (("direction", "out"),): 5},
        "quire_retries_total": {(): 1},
    }


def test_commits_are_told_by_outcome_with_their_hops_and_seconds(memory: Store) -> None:
    before = samples()
    commit(memory, "committed", gets=4)
    commit(memory, "committed", gets=60)
    with pytest.raises(Conflict):
        commit(memory, "conflict", gets=1, fail=Conflict)
    found = grown(before, samples())
    assert found["quire_commits_total"] == {(("outcome", "committed"),): 2, (("outcome", "conflict"),): 1}
    assert found["quire_commit_hops_count"] == {(("outcome", "committed"),): 2, (("outcome", "conflict"),): 1}
    assert found["quire_commit_hops_sum"] == {(("outcome", "committed"),): 64, (("outcome", "conflict"),): 1}
    assert found["quire_commit_seconds_count"] == found["quire_commit_hops_count"]
    assert set(found["quire_commit_seconds_sum"]) == set(found["quire_commits_total"])


def test_a_bucket_holds_everything_up_to_its_bound(memory: Store) -> None:
    before = samples()
    for hops in (3, 4, 5, 1000):
        commit(memory, "committed", gets=hops)
    found = {dict(labels)["le"]: n for labels, n in grown(before, samples())["quire_commit_hops_bucket"].items()}
    assert {le: found.get(le, 0) for le in ("2", "3", "4", "5", "50", "+Inf")} == {
        "2": 0,
        "3": 1,
        "4": 2,
        "5": 3,
        "50": 3,
        "+Inf": 4,
    }


def test_every_outcome_is_there_before_it_happens() -> None:
    outcomes = {dict(labels)["outcome"] for name, labels in samples() if name == "quire_commits_total"}
    assert outcomes == set(telemetry.OUTCOMES)


def test_only_what_was_opened_is_counted_as_opened(memory: Store) -> None:
    before = samples()
    for name in ("open", "snapshot", "snapshot"):
        with metering() as meter, telemetry.operation(name, meter, {}) as told:  # type: ignore[arg-type]
            told.outcome = "opened"
    with metering() as meter, telemetry.operation("snapshot", meter, {}):
        pass
    assert grown(before, samples()) == {"quire_opens_total": {(): 1}, "quire_snapshots_total": {(): 2}}


def test_labels_are_escaped() -> None:
    name = 'a\\nb"c\nd'
    before = samples()
    record_external(name, "append", window=(0, 1), hops=1, start=0.0, end=1.0)
    assert (("system", name),) in {labels for name, labels in samples() if name == "quire_requests_total"}
    assert set(grown(before, samples())) <= {"quire_requests_total"}


def test_the_text_has_the_form_that_was_promised() -> None:
    text = quire.metrics()
    assert text.endswith("\n")
    assert not [line for line in text.splitlines() if not line.strip()]
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert all(name.startswith("quire_") for name in names)


FORK = """
import os
import quire
lake = quire.create("memory://parent")
lake.create_table("t", [{"id": 1}])
def report():
    return "".join(line + "\\n" for line in quire.metrics().splitlines() if line[0] != "#" and line.split()[1] != "0")
child = os.fork()
if child == 0:
    os.write(1, f"child:{report()}\\n".encode())
    os._exit(0)
os.waitpid(child, 0)
print("parent:", report())
"""


def test_a_forked_child_has_metrics_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("child:\nparent:")
    assert 'quire_commits_total{outcome="committed"} 1' in done.stdout


# -- OpenTelemetry -----------------------------------------------------------------------------------------------------


def test_an_operation_is_a_span_with_what_it_took(memory: Store, spans: Spans) -> None:
    with (
        metering() as meter,
        telemetry.operation("commit", meter, {"quire.branch": "main", "quire.none": None}) as told,
    ):
        memory.put("k", b"123")
        memory.get("k")
        record_retry()
        record_external("lance", "append", window=(0, 6), hops=3, start=0.0, end=1.0)
        told.attributes["quire.tables"] = 2
        told.outcome = "committed"
    span = spans.one("quire.commit")
    assert dict(span.attributes or {}) == {
        "quire.branch": "main",
        "quire.tables": 2,
        "quire.outcome": "committed",
        "quire.requests": 2,
        "quire.requests_lance": 6,
        "quire.hops": meter.hops,
        "quire.retries": 1,
        "quire.bytes_in": 3,
        "quire.bytes_out": 3,
    }
    assert span.status.is_ok
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "quire"


def test_the_cost_that_is_told_stands_before_the_meters(memory: Store, spans: Spans) -> None:
    with metering() as meter, telemetry.operation("commit", meter, {}) as told:
        memory.get_or_none("k")
        told.cost = meter.to_dict()
        memory.get_or_none("k")
    assert (spans.one("quire.commit").attributes or {})["quire.requests"] == 1


def test_phases_are_children_inside_their_span(memory: Store, spans: Spans) -> None:
    with metering() as meter, telemetry.operation("commit", meter, {}):
        with phase("stage"):
            memory.get_or_none("k")
        with phase("publish"):
            memory.get_or_none("k")
    span = spans.one("quire.commit")
    children = spans.children(span)
    assert [child.name for child in children] == ["quire.commit.stage", "quire.commit.publish"]
    assert meter.stretches is None
    slack = 5_000_000  # the two clocks are read one after the other
    for child in children:
        assert child.start_time is not None
        assert child.end_time is not None
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time - slack <= child.start_time <= child.end_time <= span.end_time + slack


def test_spans_of_what_runs_inside_are_children_too(memory: Store, spans: Spans) -> None:
    from opentelemetry import trace

    with metering() as meter, telemetry.operation("commit", meter, {}):
        trace.get_tracer("an HTTP client").start_span("PUT").end()
    assert [child.name for child in spans.children(spans.one("quire.commit"))] == ["PUT"]


@pytest.mark.parametrize(("error", "kind"), [(Conflict, "conflict"), (ZeroDivisionError, "ZeroDivisionError")])
def test_a_failure_is_told_by_its_kind_and_never_by_its_text(
    memory: Store, spans: Spans, error: type[BaseException], kind: str
) -> None:
    with pytest.raises(error):
        commit(memory, "error", fail=error)
    span = spans.one("quire.commit")
    assert not span.status.is_ok
    assert (span.attributes or {})["error.type"] == kind
    assert (span.attributes or {})["quire.outcome"] == "error"
    assert span.events == ()
    assert "Ada" not in span.to_json()


def test_instruments_follow_the_totals(memory: Store) -> None:
    commit(memory, "committed")  # the instruments exist from the first operation on
    before = measured()
    memory.put("other", b"12345")
    record_retry()
    commit(memory, "committed", gets=4)
    after = measured()

    def more(name: str) -> Points:
        def less(a: Any, b: Any) -> Any:
            return tuple(x - y for x, y in zip(a, b, strict=True)) if isinstance(a, tuple) else a - b

        zero: Any = (0, 0) if "commit." in name else 0
        found = {key: less(value, before.get(name, {}).get(key, zero)) for key, value in after[name].items()}
        return {key: value for key, value in found.items() if value not in (0, (0, 0))}

    assert more("quire.requests") == {
        (("quire.kind", "put"), ("quire.system", "quire")): 1,
        (("quire.kind", "get"), ("quire.system", "quire")): 4,
    }
    assert more("quire.bytes") == {(("quire.direction", "out"),): 5}
    assert more("quire.retries") == {(): 1}
    assert more("quire.commits") == {(("quire.outcome", "committed"),): 1}
    assert more("quire.commit.hops") == {(("quire.outcome", "committed"),): (1, 4)}
    [(count, seconds)] = more("quire.commit.duration").values()
    assert count == 1
    assert seconds > 0


WITHOUT = """
import json, sys
{block}
import quire
lake = quire.create("memory://alone")
lake.create_table("t", [{{"id": 1}}])
lake.snapshot()
loaded = [m for m in sys.modules if m.startswith("opentelemetry") and sys.modules[m] is not None]
print(json.dumps({{"loaded": loaded, "text": quire.metrics()}}))
"""


@pytest.mark.parametrize("block", ["", 'sys.modules["opentelemetry"] = None'], ids=["not loaded", "not installed"])
def test_a_program_that_does_not_use_it_does_not_load_it(block: str) -> None:
    code = WITHOUT.format(block=block)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["loaded"] == []
    assert "quire_snapshots_total 1\n" in told["text"]


LATE = """
import quire
lake = quire.create("memory://late")
lake.create_table("t", [{"id": 1}])

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

lake.create_table("u", [{"id": 1}])  # the interface is loaded, but nobody listens yet
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
lake.create_table("v", [{"id": 1}])
[scope] = reader.get_metrics_data().resource_metrics[0].scope_metrics
[commits] = [m for m in scope.metrics if m.name == "quire.commits"]
print([p.value for p in commits.data.data_points if p.attributes["quire.outcome"] == "committed"])
"""


def test_a_listener_that_comes_late_hears_of_everything_once() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[3]\n"
