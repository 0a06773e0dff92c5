"""The whole bundle, built and run in an empty environment.

It takes a minute and the network, so only ``FULLSTOP_TEST_BUNDLE=1`` asks for it;
``.github/workflows/checks.yml`` does.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import __version__
from assets.bundle.build import build
from assets.bundle.mac import AD_HOC
from assets.bundle.product import layout_here

pytestmark = pytest.mark.skipif(
    os.environ.get("FULLSTOP_TEST_BUNDLE") != "1", reason="only with FULLSTOP_TEST_BUNDLE=1"
)


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The program of a bundle that was moved after it was built."""
    built = build(tmp_path_factory.mktemp("built"), None, AD_HOC)
    elsewhere = layout_here(tmp_path_factory.mktemp("some where else"))
    shutil.move(built.root, elsewhere.root)
    yield elsewhere.program
    shutil.rmtree(elsewhere.root)  # pytest would keep half a gigabyte of each run


def run_alone(program: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it without any variable but a home, in a folder that has nothing to do with it."""
    home.mkdir()
    return subprocess.run(
        [program, *words],
        capture_output=True,
        text=True,
        cwd=home,
        env={"HOME": str(home)},
        timeout=120,
        check=False,
    )


def test_the_bundle_proves_itself_in_an_empty_environment(moved: Path, tmp_path: Path) -> None:
    root = moved.parents[2] if moved.parent.name == "MacOS" else moved.parent
    before = {path for path in root.rglob("*") if path.is_file()}
    done = run_alone(moved, tmp_path / "home", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "everything works"
    assert [*(tmp_path / "home").rglob("*")] == []
    assert {path for path in root.rglob("*") if path.is_file()} == before, "a seal would be broken"


def test_the_bundle_is_the_whole_command_line(moved: Path, tmp_path: Path) -> None:
    assert run_alone(moved, tmp_path / "a", "--version").stdout == f"fullstop {__version__}\n"
    done = run_alone(
        moved, tmp_path / "b", "ask", "Count from 1 to 10, one number per line", "--stop", "6"
    )
    assert done.stdout == "1\n2\n3\n4\n5\n"
    assert "Stopped by “6”" in done.stderr


def test_the_bundle_has_the_towers_of_models_that_see(moved: Path, tmp_path: Path) -> None:
    python = layout_here(moved.parents[3] if moved.parent.name == "MacOS" else moved.parents[1])
    code = "import PIL.Image, mlx_vlm.models.qwen3_vl as kind; print(kind.Model.__name__)"
    done = run_alone(python.python / "bin" / "python3", tmp_path / "home", "-c", code)
    assert done.stdout == "Model\n", done.stderr


def test_libraries_that_start_python_find_it(moved: Path, tmp_path: Path) -> None:
    python = layout_here(moved.parents[3] if moved.parent.name == "MacOS" else moved.parents[1])
    code = (
        "import ssl, sqlite3, ctypes, sys; from multiprocessing import get_context; "
        "print(get_context('spawn').Pool(1).apply(abs, (-7,)), sys.prefix)"
    )
    done = run_alone(python.python / "bin" / "python3", tmp_path / "home", "-c", code)
    assert done.stdout.split(maxsplit=1) == ["7", f"{python.python}\n"], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux loader")
def test_no_library_of_qt_misses_one_that_was_left_out(moved: Path) -> None:
    libraries = [*moved.parent.rglob("PySide6/**/*.so"), *moved.parent.rglob("Qt/lib/*.so.*")]
    assert libraries
    missing = {
        f"{library.name}: {line.strip()}"
        for library in libraries
        for line in subprocess.run(
            ["ldd", library], capture_output=True, text=True, check=False
        ).stdout.splitlines()
        if "libQt6" in line and "not found" in line
    }
    assert missing == set()
