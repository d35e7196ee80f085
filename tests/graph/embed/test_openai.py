"""The embedder behind HTTP, against a real server: what it asks, what it takes for an answer, what it never shows."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.graph.embed.service import Service, serving

from quire.errors import EmbedderError, InvalidInput
from quire.graph.embed import HashEmbedder, OpenAIEmbedder, embedder, openai
from quire.store import clock

KEY = "sk-very-secret"


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of the embedder are noted, not waited; other threads sleep as ever."""
    waits.clear()
    monkeypatch.setattr(openai, "clock", SimpleNamespace(**{**vars(clock), "sleep": waits.append}))


waits: list[float] = []


def made(service: Service, **more: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder("m", base_url=service.url, api_key=KEY, **more)


def test_texts_are_asked_for_in_batches_and_come_back_in_their_order(service: Service) -> None:
    texts = [f"text {i}" for i in range(10)]
    assert made(service, batch=3).embed(texts) == HashEmbedder(4).embed(texts)
    assert sorted(len(request["input"]) for request in service.asked) == [1, 3, 3, 3]
    assert all(request["model"] == "m" and "dimensions" not in request for request in service.asked)
    assert {h["Authorization"] for h in service.headers} == {f"Bearer {KEY}"}
    assert {h["path"] for h in service.headers} == {"/v1/embeddings"}


def test_long_texts_make_smaller_batches(service: Service) -> None:
    made(service, batch=100).embed(["x" * 300_000] * 3)
    assert [len(request["input"]) for request in service.asked] == [1, 1, 1]


def test_an_empty_text_is_sent_as_a_space(service: Service) -> None:
    made(service).embed([""])
    assert service.asked[0]["input"] == [" "]


def test_nothing_is_asked_for_no_text(service: Service) -> None:
    assert made(service).embed([]) == []
    assert service.asked == []


def test_shorter_vectors_are_asked_for_by_dimensions(service: Service) -> None:
    found = made(service, dimensions=4)
    assert found.dimension == 4
    found.embed(["a"])
    assert service.asked[0]["dimensions"] == 4


def test_the_key_comes_from_the_environment_or_is_left_out(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    OpenAIEmbedder("m", base_url=service.url).embed(["a"])
    monkeypatch.delenv("OPENAI_API_KEY")
    OpenAIEmbedder("m", base_url=service.url).embed(["a"])
    assert [h.get("Authorization") for h in service.headers] == ["Bearer from-env", None]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_service_is_asked_again_later_each_time(service: Service, status: int) -> None:
    service.script = [(status, {"error": {"message": "busy"}}, {})] * 3
    assert len(made(service).embed(["a"])) == 1
    assert len(waits) == 3
    assert 0.25 <= waits[0] <= 0.5 < 1.0 <= waits[2] <= 2.0


def test_a_service_says_when_to_come_back(service: Service) -> None:
    service.script = [(429, {}, {"Retry-After": "7"})]
    made(service).embed(["a"])
    assert waits == [7.0]


def test_requests_keep_to_so_many_in_a_minute_also_those_that_are_asked_again(service: Service) -> None:
    service.script = [(429, {}, {"Retry-After": "0"})]
    one = made(service, batch=1, parallel=2, per_minute=1)
    assert one.embed(["a", "b", "c"]) == HashEmbedder(4).embed(["a", "b", "c"])
    paced = sorted(wait for wait in waits if wait > 0)
    assert [round(wait / 60) for wait in paced] == [1, 2, 3], "four requests, a minute apart"


def test_a_service_that_wants_too_much_patience_is_left(service: Service) -> None:
    service.script = [(429, {}, {"Retry-After": "3600"})]
    with pytest.raises(EmbedderError) as caught:
        made(service).embed(["a"])
    assert (caught.value.retryable, caught.value.status, waits) == (True, 429, [])


def test_a_service_that_stays_busy_is_told_as_such(service: Service) -> None:
    service.script = [(500, b"oh no", {})] * 3
    with pytest.raises(EmbedderError, match="refused with status 500: oh no") as caught:
        made(service, retries=2).embed(["a"])
    assert caught.value.retryable
    assert len(service.asked) == 3


@pytest.mark.parametrize(
    ("status", "next"), [(401, "API key"), (403, "may do"), (404, "model"), (400, "texts"), (307, "texts")]
)
def test_a_refusal_is_final_and_says_why(service: Service, status: int, next: str) -> None:
    body = {"error": {"message": f"Incorrect API key provided: {KEY}.\nSee the manual."}}
    service.script = [(status, body, {"Location": "http://127.0.0.1:1/elsewhere"})]
    with pytest.raises(EmbedderError, match="Incorrect API key provided: …. See the manual") as caught:
        made(service).embed(["a"])
    error = caught.value
    assert (error.retryable, error.status, error.model, len(service.asked)) == (False, status, "m", 1)
    assert next in (error.next or "")
    assert KEY not in json.dumps(error.to_dict()) + repr(error)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([{"index": 0, "embedding": [1.0]}], "1 vectors for 2 texts"),
        ([{"index": 0, "embedding": [1.0]}] * 2, "2 vectors for 2 texts"),
        ([{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}], "of 2 dimensions, not of 1"),
        ([{"index": 0, "embedding": ["x"]}, {"index": 1, "embedding": [1.0]}], "did not answer with vectors"),
    ],
)
def test_an_answer_that_does_not_fit_the_question_is_refused(service: Service, data: Any, said: str) -> None:
    service.script = [(200, {"data": data}, {})]
    with pytest.raises(EmbedderError, match=said):
        made(service).embed(["a", "b"])


def test_other_dimensions_than_those_asked_for_are_refused(service: Service) -> None:
    with pytest.raises(EmbedderError, match="of 4 dimensions, not of 8"):
        made(service, dimensions=8).embed(["a"])


@pytest.mark.parametrize("body", [b"<html>", b"[" * 100_000, b"\xff"])
def test_an_answer_that_is_no_json_is_refused(service: Service, body: bytes) -> None:
    service.script = [(200, body, {})]
    with pytest.raises(EmbedderError, match="did not answer with vectors"):
        made(service).embed(["a"])


def test_an_answer_that_breaks_off_is_asked_for_again(service: Service) -> None:
    service.script = [(200, b"{", {"Content-Length": "100", "Connection": "close"})]
    assert len(made(service, timeout=5).embed(["a"])) == 1
    assert len(service.asked) == 2


@pytest.mark.parametrize("how", ["late", "in drops"])
def test_a_slow_answer_is_not_waited_for(service: Service, how: str) -> None:
    service.delay, service.drip = (1.0, 0.0) if how == "late" else (0.0, 0.05)
    with pytest.raises(EmbedderError, match=r"did not answer within 0\.3 s") as caught:
        made(service, timeout=0.3, retries=0).embed(["a"])
    assert caught.value.retryable


def test_nobody_at_the_address_is_told(service: Service) -> None:
    with pytest.raises(EmbedderError, match="cannot be reached"):
        OpenAIEmbedder("m", base_url="http://127.0.0.1:1/v1", api_key=KEY, retries=1).embed(["a"])
    assert len(waits) == 1


def test_a_failure_stops_what_was_not_asked_for_yet(service: Service) -> None:
    service.script = [(401, {}, {})] * 100
    with pytest.raises(EmbedderError):
        made(service, batch=1, parallel=2).embed([str(i) for i in range(100)])
    assert len(service.asked) < 50


def test_the_key_is_nowhere_to_be_seen(service: Service) -> None:
    found = made(service)
    assert KEY not in repr(found)
    with pytest.raises(InvalidInput):
        pickle.dumps(found)


@pytest.mark.parametrize(
    "more",
    [
        {"base_url": "ftp://x"},
        {"base_url": "http://user:hidden@x/v1"},
        {"api_key": "a\nb"},
        {"batch": 0},
        {"parallel": 0},
        {"retries": -1},
        {"timeout": 0},
        {"per_minute": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        OpenAIEmbedder("m", **more)
    assert "hidden" not in str(caught.value)


def test_an_embedder_has_a_name(service: Service) -> None:
    environ = {"OPENAI_BASE_URL": service.url, "OPENAI_API_KEY": KEY}
    found = embedder("openai:org/model:256", environ)
    assert isinstance(found, OpenAIEmbedder)
    assert (found.model, found.dimension, found.base_url) == ("org/model", 256, service.url)
    assert embedder("openai:m:latest", environ).model == "m:latest"
    assert embedder("hash:8").dimension == 8
    for wrong in ("", "hash", "hash:x", "openai:", "other:m"):
        with pytest.raises(InvalidInput, match="no embedder"):
            embedder(wrong)


def test_one_that_is_sent_carries_its_key_and_shows_it_nowhere(service: Service) -> None:
    found = pickle.loads(pickle.dumps(made(service, dimensions=4).sent()))
    assert (found.model, found.dimension) == ("m", 4)
    assert found.embed(["a"]) == HashEmbedder(4).embed(["a"])
    assert service.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(found) + str(found)
