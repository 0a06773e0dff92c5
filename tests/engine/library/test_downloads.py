"""Models are downloaded from a local hub that breaks connections, refuses, and damages files."""

import os
import shutil
from collections import namedtuple
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.library.downloads import SPARE_BYTES, HubDownload, repository_of
from engine.library.hub import DownloadProgress, HubCancelled, HubFailed
from engine.library.local_models import ModelFolders, discover
from engine.library.model_folder import check_folder
from tests.support.hub import Hub, hub
from tests.support.models.adapters import random_adapter

REPOSITORY = "makers/demo-model"


@pytest.fixture
def site(demo_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        served.add_folder(REPOSITORY, demo_model_path)
        yield served


class Watched(HubDownload):
    """A download that keeps all figures of its progress, and ends itself after some bytes."""

    def __init__(self, *where: Any, ends_after: float = float("inf")) -> None:
        self.seen: list[DownloadProgress] = []
        self.ends_after = ends_after
        super().__init__(*where)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "progress":
            self.seen.append(value)
            if value.file == "model.safetensors" and value.done_bytes > self.ends_after:
                self.gives_up.set()


def fetch(cache: Path, repository: str = REPOSITORY) -> Path:
    return HubDownload(repository, cache).run()


def test_a_downloaded_model_is_complete_and_found_by_name(site: Hub, tmp_path: Path) -> None:
    download = Watched(REPOSITORY, tmp_path)
    folder, seen = download.run(), download.seen

    check_folder(folder)
    [found] = discover(ModelFolders(hub_cache=tmp_path))
    assert (found.name, found.folder, found.problem) == (REPOSITORY, folder, "")
    assert seen[0].phase == "asking"
    fetched = [progress.done_bytes for progress in seen if progress.phase == "fetching"]
    assert fetched == sorted(fetched)
    assert fetched[-1] == seen[-1].total_bytes == seen[-1].done_bytes
    assert seen[-1].phase == "verifying"


def test_code_and_other_weights_beside_a_model_are_not_downloaded(
    site: Hub, tmp_path: Path
) -> None:
    others = ("modeling.py", "pytorch_model.bin", "consolidated.safetensors")
    site.files[REPOSITORY] |= dict.fromkeys(others, b"1/0")

    assert not set(others) & set(os.listdir(fetch(tmp_path)))


def test_two_downloads_of_one_model_fetch_it_once(site: Hub, tmp_path: Path) -> None:
    site.piece_s = 0.002
    with ThreadPoolExecutor() as pool:
        one, other = pool.map(fetch, (tmp_path, tmp_path))
    assert one == other
    check_folder(one)
    assert sum(path.endswith("model.safetensors") for _, path, _ in site.requests) == 1


def test_a_broken_connection_resumes_where_it_was(site: Hub, tmp_path: Path) -> None:
    site.breaks_after = {"model.safetensors": 2 << 20}
    fetch(tmp_path)

    ranges = [wanted for _, path, wanted in site.requests if path.endswith("model.safetensors")]
    resumed = [wanted for wanted in ranges if wanted]
    assert site.breaks == 0
    assert len(resumed) == 1
    assert int(resumed[0].removeprefix("bytes=").rstrip("-")) >= 1 << 20


def test_a_hub_that_cannot_resume_sends_and_counts_the_file_anew(site: Hub, tmp_path: Path) -> None:
    site.breaks_after, site.resumes = {"model.safetensors": 2 << 20}, False
    download = Watched(REPOSITORY, tmp_path)
    folder = download.run()

    name = "model.safetensors"
    assert (folder / name).read_bytes() == site.files[REPOSITORY][name]
    fetched = [
        one.done_bytes for one in download.seen if (one.phase, one.file) == ("fetching", name)
    ]
    assert fetched != sorted(fetched)  # they went back
    assert fetched[-1] == download.seen[-1].total_bytes


def test_a_partial_download_is_kept_when_it_is_cancelled(site: Hub, tmp_path: Path) -> None:
    site.piece_s = 0.005
    cancelled = Watched(REPOSITORY, tmp_path, ends_after=2 << 20)
    with pytest.raises(HubCancelled):
        cancelled.run()
    [begun] = discover(ModelFolders(hub_cache=tmp_path))
    assert begun.is_partial
    site.requests.clear()
    site.piece_s = 0
    download = Watched(REPOSITORY, tmp_path)
    download.run()
    again = download.seen
    assert any(wanted for _, path, wanted in site.requests if path.endswith("model.safetensors"))
    fetching = [one for one in again if one.file == "model.safetensors" and one.done_bytes]
    assert fetching[1].done_bytes > 1 << 20
    [whole] = discover(ModelFolders(hub_cache=tmp_path))
    assert not whole.is_partial


def test_a_file_that_differs_from_the_digest_of_the_hub_is_removed_and_named(
    site: Hub, tmp_path: Path
) -> None:
    weights = site.files[REPOSITORY]["model.safetensors"]
    site.wrong = {"model.safetensors": weights[:-1] + bytes([weights[-1] ^ 1])}
    with pytest.raises(HubFailed, match=r"model\.safetensors is damaged.*download it again"):
        fetch(tmp_path)
    assert not (tmp_path / "models--makers--demo-model/refs/main").exists()

    site.wrong = {}
    check_folder(fetch(tmp_path))


def test_a_gated_model_is_refused_with_the_way_to_get_it(site: Hub, tmp_path: Path) -> None:
    site.gated.add(REPOSITORY)
    with pytest.raises(HubFailed, match=r"gated, so its terms.*hf auth login.*HF_TOKEN"):
        fetch(tmp_path)


def test_a_repository_without_weights_for_mlx_is_refused_before_the_download(
    site: Hub, tmp_path: Path
) -> None:
    site.files["makers/other"] = {"config.json": b"{}", "model.gguf": b"1" * 100}

    with pytest.raises(HubFailed, match=r"no weights that MLX can read \(only \.gguf\)"):
        fetch(tmp_path, "makers/other")
    assert not any("resolve" in path for _, path, _ in site.requests)


@pytest.mark.parametrize(
    "raw", [b"<html>", b"[]", b"{}", b'{"id": "a/b", "safetensors": {"parameters": {"U32": 1}}}']
)
def test_an_unexpected_answer_of_the_hub_is_reported_as_such(
    site: Hub, tmp_path: Path, raw: bytes
) -> None:
    site.raw = raw
    with pytest.raises(HubFailed, match="cannot be read"):
        fetch(tmp_path)


@pytest.mark.parametrize("commit", ["../../../elsewhere", "", "main"])
def test_a_commit_that_leads_elsewhere_is_refused(site: Hub, tmp_path: Path, commit: str) -> None:
    site.commit = commit
    with pytest.raises(HubFailed, match="names no commit"):
        fetch(tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_token_is_sent_to_the_hub_alone(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    site.elsewhere = site.url.replace("127.0.0.1", "localhost")
    fetch(tmp_path)
    assert {(host.split(":")[0], token) for host, token in site.tokens} == {
        ("127.0.0.1", "Bearer hf_secret"),
        ("localhost", None),
    }


@pytest.mark.parametrize("digest", ["..", "../../x", "a/b"])
def test_a_digest_that_leads_elsewhere_is_refused(site: Hub, tmp_path: Path, digest: str) -> None:
    site.digest = digest
    with pytest.raises(HubFailed, match="names no digest"):
        fetch(tmp_path / "cache")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_full_disk_is_reported_before_the_download(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 10**6, 10**6))

    with pytest.raises(HubFailed, match=r"needs \d.* MB more, and .* has 1\.0 MB free"):
        fetch(tmp_path)
    assert not any("resolve" in path for _, path, _ in site.requests)


def test_a_partial_download_needs_room_for_its_rest_alone(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HubCancelled):
        Watched(REPOSITORY, tmp_path, ends_after=3 << 20).run()
    size = sum(map(len, site.files[REPOSITORY].values()))
    usage = namedtuple("usage", "total used free")
    free = SPARE_BYTES + size - (2 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - free, free))
    check_folder(fetch(tmp_path))
    # A later commit with the same weights needs room for the changed files alone.
    free = SPARE_BYTES + (1 << 20)
    site.commit = "b" * 40
    site.files[REPOSITORY]["README.md"] = b"new"
    assert fetch(tmp_path).name == site.commit


def test_a_body_that_is_longer_than_the_hub_stated_is_written_no_further(
    site: Hub, tmp_path: Path
) -> None:
    stated = site.files[REPOSITORY]["config.json"]
    site.wrong = {"config.json": stated + bytes(8 << 20)}
    with pytest.raises(HubFailed, match=r"the hub stated .* and sends more; it was removed"):
        fetch(tmp_path)
    assert sum(one.stat().st_size for one in tmp_path.rglob("blobs/*")) <= len(stated)


@pytest.mark.parametrize(
    "text",
    [
        "makers/demo-model",
        "https://huggingface.co/makers/demo-model",
        "https://huggingface.co/makers/demo-model/tree/main?x=1",
    ],
)
def test_a_repository_is_taken_by_name_or_by_the_address_of_its_page(text: str) -> None:
    assert repository_of(text) == REPOSITORY


@pytest.mark.parametrize("text", ["", "demo", "a b/c", "../x", "https://example.org/a/b", "-x/y"])
def test_a_text_that_is_not_a_repository_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(HubFailed, match="write owner/name"):
        repository_of(text)


def test_adapter_of_a_repository_is_downloaded(
    site: Hub, tmp_path: Path, demo_model_path: Path
) -> None:
    made = random_adapter(demo_model_path, tmp_path / "poems", 1, stated=REPOSITORY)
    site.add_folder("jane/poems", made)
    site.files["jane/poems"] |= {"0000100_adapters.safetensors": b"1", "train.py": b"1"}
    cache = tmp_path / "hub"
    fetch(cache)
    folder = fetch(cache, "jane/poems")
    assert {"adapter_config.json", "adapters.safetensors"} == set(os.listdir(folder))
    adapted = discover(ModelFolders(hub_cache=cache))[1]
    assert (adapted.name, adapted.can_be_loaded) == (f"{REPOSITORY} + jane/poems", True)
    site.files["jane/peft"] = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"1"}
    with pytest.raises(HubFailed, match="has no weights that MLX can read"):
        fetch(cache, "jane/peft")
