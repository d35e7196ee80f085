"""What clients may do with the storage: the rights of docs/guides/lance-clients.md, enforced between them and S3."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import lance_namespace as spec
import pytest
from tests.namespace.conftest import docs, ids, opened
from tests.namespace.serving import served

import quire
from quire.testing.proxy import Proxy
from quire.testing.s3 import SeaweedFS
from quire.testing.wire import Request

MAY_WRITE = re.compile(
    r"/tables/[^/]+/(data/|_transactions/|_indices/|_deletions/|_batches/|_versions/[^/]*\.manifest-)"
)


def is_forbidden(request: Request) -> bool:
    """Whether the policy of the guide forbids it."""
    if request.method in ("GET", "HEAD"):
        return False
    if request.method in ("PUT", "POST"):
        return not MAY_WRITE.search(f"/{request.key}")
    return True


@pytest.fixture
def narrow(s3: SeaweedFS) -> Iterator[dict[str, str]]:
    """Settings of clients whose every request comes by the policy."""
    with Proxy(s3.endpoint) as proxy:
        proxy.answer(403, is_forbidden, times=None)
        yield {**s3.options, "aws_endpoint": proxy.endpoint}


@pytest.mark.slow
def test_narrow_credentials_are_enough_to_write_and_too_few_to_destroy(s3: SeaweedFS, narrow: dict[str, str]) -> None:
    uri = s3.uri(f"narrow-{uuid4().hex}")
    lake = quire.create(uri, storage_options=s3.options, author="ada")
    with lake.transaction("start") as tx:
        tx.create_table("docs", docs(0, 1, 2, 3))
    options = {"storage_options": dict(s3.options), "client_options": narrow}
    with served(lake, options=options) as web:
        namespace: Any = spec.connect("rest", {"uri": f"{web.url}/lance/demo"})
        dataset = opened(namespace)
        dataset.insert(docs(10))
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9))
        dataset.delete("id = 1")
        dataset.create_scalar_index("id", "BTREE")
        made = lance.write_dataset(docs(1), namespace_client=namespace, table_id=["made"])
        made.insert(docs(2))
        id = web("POST", "/lance/demo/txn", {}, status=201).json["id"]
        opened(spec.connect("rest", {"uri": f"{web.url}/lance/demo/txn/{id}"})).insert(docs(20))
        web("POST", f"transactions/{id}/commit", {})

        at = dataset.uri
        with pytest.raises(OSError, match=r"(?i)403|forbidden|denied|permission|privilege"):
            lance.write_dataset(docs(99), at, mode="append", storage_options=narrow)
        plain = lance.dataset(at, storage_options=narrow)
        with contextlib.suppress(OSError):  # it is refused, or finds that it may remove nothing
            plain.cleanup_old_versions(retain_versions=1, delete_unverified=True)
        with pytest.raises(OSError, match=r"(?i)403|forbidden|denied|permission|privilege"):
            lance.LanceDataset.drop(at, storage_options=narrow)
    lake.refresh()
    assert ids(lake) == [0, 2, 3, 9, 10, 20]
    assert ids(lake, "made") == [1, 2]
    lake.backfill()
    assert lake.verify(deep=True).findings == []
    lake.close()


def test_credentials_of_a_session_are_made_again_before_they_expire(lake: quire.Lake, tmp_path: Path) -> None:
    count, lives = tmp_path / "count", tmp_path / "lives"
    count.write_text("0")
    lives.write_text("3600")
    program = (
        "import json, pathlib, sys, time\n"
        "count, lives = map(pathlib.Path, sys.argv[1:])\n"
        "n = int(count.read_text()) + 1; count.write_text(str(n))\n"
        "until = str(int((time.time() + float(lives.read_text())) * 1000))\n"
        "print(json.dumps({'aws_session_token': f'session-{n}', 'expires_at_millis': until}))\n"
    )
    command = [sys.executable, "-c", program, str(count), str(lives)]
    options = {"client_options": {"region": "here"}, "client_command": command}

    def told(web: Any, view: str = "") -> Any:
        return web("POST", f"/lance/demo{view}/v1/table/docs/describe", {}).json["storage_options"]

    with served(lake, options=options) as web:
        first = told(web)
        assert (first["region"], first["aws_session_token"]) == ("here", "session-1")
        assert int(first["expires_at_millis"]) > time.time() * 1000
        assert told(web, "/at/1.0") == first
    count.write_text("0")
    lives.write_text("60")
    with served(lake, options=options) as web:
        assert [told(web)["aws_session_token"] for _ in range(2)] == ["session-1", "session-2"]
    with served(
        lake, options={"client_command": [sys.executable, "-c", "print('secret'); raise SystemExit(1)"]}
    ) as web:
        reply = web("POST", "/lance/demo/v1/table/docs/describe", {}, status=503)
        assert reply.json["code"] == 17
        assert b"secret" not in reply.body
