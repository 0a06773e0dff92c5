"""Shells complete the command line from the parser, in each shell that is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import main

REPOSITORY = Path(__file__).parents[3]


def completed(capsys: pytest.CaptureFixture[str], *line: str) -> list[str]:
    assert main(["completion", "bash", "--", "fullstop", *line]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture(autouse=True)
def _no_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def test_commands_and_subcommands_are_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert completed(capsys, "mod") == ["models"]
    assert completed(capsys, "models", "") == [
        "list",
        "show",
        "search",
        "check",
        "download",
        "remove",
    ]
    assert completed(capsys, "completion", "z") == ["zsh"]
    assert completed(capsys, "p") == ["pull", "ps", "probe"]
    assert completed(capsys, "r") == ["run", "rm", "replay"]


def test_options_of_the_command_are_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert completed(capsys, "ask", "Hello", "--save") == ["--save-run"]
    assert completed(capsys, "models", "remove", "--y") == ["--yes"]
    assert "--save-run" not in completed(capsys, "--")


def test_known_values_of_options_are_completed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert completed(capsys, "ask", "--model", "de") == ["demo-model"]
    assert completed(capsys, "--draft-model", "") == ["demo-model"]
    assert completed(capsys, "ask", "--stop-scope", "te") == ["text", "text+thinking"]
    assert completed(capsys, "ask", "--stop", "de") == []
    assert completed(capsys, "ask", "--stop", "--", "--js") == ["--json"]


def test_names_of_models_are_completed_where_a_model_is_expected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert completed(capsys, "models", "remove", "") == ["demo-model"]
    assert completed(capsys, "models", "remove", "demo-model", "") == []
    for command in ("run", "show", "rm", "stop"):
        assert completed(capsys, command, "de") == ["demo-model"]
    assert completed(capsys, "run", "demo-model", "--fi") == ["--file"]
    offered = completed(capsys, "models", "download", "mlx-community/Qwen3-0")
    assert offered == ["mlx-community/Qwen3-0.6B-4bit"]


_TRIES = {
    "bash": 'source <("$P" completion bash); COMP_WORDS=("$P" ask --model de); COMP_CWORD=3; '
    '_fullstop "$P"; echo "${COMPREPLY[@]}"; complete -p fullstop',
    "zsh": 'source <("$P" completion zsh); words=("$P" ask --model de); CURRENT=4; '
    'compadd() { print -r -- "${(P)2}" }; _fullstop',
    "fish": '"$P" completion fish | source; set -x PATH (dirname "$P") $PATH; '
    'complete -C "fullstop ask --model de"',
}


@pytest.mark.parametrize("shell", _TRIES)
def test_a_shell_completes_with_the_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "fullstop"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m app "$@"\n'
    )
    program.chmod(0o755)
    done = subprocess.run(
        [shell, "-c", _TRIES[shell]],
        capture_output=True,
        text=True,
        timeout=120,
        env={"P": str(program), "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(tmp_path)},
        check=False,
    )
    assert "demo-model" in done.stdout, done.stderr
