"""Files of a gigabyte are refused in words, and reading what is accepted takes bounded memory."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.conformance.captures.sources import MAX_BYTES
from engine.recording.saved_run import MAX_FILE_BYTES

pytestmark = pytest.mark.long

LARGEST = {"inspect": MAX_BYTES, "replay": MAX_FILE_BYTES}
# Runs the command line like the program, and prints how much memory that took.
# (``ru_maxrss`` would begin with what the process had that started it.)
_MEASURED = """
import re, resource, sys
from app.cli import main
code = main(sys.argv[1:])
try:
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
print(f"peak {peak} MiB, code {code}", file=sys.stderr)
"""


def measured(*words: str) -> tuple[int, int, str]:
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


@functools.cache
def idle(command: str) -> int:
    return measured(command, "/missing")[0]


@pytest.mark.parametrize("command", ["inspect", "replay"])
def test_a_file_of_a_gigabyte_is_refused_and_not_read(command: str, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(b'{"fullstop_run": 1, "x": "')
        file.truncate(1 << 30)
    peak, code, said = measured(command, str(path))
    assert code == 2
    assert said == f"fullstop: {path} is larger than {LARGEST[command] >> 20} MiB"
    assert peak - idle(command) < 100 + (LARGEST[command] >> 20)


def filled(
    part: bytes, before: bytes = b"", after: bytes = b"", *, most: int = MAX_FILE_BYTES
) -> bytes:
    """Return one part as often as fits into a file, between a beginning and an end."""
    count = (most - len(before) - len(after)) // len(part)
    return before + (part * count).rstrip(b",") + after


_MAX_MIB = 400


@pytest.mark.slow
def test_the_largest_saved_run_that_is_read_takes_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(filled(b'{"a":"%s"},' % (b"x" * 130), b"[", b"]"))
    peak, code, said = measured("replay", str(path))
    assert (code, "too many values" in said) == (1, True)
    assert peak - idle("replay") < _MAX_MIB, f"{peak - idle('replay')} MiB"
