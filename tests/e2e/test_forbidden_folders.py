"""Folders of settings and caches that belong to another user, or permit nothing."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.private_files import access_problem
from tests.e2e.conftest import PROGRAM, without_display

# The superuser may enter every folder, unless it drops what permits that.
AS_USER = (
    [] if os.geteuid() else ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
)
pytestmark = pytest.mark.skipif(
    bool(AS_USER) and shutil.which("setpriv") is None, reason="setpriv is not installed"
)


@pytest.fixture
def forbidden(tmp_path: Path) -> Iterator[Path]:
    """A folder that cannot be entered."""
    folder = tmp_path / "forbidden"
    (folder / "prompts" / "served").mkdir(parents=True)
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


def started(*words: str, **variables: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*AS_USER, *PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=without_display() | variables,
        text=True,
    )


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("ps",)], ids=" ".join)
def test_settings_in_a_forbidden_folder_are_one_line_with_the_remedy(
    forbidden: Path, command: tuple[str, ...]
) -> None:
    process = started(*command, FULLSTOP_CONFIG_DIR=str(forbidden))
    _, error = process.communicate(timeout=60)
    [line] = error.splitlines()
    assert process.returncode == 2
    assert f"{forbidden}/serve.toml cannot be read" in line
    assert f"chmod -R u+rwX {forbidden}" in line


@pytest.mark.parametrize("is_kept", [False, True], ids=["no cache", "disk cache"])
def test_a_server_goes_on_without_a_forbidden_cache_folder(
    forbidden: Path, demo_model_path: Path, is_kept: bool
) -> None:
    more = ("--disk-cache-bytes", "1000000") if is_kept else ()
    model = str(demo_model_path)
    process = started(
        "serve", "--port", "0", "--model", model, *more, FULLSTOP_CACHE_DIR=str(forbidden)
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on ")
    finally:
        process.terminate()
        _, error = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (f"chmod -R u+rwX {forbidden}" in error) is is_kept
    assert "Traceback" not in error


def test_the_remedy_names_the_owner_and_the_nearest_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    assert access_problem(folder / "c" / "d", os.R_OK | os.W_OK) is None
    monkeypatch.setattr(os, "access", lambda place, mode: place != folder)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 4242)
    problem = access_problem(folder / "c" / "d", os.R_OK | os.W_OK)
    assert problem is not None
    assert f"{folder} belongs to" in problem
    assert f"sudo chown -R {folder.stat().st_uid + 4242} '{folder}'" in problem
