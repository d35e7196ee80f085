"""Addresses: what is accepted, how it is normalised, and what a wrong one is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quire.errors import InvalidUri
from quire.store import Store


@pytest.mark.parametrize(
    ("given", "uri", "scheme"),
    [
        ("s3://bucket/a/b/", "s3://bucket/a/b", "s3"),
        ("s3://bucket", "s3://bucket", "s3"),
        ("s3a://bucket//a", "s3://bucket/a", "s3"),
        ("gs://bucket/a", "gs://bucket/a", "gs"),
        ("memory://name", "memory://name", "memory"),
        ("file:///srv/a%20b", "/srv/a b", "file"),
        ("/srv/x/../y/", "/srv/y", "file"),
    ],
)
def test_roots_are_normalised(given: str, uri: str, scheme: str) -> None:
    store = Store.open(given)
    assert (store.uri, store.scheme, store.is_local) == (uri, scheme, scheme == "file")


def test_azure_takes_the_account_from_the_options() -> None:
    assert Store.open("az://container/lake", {"account_name": "account"}).uri == "az://container/lake"


def test_relative_and_path_like_roots_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = os.getcwd()
    assert Store.open("./lake").uri == f"{here}/lake"
    assert Store.open(tmp_path / "lake").uri == str(tmp_path / "lake")
    assert Store.open("odd:name").uri == f"{here}/odd:name"


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("s4://bucket/x", "s3://bucket/lake"),
        ("S33://bucket/x", "s3://bucket/lake"),
        ("gss://bucket", "gs://bucket/lake"),
        ("memry://x", "memory://name"),
        ("s3:/bucket", "s3://bucket/lake"),
        ("s3:bucket", "s3://bucket/lake"),
        ("s3://", "s3://bucket/lake"),
        ("file://host/x", "file:///path/to/lake"),
        ("http://host/x", "memory://, s3://"),
        ("s3://bucket/a/../b", "full path"),
        ("s3://bucket/a?versionId=1", "storage options"),
        ("memory://a/b", "memory://a"),
        ("memory://a test [1]", "letters, digits"),
        ("s3://büro/x", "letters, digits"),
        ("", "directory"),
    ],
)
def test_wrong_addresses_are_told_the_next_step(given: str, advice: str) -> None:
    with pytest.raises(InvalidUri) as caught:
        Store.open(given)
    assert advice in str(caught.value)
    assert given.partition("?")[0] in str(caught.value) or caught.value.uri == given


@pytest.mark.parametrize("given", ["s3://key:hunter2@bucket/x", "http://key:hunter2@host/x", "s3://b/x?token=hunter2"])
def test_credentials_in_an_address_are_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(InvalidUri) as caught:
        Store.open(given)
    assert "hunter2" not in str(caught.value) + repr(caught.value) + repr(caught.value.fields)


def test_a_file_is_not_a_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidUri, match="is a file"):
        Store.open(tmp_path / "file")
