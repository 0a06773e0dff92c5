"""``fullstop models check``: answers beside mlx-lm's plain loop, and what drafts gain."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.commands import check
from engine.values.tokens import Comparison, Difference
from tests.support.models.adapters import random_adapter

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["models", "check", *words])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_ROUNDS", 1)


@pytest.mark.usefixtures("one_round")
def test_check_demo_model_comparison_and_measurements(
    run: Run, demo_model_path: Path, tmp_path: Path
) -> None:
    own = (demo_model_path / "chat_template.jinja").read_text()
    (tmp_path / "own.jinja").write_text(own.replace("Reply with", "\x9b\u202eAnswer by"))
    users = ("--chat-template", str(tmp_path / "own.jinja"))
    code, out, _ = run("demo-model", "--tokens", "24", "--json", *users)
    assert not {"\x9b", "\u202e"} & set(out)  # a terminal would obey them
    said = json.loads(out)
    assert (code, said["model"], said["is_right"]) == (0, "demo-model", True)
    compared = {one["answers"]: (one["tokens"], one["differences"]) for one in said["comparisons"]}
    assert compared == {
        "free text, alone": (24, []),
        "copied text, alone": (24, []),
        "3 prompts at once": (18, []),
    }
    measured = {(one["text"], one["drafts"]) for one in said["measurements"]}
    assert {("free text", "none"), ("a list", "prompt lookup")} <= measured
    assert all(
        one["tokens_per_s"] > 0 and one["accepted"] <= one["guessed"]
        for one in said["measurements"]
    )
    assert all(one["guessed"] == 0 for one in said["measurements"] if one["drafts"] == "none")
    assert {case["outcome"] for case in said["template"]["cases"]} == {"as sent"}
    assert (
        "+\x9b\u202eAnswer by a tool call when a tool fits.<|im_end|>"
        in said["template_difference"]
    )


@pytest.mark.usefixtures("one_round")
def test_check_compares_an_adapter_with_the_plain_loop(
    run: Run, demo_model_path: Path, tmp_path: Path
) -> None:
    folder = random_adapter(demo_model_path, tmp_path / "poems", 1, stated="demo-model")
    code, out, _ = run(str(folder), "--tokens", "16", "--json")
    said = json.loads(out)
    assert (code, said["model"], said["is_right"]) == (0, "demo-model + poems", True)


@pytest.mark.usefixtures("one_round")
def test_check_compares_answer_about_picture_with_mlx_vlm(run: Run) -> None:
    pytest.importorskip("mlx_vlm")
    code, out, _ = run("seeing-model", "--tokens", "16", "--json")
    compared = {one["answers"]: one["tokens"] for one in json.loads(out)["comparisons"]}
    assert (code, compared["a picture, beside mlx-vlm"]) == (0, 16)


@pytest.mark.parametrize(
    ("difference", "code", "words"),
    [
        (Difference(6, 40, 41, 0.25, False), 1, "token 7: 40 instead of 41, logits 0.25 apart"),
        (Difference(6, 40, 41, 0.0004, True), 0, "logits 0.0004 apart, a near tie"),
    ],
)
@pytest.mark.usefixtures("one_round")
def test_check_difference_fails_unless_near_tie(
    run: Run, monkeypatch: pytest.MonkeyPatch, difference: Difference, code: int, words: str
) -> None:
    def compared(_folder: Path, answers: Any, *_: Any) -> list[Comparison]:
        return [Comparison(len(tokens), 1, (difference,)) for _, tokens in answers]

    monkeypatch.setattr(check, "compare_with_plain_loop", compared)
    said, out, _ = run("demo-model", "--tokens", "16")
    assert (said, words in out) == (code, True)
    assert ("does not answer here as" in out) == bool(code)


def test_check_unloadable_model_error(run: Run, demo_model_path: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(demo_model_path, broken, ignore=shutil.ignore_patterns("training"))
    (broken / "model.safetensors").write_bytes(b"nothing")
    code, out, err = run(str(broken))
    assert (code, out) == (1, "")
    assert "the model cannot be loaded: the file broken/model.safetensors is damaged" in err
    assert "Traceback" not in err
