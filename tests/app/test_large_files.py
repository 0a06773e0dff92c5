"""Files of a gigabyte are refused in words, and reading what is accepted takes bounded memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_LIMIT = 32 * 1024 * 1024
# Runs the command line as the program does, and says how much memory that took.
_MEASURED = """
import resource, sys
from app.cli import main
code = main(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(f"peak {peak} MiB, code {code}", file=sys.stderr)
"""


def measured(*words: str) -> tuple[int, int, str]:
    """Return the peak of memory in MiB, the exit code, and what was said on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *words],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    *said, last = done.stderr.splitlines()
    _, peak, _, _, code = last.replace(",", "").split()
    return int(peak), int(code), "\n".join(said)


@pytest.mark.parametrize("command", ["inspect", "replay"])
def test_a_file_of_a_gigabyte_is_refused_and_not_read(command: str, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(b'{"fullstop_run": 1, "x": "')
        file.truncate(1 << 30)
    idle, _, _ = measured(command, str(tmp_path / "missing"))
    peak, code, said = measured(command, str(path))
    assert code == 2
    assert said == f"fullstop: {path} is larger than 32 MiB"
    assert peak - idle < 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("inspect", b"data: {}\n\n"),
        ("inspect", b"\n"),
        ("inspect", b"[],"),
        ("inspect", b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'),
        ("replay", b"[],"),
        ("replay", b'{"a":1},'),
    ],
)
def test_the_largest_file_that_is_read_takes_bounded_memory(
    command: str, part: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "large"
    content = part * ((_LIMIT - 2) // len(part))
    is_list = not part.startswith((b"data", b"\n"))
    path.write_bytes(b"[" + content[:-1] + b"]" if is_list else content)
    idle, _, _ = measured(command, str(tmp_path / "missing"))
    peak, code, _ = measured(command, str(path))
    assert code in (1, 2)
    assert peak - idle < 1_200, f"{peak - idle} MiB"


def test_a_run_that_is_accepted_is_still_played(tmp_path: Path) -> None:
    path = tmp_path / "no-run.json"
    path.write_text(json.dumps({"fullstop_run": 2}))
    _, code, said = measured("replay", str(path))
    assert code == 1
    assert "this version reads 1, the file has 2" in said
