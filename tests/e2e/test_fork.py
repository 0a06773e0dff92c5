"""Forks of a saved run, and answers counted by their ends, on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli import main

COUNT = "Count from 1 to 10, one number per line"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run.json"
    assert main(["ask", COUNT, "--stop", "9", "--save-run", str(path), "--json"]) == 0
    return path


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["ask", *words, "--json"]) == 0
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    return values


def test_fork_on_command_line_goes_on_from_chosen_text(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = str(tmp_path / "fork.json")
    run = ["--from-run", str(saved)]
    again = answered(capsys, *run, "--at", "5", "--with", "3", "--save-run", kept)
    assert (again["text"], again["stop"]["value"]) == ("1\n2\n3\n4\n5\n6\n7\n8\n", "9")
    assert again["fork"] == {
        "token_index": 4,
        "replaced": {"id": 27, "text": "3"},
        "chosen": [27],
    }
    assert json.loads(Path(kept).read_text())["fork"] == again["fork"]
    other = answered(capsys, "--from-run", kept, "--at", "7", "--with=--", "--max-tokens", "9")
    assert other["text"].startswith("1\n2\n3\n--")
    assert other["usage"]["output_tokens"] <= 9


def test_fork_that_ends_here_loads_no_model(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.commands.fork.open_engine", None)
    assert main(["ask", "--from-run", str(saved), "--at", "4", "--end"]) == 0
    out, err = capsys.readouterr()
    assert out == "1\n2\n"
    assert "token 4 is the end in place of “⏎” · Ended at a fork" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--at", "99", "--end"], "the run has no token 99; it has 17 tokens, numbered from 1"),
        (["--at", "2", "--with", ""], "--with: the text has no tokens"),
        (["--at", "2", "--token", "9999"], "--token: token id 9999 is outside the vocabulary"),
        (["--at", "2"], "--from-run needs one of --with TEXT, --token ID and --end"),
        (["--at", "2", "--end", "--token", "1"], "needs one of --with TEXT"),
        (["--end"], "--from-run needs --at N"),
        (["hi", "--at", "2", "--end"], "--from-run takes the prompt and the settings of the run"),
        (["--at", "2", "--end", "--repetition-detection", "on"], "the settings of the run"),
        (["--at", "2", "--end", "--stop", "x"], "takes the prompt and the settings of the run"),
    ],
)
def test_fork_refuses_with_reason(
    saved: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["ask", "--from-run", str(saved), *words]) in (1, 2)
    assert message in capsys.readouterr().err


def test_fork_of_other_model_names_both(
    saved: Path, tmp_path: Path, demo_model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    other.write_text(saved.read_text().replace('"model": "demo-model"', '"model": "other-7b"'))
    words = ["ask", "--from-run", str(other), "--at", "2", "--with", "x"]
    assert main(words) == 1
    assert "is of the model other-7b, which is not on this computer" in capsys.readouterr().err
    assert main([*words, "--model", str(demo_model_path)]) == 2
    assert "is a run of other-7b, and the model is demo-model" in capsys.readouterr().err


def test_fork_of_earlier_file_names_remedy(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = json.loads(saved.read_text())
    del values["request"]
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(values))
    assert main(["ask", "--from-run", str(earlier), "--at", "2", "--with", "x"]) == 1
    assert "answer the question again with --save-run" in capsys.readouterr().err


def test_fork_repeats_rendered_prompt_of_file(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = json.loads(saved.read_text())
    values["request"]["messages"][0]["content"] = "as if a template had another date now"
    later = tmp_path / "later.json"
    later.write_text(json.dumps(values))
    again = answered(capsys, "--from-run", str(later), "--at", "1", "--with", "1")
    assert again["text"] == "1\n2\n3\n4\n5\n6\n7\n8\n"


def test_times_counts_ends_with_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    words = [COUNT, "--times", "3", "--temperature", "1", "--stop", "5", "--versus-stop", "3"]
    counted = answered(capsys, *words)
    assert [one["seed"] for one in counted["each"]] == [1, 2, 3]
    assert [(end["kind"], end["seeds"]) for end in counted["ends"]] == [("stop_string", [1, 2, 3])]
    assert counted["stops"] == [{"text": "5", "fired": 3, "cuts": []}]
    assert counted["lengths"]["median"] == 9
    assert counted["versus"]["stops"] == [{"text": "3", "fired": 3, "cuts": []}]
    assert counted["is_complete"]


def test_times_gives_each_seed_its_answer_alone(capsys: pytest.CaptureFixture[str]) -> None:
    hot = ["Hello", "--temperature", "2", "--max-tokens", "20"]
    counted = answered(capsys, *hot, "--times", "4")
    alone = [answered(capsys, *hot, "--seed", str(seed))["text"] for seed in (1, 3)]
    assert [counted["each"][0]["text"], counted["each"][2]["text"]] == alone


def test_times_prints_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", COUNT, "--times", "2", "--stop", "4", "--versus-temperature", "0.5"]) == 0
    out = capsys.readouterr().out
    assert "2        stop “4”" in out
    assert "“4”   2      nothing" in out
    assert "last place: < 0.01% to < 0.01%, median < 0.01%" in out
    assert "All answers are equal" in out
    assert "1     stop “4”, 7 tokens  stop “4”, 7 tokens" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hi", "--versus-stop", "x"], "--versus-stop and --versus-temperature need --times"),
        (["hi", "--at", "3"], "--at, --with, --token and --end need --from-run"),
        (["hi", "--times", "2", "--save-run", "x.json"], "--times saves no run"),
    ],
)
def test_options_without_their_command_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["ask", *words]) == 2
    assert message in capsys.readouterr().err
