"""What clients may do with the storage: the rights of docs/guides/lance-clients.md, enforced between them and S3."""

from __future__ import annotations

import contextlib
import json
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
from quire.server.auth.keys import KeyFile
from quire.server.config import SessionsConfig
from quire.testing.proxy import Proxy
from quire.testing.s3 import MinistackWithRights, SeaweedFS
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


REFUSED = r"(?i)403|forbidden|denied|permission|privilege"
ALL = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket", "s3:PutObject"], "Resource": "*"}


@pytest.fixture(scope="module")
def rights() -> Iterator[MinistackWithRights]:
    with MinistackWithRights() as server:
        yield server


def sessions_of(rights: MinistackWithRights, tmp_path: Path) -> tuple[quire.Lake, dict[str, Any], dict[str, str]]:
    """A lake in a store that enforces rights, how it is served, and a token for one who reads and one who writes."""
    lake = quire.create(rights.uri(f"lake-{uuid4().hex}"), storage_options=rights.options, author="ada")
    with lake.transaction("start") as tx:
        tx.create_table("docs", docs(0, 1, 2, 3))
        tx.create_table("people", docs(7))
    role = rights.make_role(f"clients-{uuid4().hex}", json.dumps({"Version": "2012-10-17", "Statement": [ALL]}))
    keys = KeyFile(tmp_path / "keys.json")
    tokens = {role: keys.create(role, [role])[1] for role in ("read", "write")}
    options = {"storage_options": dict(rights.options), "sessions": SessionsConfig(role, seconds=900)}
    return lake, {"options": options, "keys": keys.path}, tokens


def told(web: Any, token: str, table: str, view: str = "") -> dict[str, Any]:
    path = f"/lance/demo{view}/v1/table/{table}/describe"
    found: dict[str, Any] = web("POST", path, {}, x_api_key=token).json
    return found


def test_a_writer_is_given_a_session_that_stages_in_its_tables_and_nothing_else(
    rights: MinistackWithRights, tmp_path: Path
) -> None:
    lake, how, tokens = sessions_of(rights, tmp_path)
    with served(lake, **how) as web:
        namespace: Any = spec.connect("rest", {"uri": f"{web.url}/lance/demo", "headers.x-api-key": tokens["write"]})
        dataset = opened(namespace)
        dataset.insert(docs(10))
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9))
        dataset.delete("id = 1")
        dataset.create_scalar_index("id", "BTREE")
        lance.write_dataset(docs(1), namespace_client=namespace, table_id=["made"]).insert(docs(2))

        found, other = told(web, tokens["write"], "docs"), told(web, tokens["write"], "people")
        session = found["storage_options"]
        assert session["aws_access_key_id"] != rights.options["aws_access_key_id"]
        assert 0 < int(session["expires_at_millis"]) / 1000 - time.time() <= 905
        given = {k: v for k, v in session.items() if k != "expires_at_millis"}
        assert lance.dataset(found["location"], storage_options=given).count_rows() == 5
        with pytest.raises(OSError, match=REFUSED):
            lance.write_dataset(docs(99), found["location"], mode="append", storage_options=given)
        with pytest.raises(OSError, match=REFUSED):
            lance.LanceDataset.drop(found["location"], storage_options=given)
        with contextlib.suppress(OSError):  # it is refused, or finds that it may remove nothing
            plain = lance.dataset(found["location"], storage_options=given)
            plain.cleanup_old_versions(retain_versions=1, delete_unverified=True)
        with pytest.raises((OSError, ValueError)):
            lance.dataset(other["location"], storage_options=given)
    assert ids(lake) == [0, 2, 3, 9, 10]
    assert ids(lake, "made") == [1, 2]
    lake.backfill()
    assert lake.verify(deep=True).findings == []
    lake.close()


def test_a_reader_and_a_view_that_takes_nothing_are_given_sessions_that_read(
    rights: MinistackWithRights, tmp_path: Path
) -> None:
    lake, how, tokens = sessions_of(rights, tmp_path)
    with served(lake, **how) as web:
        for who, view in (("read", ""), ("write", "/at/1.0")):
            found = told(web, tokens[who], "docs", view)
            given = {k: v for k, v in found["storage_options"].items() if k != "expires_at_millis"}
            assert lance.dataset(found["location"], storage_options=given).count_rows() == 4
            with pytest.raises(OSError, match=REFUSED):
                lance.write_dataset(docs(99), found["location"], mode="append", storage_options=given)
            stage = quire.store.Store.open(found["location"], given)
            with pytest.raises(quire.errors.PermissionDenied):
                stage.put("data/new.lance", b"rows")
    lake.close()


@pytest.mark.slow
def test_clients_ask_again_when_what_they_were_told_expires(s3: SeaweedFS, tmp_path: Path) -> None:
    uri = s3.uri(f"expires-{uuid4().hex}")
    lake = quire.create(uri, storage_options=s3.options, author="ada")
    lake.create_table("docs", docs(0, 1))
    (tmp_path / "options").write_text(json.dumps(s3.options))
    program = (
        "import json, sys, time\n"
        "told = json.load(open(sys.argv[1]))\n"
        "print(json.dumps({**told, 'expires_at_millis': str(int((time.time() + 1.5) * 1000)),"
        " 'refresh_offset_millis': '500'}))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "options")]
    with served(lake, options={"storage_options": dict(s3.options), "client_command": command}) as web:
        namespace: Any = spec.connect("rest", {"uri": f"{web.url}/lance/demo"})
        dataset = opened(namespace)
        dataset.insert(docs(2))
        time.sleep(2)
        (tmp_path / "options").write_text(json.dumps({**s3.options, "aws_secret_access_key": "wrong"}))
        with pytest.raises(OSError):
            dataset.insert(docs(3))
        (tmp_path / "options").write_text(json.dumps(s3.options))
        time.sleep(2)
        dataset = opened(namespace)
        dataset.insert(docs(4))
    assert ids(lake) == [0, 1, 2, 4]
    lake.close()
