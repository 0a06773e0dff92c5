"""``fullstop models`` against a hub on this machine."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from app.cli import main
from engine.library.suggestions import SUGGESTIONS
from tests.support.hub import CONFIG, Hub, hub

REPOSITORY = Path(__file__).parents[3]
NAME = "makers/demo-model"
SMALL = {"parameters": {"U32": 1_000_000}}


@pytest.fixture
def site(demo_model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with hub() as served:
        served.add_folder(NAME, demo_model_path)
        served.facts[NAME] = {"tags": ["mlx"]}
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hf" / "hub"


Run = Any


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["models", *words])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


def spawn(*words: str) -> pexpect.spawn:
    command = ["-m", "app", "models", *words]
    return pexpect.spawn(
        sys.executable,
        command,
        cwd=str(REPOSITORY),
        env=os.environ | {"TERM": "xterm"},
        encoding="utf-8",
        timeout=120,
    )


def test_models_download_list_ask_remove(
    site: Hub, run: Run, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run("download", NAME)
    assert (code, NAME in out) == (0, True)
    listed = json.loads(run("--json")[1])["models"]
    [found] = [one for one in listed if one["name"] == NAME]
    assert (found["origin"], found["is_partial"], found["problem"]) == ("hugging_face", False, "")
    weights = ("model.safetensors", "mtp.safetensors")
    assert found["size_bytes"] == sum(len(site.files[NAME][file]) for file in weights)
    assert found["fit"] in {"fits", "tight"}

    cold = ("--temperature", "0", "--seed", "1")
    said = main(["ask", "Count from 1 to 3", "--model", NAME, "--json", *cold])
    answered = json.loads(capfd.readouterr().out)
    assert (said, answered["stop"]["kind"]) == (0, "eos")
    assert answered["no_effect"] == ["seed (the temperature is 0)"]

    code, out, _ = run("remove", NAME, "--yes", "--json")
    removed = json.loads(out)
    assert (code, removed["name"]) == (0, NAME)
    assert removed["freed_bytes"] >= sum(map(len, site.files[NAME].values()))
    assert not (cache / "models--makers--demo-model").exists()
    assert NAME not in run()[1]


def test_models_search_shows_fit(site: Hub, run: Run) -> None:
    site.add_model("a/Qwen-small", CONFIG, safetensors=SMALL, downloads=4321)
    large = {"parameters": {"U32": 10**12}}
    site.add_model("b/Qwen-large", CONFIG, safetensors=large, tags=["mlx", "license:mit"])
    site.gated.add("b/Qwen-large")

    code, out, _ = run("search", "qwen")
    assert code == 0
    small, large_line = out.splitlines()[1:]
    assert small.split() == ["a/Qwen-small", "4.0", "MB", "4", "yes", "4,321"]
    assert large_line.split() == ["b/Qwen-large", "4,000", "GB", "no", "mit", "gated"]
    found = json.loads(run("search", "qwen", "--json")[1])
    assert [one["fit"] for one in found["models"]] == ["fits", "too_large"]
    assert found["models"][0]["needed_bytes"] > 4_000_000


def test_models_search_suggestions(site: Hub, run: Run) -> None:
    for one in SUGGESTIONS:
        site.add_model(one.name, CONFIG)
        site.files[one.name]["model.safetensors"] = b"w" * 1_230_000

    code, out, err = run("search")
    lines = out.splitlines()[1:]
    assert (code, len(lines)) == (0, 6)
    assert all(" 1.2 MB " in line for line in lines)
    assert "to download one" in err


def test_models_search_without_hub(site: Hub, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    code, out, err = run("search", "qwen")
    assert (code, out) == (1, "")
    assert "cannot be reached" in err
    assert "fullstop models lists" in err


@pytest.mark.parametrize(
    ("words", "expected", "said"),
    [
        (("download", "nonsense"), 2, "owner/name"),
        (("download", "makers/none"), 1, "there is no repository makers/none"),
        (("remove", "none", "--yes"), 1, "there is no model none"),
        (("remove", "demo-model", "--yes"), 1, "comes with Fullstop"),
    ],
)
def test_models_command_errors(
    site: Hub, run: Run, words: tuple[str, ...], expected: int, said: str
) -> None:
    code, out, err = run(*words)
    assert (code, out) == (expected, "")
    assert said in err


def test_models_download_warns_of_size(
    site: Hub, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.commands import models
    from engine.library.memory_need import Memory

    monkeypatch.setattr(models, "memory", lambda: Memory(10**6, 10**6))
    assert "of this computer’s memory can be used" in run("download", NAME)[2]


@pytest.mark.parametrize(("answer", "code", "is_left"), [("y", 0, False), ("", 1, True)])
def test_models_remove_asks_for_confirmation(
    site: Hub, run: Run, cache: Path, answer: str, code: int, is_left: bool
) -> None:
    run("download", NAME)
    asking = spawn("remove", NAME)
    asking.expect(r"and free 4\.\d MB\? \[y/N\] ")
    asking.sendline(answer)
    asking.expect(pexpect.EOF)
    asking.close()
    assert asking.exitstatus == code
    assert (cache / "models--makers--demo-model").exists() is is_left
