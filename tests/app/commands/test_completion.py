"""Shells complete the command line from the parser, in each shell that is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import main

REPOSITORY = Path(__file__).parents[3]

_COMPLETE_IN_BASH = """
source "$1"
while IFS= read -r line; do
    IFS=, read -ra COMP_WORDS <<< "fullstop,$line"
    [[ "$line" == *, ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _shtab_fullstop < /dev/null
    echo "${COMPREPLY[*]}"
done
"""
# The words of a line, after the program's name, and what the last of them may become.
_LINES = {
    "mod": "models",
    "p": "pull ps probe",
    "models,": "list show search check download remove",
    "completion,z": "zsh",
    "ask,Hello,--save": "--save-run",
    "ask,--stop-scope,te": "text text+thinking",
    "ask,--stop,de": "",
    "ask,--model,de": "demo-model",
    "rm,de": "demo-model",
    "--open,run.fu": "run.fullstop-run",
    "ask,Hello,--file,run.fu": "run.fullstop-run",
    "ask,Hello,--save-run,run.fu": "run.fullstop-run",
    "replay,run.fu": "run.fullstop-run",
    "inspect,run.fu": "run.fullstop-run",
    "serve,--models-folder,fold": "folder",
    "pull,mlx-community/Qwen3-0": "mlx-community/Qwen3-0.6B-4bit",
}
# Without a terminal, zsh completes nothing: it is asked which function completes the program, and
# whether the script has the one for names of models.
_IN_OTHERS = {
    "zsh": """autoload -U compinit; compinit -u; source $1
        print -r -- $_comps[fullstop]; functions | grep "models list --names" """,
    "fish": 'source $argv[1]; complete -C "fullstop ask --model de"',
}
_FOUND_IN_OTHERS = {"zsh": "models list --names", "fish": "demo-model"}


def run_shell(shell: str, script: str, folder: Path, printed: str, typed: str = "") -> str:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program, completion = folder / "fullstop", folder / "completion"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m app "$@"\n'
    )
    program.chmod(0o755)
    completion.write_text(printed)
    named = [str(completion)] if shell == "fish" else [shell, str(completion)]
    done = subprocess.run(
        [shell, "-c", script, *named],
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": f"{folder}:/usr/bin:/bin:/usr/local/bin", "HOME": str(folder)},
        check=False,
        cwd=folder,
    )
    return done.stdout + done.stderr


def test_completion_in_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "run.fullstop-run").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folded").touch()
    typed = "".join(f"{line}\n" for line in _LINES)
    told = run_shell("bash", _COMPLETE_IN_BASH, tmp_path, capsys.readouterr().out, typed)
    assert dict(zip(_LINES, told.splitlines(), strict=True)) == _LINES


@pytest.mark.parametrize("shell", _IN_OTHERS)
def test_completion_in_zsh_and_fish(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    told = run_shell(shell, _IN_OTHERS[shell], tmp_path, capsys.readouterr().out)
    assert _FOUND_IN_OTHERS[shell] in told
    assert shell != "zsh" or told.startswith("_")
