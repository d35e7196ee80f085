"""`quire ui`: one command, a link that works once, and nothing to configure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import quire


@pytest.mark.parametrize("write", [False, True])
def test_a_link_is_printed_that_lets_one_browser_in(tmp_path: Path, write: bool) -> None:
    quire.create(tmp_path / "my lake", backfill=False).create_table("people", [{"id": 1}])
    command = [sys.executable, "-m", "quire", "ui", str(tmp_path / "my lake"), "--no-browser", "--json"]
    running = subprocess.Popen([*command, *(["--write"] if write else [])], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = running.stdout.readline()
            assert line, "the command ended"
            text += line
        told = json.loads(text)
        assert (told["lake"], told["write"]) == ("my-lake", write)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(told["url"]) as answer:  # and on, to the first page
            assert answer.status == 200
            assert "word" not in answer.url
        with opener.open(answer.url + "my-lake/tables.json") as answer:
            state = json.load(answer)
        assert state["context"]["write"] is write
        assert state["context"]["address"] == str(tmp_path / "my lake")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(told["url"])
        assert refused.value.code == 401
    finally:
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(30) in (0, -signal.SIGTERM, 143)
