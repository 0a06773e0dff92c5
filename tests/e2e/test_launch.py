"""``fullstop launch`` as a person starts it: a server of its own, and signals."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.lab.clients.servers import REPOSITORY, scripted_server
from tests.support.outside.stand_in import CODE, StandIn


def environment(agent: StandIn, tmp_path: Path) -> dict[str, str]:
    return os.environ | {
        "PATH": str(agent.folder),
        "FULLSTOP_CONFIG_DIR": str(tmp_path / "config"),
        "FULLSTOP_PORT": "1",
        "PYTHONPATH": str(REPOSITORY),
    }


def test_launch_starts_own_server(tmp_path: Path) -> None:
    agent = StandIn(tmp_path)
    # The server's modules come from this program, and not from the agent's folder.
    work = tmp_path / "work"
    (work / "app").mkdir(parents=True)
    (work / "app" / "__init__.py").write_text("raise SystemExit('another app')")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text('{"server": {"port": 1}}')
    done = subprocess.run(
        [sys.executable, "-P", "-m", "app", "launch", "claude", "--", "--picture"],
        capture_output=True,
        text=True,
        cwd=work,
        env=environment(agent, tmp_path),
        timeout=400,
        check=False,
    )
    assert done.returncode == CODE, done.stderr  # also because a picture is a note there
    assert "starting a server with the demo model" in done.stderr
    found = agent.found
    assert found["arguments"] == ["--picture"]
    assert found["answer"]["model"] == "demo-model"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(found["variables"]["ANTHROPIC_BASE_URL"], timeout=60)


def test_launch_forwards_signals(tmp_path: Path) -> None:
    agent = StandIn(tmp_path)
    with scripted_server(context=100_000) as server:
        words = ["launch", "claude", "--url", server.url, "--anyway", "--", "--wait"]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "app", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(agent, tmp_path),
        )
        try:
            deadline = time.monotonic() + 60
            while not agent.has_asked:
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)  # the agent decides
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == CODE
        finally:
            process.kill()
            process.wait()
