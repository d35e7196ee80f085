"""The S3 server in memory of the benchmarks answers as S3 does what the compared clients ask."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import obstore
import pytest
from benchmarks.commits.memory_s3 import MemoryS3, plain
from benchmarks.commits.places import OPTIONS
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from quire.store import Outcome, Store


@pytest.fixture(scope="module")
def running() -> Iterator[MemoryS3]:
    with MemoryS3() as server:
        yield server


@pytest.fixture
def bucket(running: MemoryS3) -> S3Store:
    running.empty()
    config = {key: value for key, value in OPTIONS.items() if key != "allow_http"} | {"aws_endpoint": running.endpoint}
    return S3Store("lake", config=config, client_options={"allow_http": True})  # type: ignore[arg-type]


def ask(running: MemoryS3, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    wanted = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{running.endpoint}/{path}", body, wanted, method=method)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_objects_are_read_whole_and_in_parts(bucket: S3Store) -> None:
    obstore.put(bucket, "a b/c+d", b"0123456789", use_multipart=False)
    assert bytes(obstore.get(bucket, "a b/c+d").bytes()) == b"0123456789"
    assert bytes(obstore.get_range(bucket, "a b/c+d", start=2, end=5)) == b"234"
    assert bytes(obstore.get(bucket, "a b/c+d", options={"range": {"suffix": 3}}).bytes()) == b"789"
    assert obstore.head(bucket, "a b/c+d")["size"] == 10
    obstore.delete(bucket, "a b/c+d")
    with pytest.raises(FileNotFoundError):
        obstore.get(bucket, "a b/c+d")
    obstore.delete(bucket, "a b/c+d")


def test_ranges_beyond_the_end(running: MemoryS3, bucket: S3Store) -> None:
    obstore.put(bucket, "a", b"0123456789", use_multipart=False)
    assert ask(running, "GET", "lake/a", Range="bytes=8-99") == (206, b"89")
    assert ask(running, "GET", "lake/a", Range="bytes=8-") == (206, b"89")
    assert ask(running, "GET", "lake/a", Range="bytes=-99") == (206, b"0123456789")
    assert ask(running, "GET", "lake/a", Range="bytes=10-")[0] == 416


def test_one_of_many_creates_wins(running: MemoryS3) -> None:
    store = Store.open("s3://lake/race", {**OPTIONS, "aws_endpoint": running.endpoint})
    for number in range(20):
        outcomes: list[Outcome] = []
        ready = threading.Barrier(8)

        def create(body: bytes, key: str = f"slot/{number}", ready: threading.Barrier = ready) -> None:
            ready.wait()
            outcomes.append(store.create(key, body, mine=lambda found: found == body).outcome)  # noqa: B023

        threads = [threading.Thread(target=create, args=(b"%d" % me,)) for me in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count(Outcome.COMMITTED) == 1
        assert outcomes.count(Outcome.CONFLICT) == 7


def test_an_object_changes_only_if_it_is_what_it_was(bucket: S3Store) -> None:
    first = obstore.put(bucket, "head", b"1", use_multipart=False)
    assert first["e_tag"] is not None
    obstore.put(bucket, "head", b"2", mode={"e_tag": first["e_tag"]}, use_multipart=False)
    with pytest.raises(PreconditionError):
        obstore.put(bucket, "head", b"3", mode={"e_tag": first["e_tag"]}, use_multipart=False)
    with pytest.raises(AlreadyExistsError):
        obstore.put(bucket, "head", b"3", mode="create", use_multipart=False)
    assert bytes(obstore.get(bucket, "head").bytes()) == b"2"


@pytest.mark.parametrize("quote", ['"', ""])
def test_tags_come_with_quotes_and_without(running: MemoryS3, bucket: S3Store, quote: str) -> None:
    tag = obstore.put(bucket, "a", b"1", use_multipart=False)["e_tag"]
    assert tag is not None
    given = quote + tag.strip('"') + quote
    assert ask(running, "GET", "lake/a", If_Match=given) == (200, b"1")
    assert ask(running, "GET", "lake/a", If_None_Match=given) == (304, b"")
    assert ask(running, "PUT", "lake/a", b"2", If_Match=given)[0] == 200
    assert ask(running, "GET", "lake/a", If_Match=given)[0] == 412
    assert ask(running, "PUT", "lake/a", b"3", If_Match=given)[0] == 412


def test_listings_are_sorted_and_come_in_pages(running: MemoryS3, bucket: S3Store) -> None:
    for number in range(1_002):
        running.objects.do(b"PUT", f"/lake/many/{number:04}", {}, b"x")
    running.objects.do(b"PUT", "/lake/many2", {}, b"x")
    keys = [entry["path"] for page in obstore.list(bucket, "many") for entry in page]
    assert keys == [f"many/{number:04}" for number in range(1_002)]
    after = [entry["path"] for page in obstore.list(bucket, "many", offset="many/0999") for entry in page]
    assert after == ["many/1000", "many/1001"]


def test_listings_show_folders_once(running: MemoryS3, bucket: S3Store) -> None:
    for key in ("a/1", "a/2", "b", "c/d/1", "c&d/1"):
        obstore.put(bucket, key, b"x", use_multipart=False)
    found = obstore.list_with_delimiter(bucket)
    assert sorted(found["common_prefixes"]) == ["a", "c", "c&d"]
    assert [entry["path"] for entry in found["objects"]] == ["b"]
    seen = []
    query = "lake?list-type=2&delimiter=/&max-keys=1"
    token = ""
    while True:
        _, answer = ask(running, "GET", query + (f"&continuation-token={token}" if token else ""))
        text = answer.decode()
        seen += [part.split("<")[0] for part in text.split("<Prefix>")[2:] + text.split("<Key>")[1:]]
        if "<IsTruncated>false" in text:
            break
        token = urllib.request.quote(text.split("<NextContinuationToken>")[1].split("<")[0].replace("&amp;", "&"))  # type: ignore[attr-defined]
    assert sorted(seen) == ["a/", "b", "c&amp;d/", "c/"]


def test_uploads_in_parts_appear_when_they_are_complete(bucket: S3Store) -> None:
    body = bytes(range(256)) * 50_000
    obstore.put(bucket, "large", body, use_multipart=True, chunk_size=5 << 20)
    assert bytes(obstore.get(bucket, "large").bytes()) == body


def test_a_part_that_was_not_sent_completes_nothing(running: MemoryS3) -> None:
    made = ask(running, "POST", "lake/parts?uploads=")[1].decode().split("<UploadId>")[1].split("<")[0]
    assert ask(running, "PUT", f"lake/parts?partNumber=1&uploadId={made}", b"one")[0] == 200
    wanted = b"<X><Part><PartNumber>1</PartNumber></Part><Part><PartNumber>2</PartNumber></Part></X>"
    assert ask(running, "POST", f"lake/parts?uploadId={made}", wanted)[0] == 400
    assert ask(running, "GET", "lake/parts")[0] == 404
    assert ask(running, "PUT", "lake/parts?partNumber=1&uploadId=other", b"one")[0] == 404


def test_copies_and_deletes_of_many(running: MemoryS3, bucket: S3Store) -> None:
    obstore.put(bucket, "a&1", b"x", use_multipart=False)
    obstore.copy(bucket, "a&1", "b")
    assert bytes(obstore.get(bucket, "b").bytes()) == b"x"
    obstore.delete(bucket, ["a&1", "b"])
    assert running.objects.order == []
    assert ask(running, "PUT", "lake/c", b"", x_amz_copy_source="lake/none")[0] == 404


def test_bodies_in_pieces_are_put_together() -> None:
    body = b"5;chunk-signature=0\r\nhello\r\n1\r\n!\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n"
    assert plain(body) == b"hello!"


def test_a_client_that_leaves_harms_nobody(running: MemoryS3, bucket: S3Store) -> None:
    running.latency = 0.2
    with pytest.raises((TimeoutError, urllib.error.URLError)):
        urllib.request.urlopen(f"{running.endpoint}/lake/x", timeout=0.05)
    running.latency = 0
    obstore.put(bucket, "a", b"1", use_multipart=False)
    assert bytes(obstore.get(bucket, "a").bytes()) == b"1"
