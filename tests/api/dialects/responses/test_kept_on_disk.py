"""Responses kept on disk outlive their server, within the same limits as in memory."""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from api.transport import response_store
from api.transport.config import ConfigError
from api.transport.response_store import KeptResponse, KeptResponses, ResponseFolder, prepared
from engine.inference.cache.folder import CacheFolder

URL = "/v1/responses"


def made(its_id: str, previous: str = "", text: str = "“x”\u2028") -> KeptResponse:
    sent = ('{"role":"user","content":"a\\nb"}', "{}")
    return KeptResponse(
        its_id, previous, sent, ("in_1", f"in_{its_id}"), text, (f"out_{its_id}",), ""
    )


def opened(folder: Path, max_bytes: int = 10**6, max_s: float = 60) -> KeptResponses:
    return KeptResponses(max_bytes, max_s, folder=ResponseFolder(folder))


def written(folder: Path, responses: Sequence[KeptResponse]) -> list[Path]:
    """Keep answers, wait for the disk, and return their files in the same order."""
    files: list[Path] = []
    kept = opened(folder)
    for response in responses:
        kept.keep(response)
    kept.close()
    known = {folder / name for name in os.listdir(folder)}
    for response in responses:
        prefix = response_store._name_of(response.id, "")[:41]
        files += [one for one in known if one.name.startswith(prefix)]
    assert len(files) == len(responses)
    return files


def test_kept_responses_are_read_back_unchanged(tmp_path: Path) -> None:
    both = [made("a"), made("b", "a")]
    files = written(tmp_path / "kept", both)
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    again = opened(tmp_path / "kept")
    assert again.chain("", "b") == both
    assert again.of_item("", "out_a") == both[0]
    assert again.size_bytes == sum(one.size_bytes for one in both)
    assert all(one.stat().st_size <= kept.size_bytes for one, kept in zip(files, both, strict=True))


def test_foreign_files_with_our_names_neither_stop_nor_break_a_server(
    tmp_path: Path,
) -> None:
    circle = [made("a", "b"), made("b", "a")]
    written(tmp_path, circle)
    (tmp_path / response_store._name_of("folder", "")).mkdir()
    for text in ("[" * 100_000, '["c", 5, [], []]\n{}', '["d", "", [1], []]\n{}\n{}', "null"):
        (tmp_path / response_store._name_of("c", text)).write_text(text)
    kept = opened(tmp_path)
    assert kept.chain("", "a") is None
    assert kept.get("", "b") == circle[1]
    assert not [one for one in "cd" if kept.get("", one)]
    kept.close()


def test_a_forgotten_response_is_deleted_on_disk(tmp_path: Path) -> None:
    kept = opened(tmp_path, max_bytes=2 * made("a").size_bytes)
    for its_id in "abc":  # the first is dropped because there is no room
        kept.keep(made(its_id))
    kept.forget("c")
    kept.close()
    again = opened(tmp_path)
    assert [its_id for its_id in "abc" if again.get("", its_id)] == ["b"]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_smaller_limit_applies_to_the_responses_of_an_earlier_server(tmp_path: Path) -> None:
    files = written(tmp_path, [made("a"), made("b"), made("c")])
    for age_s, file in zip((30, 10, 20), files, strict=True):
        os.utime(file, (time.time() - age_s,) * 2)
    kept = opened(tmp_path, max_bytes=2 * made("a").size_bytes)
    kept.close()
    # The least recently used response is gone.
    assert [file.exists() for file in files] == [False, True, True]


def test_a_response_that_was_not_used_for_too_long_is_deleted(tmp_path: Path) -> None:
    old, new = written(tmp_path, [made("a"), made("b")])
    os.utime(old, (time.time() - 10_000,) * 2)
    os.utime(new, (time.time() - 1_000,) * 2)
    kept = opened(tmp_path, max_s=5_000)
    assert kept.get("", "a") is None
    assert kept.get("", "b") is not None
    kept.close()
    assert not old.exists()
    assert time.time() - new.stat().st_mtime < 900  # it was used


@pytest.mark.parametrize("damage", ["cut", "changed", "bytes", "name", "empty"])
def test_a_damaged_file_is_set_aside_and_the_others_are_read(tmp_path: Path, damage: str) -> None:
    bad, good = written(tmp_path, [made("a"), made("b")])
    content = bad.read_bytes()
    match damage:
        case "cut":
            bad.write_bytes(content[:-3])
        case "changed":
            bad.write_bytes(content.replace(b"user", b"USER"))
        case "bytes":
            bad.write_bytes(b"\xff\xfe" + content)
        case "name":
            other = "0" * 64
            bad = bad.rename(tmp_path / f"{bad.name[:42]}{other}.txt")
        case _:
            bad.write_bytes(b"")
    kept = opened(tmp_path)
    assert kept.get("", "a") is None
    assert kept.get("", "b") == made("b")
    assert not bad.exists()
    aside = bad.with_name(f"{bad.name}.broken")
    assert aside.exists()
    assert good.exists()
    kept.close()
    opened(tmp_path).close()
    assert aside.exists()
    os.utime(aside, (time.time() - 1_000,) * 2)
    opened(tmp_path, max_s=60).close()
    assert not aside.exists(), "it is kept as long as any other file"


def test_unfinished_files_of_a_killed_server_are_deleted_and_other_files_are_not(
    tmp_path: Path,
) -> None:
    [file] = written(tmp_path, [made("a")])
    left, own = tmp_path / f".{file.name}.abc123", tmp_path / "notes.txt"
    for one in (left, own):
        one.write_text("x")
        os.utime(one, (time.time() - 1_000,) * 2)
    opened(tmp_path).close()
    assert (left.exists(), own.exists()) == (False, True)


def test_answers_that_a_full_disk_refused_are_written_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_store, "_TRIED_AGAIN_AFTER_S", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(response_store, "_LEFT_FREE_BYTES", 1 << 60)
        kept = opened(tmp_path)
        for its_id in "abc":
            kept.keep(made(its_id))
        kept.forget("b")
        assert kept._folder is not None
        kept._folder._thread.submit(lambda: None).result(60)
        assert list(tmp_path.iterdir()) == []
    ends_at_s = time.monotonic() + 60
    while len(list(tmp_path.glob("response-*"))) < 2:
        assert time.monotonic() < ends_at_s
        time.sleep(0.01)
    kept.close()
    again = opened(tmp_path)
    assert [its_id for its_id in "abc" if again.get("", its_id)] == ["a", "c"]
    again.close()


def test_new_parent_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        prepared(tmp_path / "one" / "two")
        with CacheFolder(tmp_path / "three" / "four").unfinished(0):
            pass
    finally:
        os.umask(before)
    made_folders = [one for one in tmp_path.rglob("*") if one.is_dir()]
    assert len(made_folders) == 4
    assert {stat.S_IMODE(one.stat().st_mode) for one in made_folders} == {0o700}


def test_files_that_others_could_read_become_private(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    [file] = written(folder, [made("a")])
    folder.chmod(0o755)
    file.chmod(0o644)
    opened(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_full_disk_leaves_answers_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(response_store, "_LEFT_FREE_BYTES", 1 << 60)
    kept = opened(tmp_path)
    kept.keep(made("a"))
    kept.keep(made("b"))
    assert kept.get("", "a") == made("a")
    kept.close()
    assert list(tmp_path.iterdir()) == []
    assert [one.getMessage() for one in caplog.records] == [
        f"{tmp_path}: answers are kept only in memory for now: the disk is nearly full"
    ]


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(ConfigError, match="used by another server"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_a_folder_that_cannot_be_used_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="cannot be used") as refusal:
        prepared(tmp_path / "file" / "folder")
    assert refusal.value.setting == "kept_responses_folder"


def test_a_conversation_continues_after_a_restart(serve: Any, tmp_path: Path) -> None:
    def send(site: Any, **fields: Any) -> Any:
        asked = {"model": "m", "max_output_tokens": 8, **fields}
        return site.send("POST", URL, asked).json

    before = serve(kept_responses_folder=tmp_path)
    first = send(before, input="Say: one")
    secret = send(before, input="Say: two", store=False)
    before.thread.stop()
    after = serve(kept_responses_folder=tmp_path)
    second = send(after, input="Say: three", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    items = after.send("GET", f"{URL}/{second['id']}/input_items?order=asc").json["data"]
    assert [one["content"][0]["text"] for one in items if one["role"] == "user"] == [
        "Say: one",
        "Say: three",
    ]
    gone = send(after, input="Go on", previous_response_id=secret["id"])
    assert gone["error"]["code"] == "previous_response_not_found"
    assert after.send("DELETE", f"{URL}/{first['id']}").status == 200
    after.thread.stop()
    assert len(list(tmp_path.iterdir())) == 1
