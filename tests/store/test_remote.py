"""Options, secrets and forks."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from tests.store.faulty import KEY_ID, SECRET, FaultyS3

from quire.errors import InvalidInput, PermissionDenied, QuireError
from quire.store import Store
from quire.store.remote import sanitised


def test_memory_stores_are_shared_by_name() -> None:
    Store.open("memory://shared").put("k", b"x")
    assert Store.open("memory://shared").get("k") == b"x"
    assert Store.open("memory://other").get_or_none("k") is None


def test_options_are_kept_as_given() -> None:
    options = {"AWS_Region": "eu-central-1", "timeout": "5s", "client_max_retries": "3"}
    assert Store.open("s3://bucket", options).options == options


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(InvalidInput, match="aws_acess_key_id"):
        Store.open("s3://bucket", {"aws_acess_key_id": "a-secret-value"})


def test_an_unencrypted_endpoint_must_be_allowed() -> None:
    with pytest.raises(InvalidInput, match="allow_http"):
        Store.open("s3://bucket", {"aws_endpoint": "http://localhost:9000"})


def test_the_environment_is_the_base_and_options_come_on_top(faulty: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.options["aws_endpoint"])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    faulty.put("k", b"x")
    assert Store.open("s3://bucket/lake").get("k") == b"x"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert Store.open("s3://bucket/lake", {"aws_endpoint": faulty.options["aws_endpoint"]}).get("k") == b"x"


def test_who_has_no_credentials_is_told_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    store = Store.open(
        "s3://bucket/lake", {"aws_region": "eu-central-1", "aws_metadata_endpoint": "http://127.0.0.1:1"}
    )
    for call in (lambda: store.get("k"), lambda: store.create("k", b"x", mine=lambda _: True)):
        with pytest.raises(PermissionDenied, match="no credentials were found") as caught:
            call()
        assert "AWS_ACCESS_KEY_ID" in str(caught.value.next)
        assert not caught.value.retryable


def everything_printed(error: BaseException) -> str:
    parts = ["".join(traceback.format_exception(error)), repr(error), str(error)]
    if isinstance(error, QuireError):
        parts += [repr(error.to_dict()), error._repr_html_()]
    hidden = error.__context__ or error.__cause__
    return "\n".join(parts) + (everything_printed(hidden) if hidden else "")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_no_error_holds_a_secret(faulty: FaultyS3, status: int) -> None:
    store = faulty.store
    calls: list[Any] = [
        lambda: store.get("k"),
        lambda: store.stat("k"),
        lambda: store.put("k", b"x"),
        lambda: store.delete("k"),
        lambda: list(store.list("a")),
        lambda: store.create("k", b"x", mine=lambda _: False),
    ]
    raised = 0
    for call in calls:
        for method in ("GET", "PUT", "HEAD", "DELETE"):
            faulty.fail(method, *[status] * 12)
        try:
            call()
        except QuireError as error:
            raised += 1
            printed = everything_printed(error)
            assert SECRET not in printed
            assert KEY_ID not in printed
            assert "Signature" not in printed
    assert raised >= 3
    assert SECRET not in repr(store) + str(store)


def test_sanitised_text_has_no_query_no_user_no_answer() -> None:
    text = "GET http://me:pw@host/b/k?X-Amz-Signature=abc in 1ms - 403: <Error>abc</Error>\nDebug: abc hunter22"
    assert sanitised(text) == "GET http://***@host/b/k in 1ms - 403"
    assert sanitised("bad value hunter22 here", ["hunter22"]) == "bad value *** here"


FORKING = """
import multiprocessing, sys
from quire.errors import QuireError
from quire.store import Store

def child(uri, answers):
    try:
        Store.open(uri).get("k")
        answers.put("none")
    except QuireError as error:
        answers.put(error.kind)

uri = sys.argv[1]
Store.open("memory://forked").put("k", b"x")
Store.open(uri).put("k", b"x")
fork = multiprocessing.get_context("fork")
answers = fork.Queue()
process = fork.Process(target=child, args=(uri, answers))
process.start()
try:
    print(answers.get(timeout=20))
finally:
    process.kill()
    process.join()
"""


@pytest.mark.parametrize(("place", "kind"), [("memory", "forked-process"), ("local", "none")])
def test_a_forked_child_is_refused_instead_of_hanging(tmp_path: Path, place: str, kind: str) -> None:
    uri = "memory://forked" if place == "memory" else str(tmp_path)
    # In a process of its own: one that has run thousands of tests may be too large to be copied.
    ran = subprocess.run([sys.executable, "-c", FORKING, uri], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == kind, ran.stderr
