"""Faults around the program: a full disk, unusable folders, a clock that jumps.

Each ends with a clear message and loses nothing. Other faults are tested where they happen: a taken
port, two instances, a killed step, damaged weights, a hung client, a broken download.
"""

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import main
from engine.engine import Engine
from engine.values.request import GenerationRequest, Message
from tests.e2e.conftest import (
    COUNT,
    PROGRAM,
    REPOSITORY,
    ServeProcess,
    read_json,
    without_display,
)

pytestmark = pytest.mark.long

SMALL_DISK_BYTES = 2000


def with_a_small_disk(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the program with a limit of a few bytes for each file: the system refuses the rest."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK_BYTES, SMALL_DISK_BYTES))

    return subprocess.run(
        [*PROGRAM, *words],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=without_display() | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=limit,
        timeout=60,
        check=False,
    )


def test_a_run_that_does_not_fit_on_the_disk_is_reported_and_the_old_file_stays(
    tmp_path: Path,
) -> None:
    older = tmp_path / "run.json"
    older.write_text("an older run")
    done = with_a_small_disk("ask", COUNT, "--save-run", str(older))
    assert done.returncode == 1
    assert done.stdout.startswith("1\n2\n3\n"), "the answer itself is shown"
    assert f"--save-run: cannot write {older}: it is too large" in done.stderr
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [
        ("run.json", "an older run")
    ]


def test_a_run_can_be_saved_to_a_device_without_replacing_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["ask", COUNT, "--save-run", "/dev/full"]) == 1
    said = "--save-run: cannot write /dev/full: the disk is full"
    assert said in capfd.readouterr().err
    assert Path("/dev/full").is_char_device()


def test_a_server_starts_even_if_its_folders_cannot_be_used(
    tmp_path: Path, serve: Callable[..., ServeProcess]
) -> None:
    (tmp_path / "file").touch()
    inside = str(tmp_path / "file" / "inside")
    server = serve("--port", "0", FULLSTOP_CONFIG_DIR=inside, FULLSTOP_DATA_DIR=inside)
    url = server.wait_until_ready()
    assert read_json(f"{url}/health")["status"] == "ok"
    assert server.end() == 0


def test_the_limit_of_open_files_is_raised_and_stays_raised_with_a_model() -> None:
    code = """if True:
        import asyncio, resource
        from pathlib import Path
        from app.process.open_files import raise_open_file_limit
        from engine.engine import Engine

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        raise_open_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 10_240), hard)
        engine = Engine()
        asyncio.run(engine.load(Path("assets/demo-model")))
        engine.close()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 10_240), hard)
    """
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        preexec_fn=lambda: limit_open_files(256, keeps_hard=True),
        timeout=120,
        check=True,
    )


def limit_open_files(count: int, *, keeps_hard: bool = False) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if keeps_hard else count
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


async def test_a_clock_that_jumps_back_disturbs_no_answer(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = iter(range(10**9, 0, -86_400))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))

    message = Message("user", COUNT)
    generation = await engine.generate(GenerationRequest((message,), max_tokens=40))
    answer = await generation.collect()
    timing = answer.finished.timing
    assert answer.text == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10"
    assert timing.first_token_s is not None
    assert 0 <= timing.first_token_s <= timing.total_s < 60
