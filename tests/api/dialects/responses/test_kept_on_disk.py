"""Responses kept on disk outlive their server, within the same limits as in memory."""

import contextlib
import json
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.service.config import ConfigError
from api.service.response_store import ResponseStore, StoredResponse

URL = "/v1/responses"


def made(its_id: str, previous: str = "", text: str = "“x”\u2028") -> StoredResponse:
    sent = ('{"role":"user","content":"a\\nb"}', "{}")
    return StoredResponse(
        its_id, previous, sent, ("in_1", f"in_{its_id}"), text, (f"out_{its_id}",), ""
    )


def opened(folder: Path, **options: Any) -> ResponseStore:
    return ResponseStore(**{"max_bytes": 10**6, "max_s": 60, **options}, folder=folder)


@contextlib.contextmanager
def keeping(folder: Path, **options: Any) -> Iterator[ResponseStore]:
    with contextlib.closing(opened(folder, **options)) as kept:
        yield kept


def test_kept_responses_are_read_back_unchanged_and_only_by_their_owner(tmp_path: Path) -> None:
    both = [made("a"), made("b", "a", text="\ud800 “x”")]
    with keeping(tmp_path / "kept") as kept:
        for response in both:
            kept.put(response)
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    with keeping(tmp_path / "kept") as again:
        files = list((tmp_path / "kept").iterdir())
        assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
        assert again.chain("", "b") == both
        assert again.of_item("", "out_a") == both[0]
        assert again.get("another", "a") is None
        assert again.of_item("another", "out_a") is None


def test_a_forgotten_response_leaves_nothing_on_disk(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.put(made("a", text="a-secret-text" * 9))
        kept.put(made("b"))
        kept.delete("a")
    with keeping(tmp_path) as again:
        assert [its_id for its_id in "ab" if again.get("", its_id)] == ["b"]
    assert all(b"a-secret-text" not in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_file_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    with keeping(tmp_path) as kept:
        for number in range(20):
            kept.put(made(f"{number}", text="x" * 5_000))
    [file] = tmp_path.iterdir()
    content = file.read_bytes()
    changed = content[:4096] + b"\xff" * 9000 + content[13096:]
    file.write_bytes({"cut": content[:50_000], "changed": changed, "empty": b""}[damage])
    with keeping(tmp_path) as kept:
        kept.put(made("a"))
        assert kept.get("", "a") == made("a")
    assert ("is damaged" in caplog.text) is (damage != "empty")


def test_files_that_others_could_read_become_private(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    opened(folder).close()
    [file] = folder.iterdir()
    folder.chmod(0o755)
    file.chmod(0o644)
    opened(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(ConfigError, match="used by another server"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_a_conversation_continues_after_a_restart(serve: Any, tmp_path: Path) -> None:
    def send(site: Any, **fields: Any) -> Any:
        asked = {"model": "m", "max_output_tokens": 8, **fields}
        return site.send("POST", URL, asked).json

    before = serve(kept_responses_folder=tmp_path)
    first = send(before, input="Say: one")
    before.thread.stop()
    after = serve(kept_responses_folder=tmp_path)
    second = send(after, input="Say: three", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    items = after.send("GET", f"{URL}/{second['id']}/input_items?order=asc").json["data"]
    assert [one["content"][0]["text"] for one in items if one["role"] == "user"] == [
        "Say: one",
        "Say: three",
    ]
    assert after.send("DELETE", f"{URL}/{first['id']}").status == 200
    after.thread.stop()
    assert len(list(tmp_path.iterdir())) == 1


def test_full_disk_leaves_responses_as_they_are(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.put(made("a"))
        # As on a full disk, every change is an operational error.
        kept._database.execute("PRAGMA query_only = ON")
        kept.delete("a")
        kept.put(made("b"))

        assert [its_id for its_id in "ab" if kept.get("", its_id)] == ["a"]


def test_unreadable_response_fails_the_request_that_continues_it(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.put(made("a"))
        kept.put(made("b", "a"))
        kept._database.create_function("decode", 1, _fail_for_a)
        kept._database.executescript(
            "ALTER TABLE responses RENAME TO stored;"
            "CREATE VIEW responses AS SELECT id, owner, used_s, decode(content) AS content"
            " FROM stored;"
        )

        with pytest.raises(sqlite3.OperationalError):
            kept.chain("", "b")


def _fail_for_a(content: bytes) -> bytes:
    if b"out_a" in content:
        raise OSError("input/output error")
    return content


def test_streams_go_on_while_an_answer_is_stored_and_read(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    for name in ("put", "get", "chain", "of_item"):
        method = getattr(ResponseStore, name)

        def noted(store: ResponseStore, *given: Any, method: Any = method) -> Any:
            threads.append(threading.current_thread().name)
            return method(store, *given)

        monkeypatch.setattr(ResponseStore, name, noted)
    site = serve()
    body = {"model": "m", "max_output_tokens": 8, "input": "Say: one"}
    for is_streamed in (False, True):
        reply = site.send("POST", URL, {**body, "stream": is_streamed})
    last = json.loads(reply.events[-1][1])["response"]
    reference = {"type": "item_reference", "id": last["output"][-1]["id"]}
    turn = {"role": "user", "content": "On"}
    site.send("POST", URL, {**body, "previous_response_id": last["id"]})
    site.send("POST", URL, {**body, "input": [reference, turn]})
    site.send("GET", f"{URL}/{last['id']}/input_items")

    assert site.send("GET", f"{URL}/{last['id']}").json["output"] == last["output"]
    assert len(threads) == 8
    assert "api" not in threads
