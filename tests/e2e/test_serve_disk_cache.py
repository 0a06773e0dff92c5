"""``serve --disk-cache-bytes``: a server keeps what it read of prompts, and the next uses it."""

import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from tests.e2e.conftest import read_json

LONG = "the quick brown fox jumps over the lazy dog and says hello. " * 8
KEPT = ("--port", "0", "--disk-cache-bytes", "100000000")


def cached_tokens(address: str) -> int:
    """Ask a long question; return how many tokens of it the server had read before."""
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": f"{LONG}Count from 1 to 5"}],
        "temperature": 0,
    }
    usage = read_json(f"{address}/v1/chat/completions", body)["usage"]
    return int(usage["prompt_tokens_details"]["cached_tokens"])


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("[0-9a-f]*.safetensors"))  # without unfinished ones


def wait_until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def test_disk_cache_of_an_earlier_server_is_used_or_deleted(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    place = {"FULLSTOP_CACHE_DIR": str(tmp_path)}
    killed = serve(*KEPT, **place)
    assert cached_tokens(killed.wait_until_ready()) == 0
    # The answer may be complete before the file is.
    wait_until(lambda: bool(files(tmp_path)))
    killed.end(signal.SIGKILL)
    file = files(tmp_path)[0]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    again = serve(*KEPT, **place)
    assert cached_tokens(again.wait_until_ready()) > 200
    beside = serve("--port", "0", **place)
    assert cached_tokens(beside.wait_until_ready()) == 0
    beside.end()
    assert files(tmp_path)
    assert again.end() == 0
    assert again.errors == []
    assert files(tmp_path)
    plain = serve("--port", "0", **place)
    assert cached_tokens(plain.wait_until_ready()) == 0
    plain.end()
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_reported_in_one_line_of_the_log(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    server = serve(*KEPT, FULLSTOP_CACHE_DIR=str(tmp_path / "file"))
    address = server.wait_until_ready()
    cached_tokens(address)
    assert cached_tokens(address) > 200
    assert server.end() == 0
    assert len(server.errors) == 1
    assert "prompt cache" in server.errors[0]


def test_several_machines_keep_no_caches_on_disk_and_say_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "hosts").write_text('[["127.0.0.1:5000"], ["127.0.0.1:5001"]]')
    monkeypatch.setenv("MLX_RANK", "0")
    monkeypatch.setenv("MLX_HOSTFILE", str(tmp_path / "hosts"))
    assert main(["serve", *KEPT]) == 2
    assert "--disk-cache-bytes: leave it out" in capfd.readouterr().err
