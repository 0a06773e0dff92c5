"""The small distribution of the probe: it has what it imports, and needs aiohttp alone."""

import importlib.util
import json
import os
import runpy
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

from app import __version__

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / ".ci" / "fullstop-probe"
MAX_BYTES = 40_000_000

# The library and what that needs; where one is not installed it is not needed here.
LIBRARIES = (
    "aiohttp", "aiohappyeyeballs", "aiosignal", "attr", "attrs", "frozenlist", "multidict",
    "propcache", "yarl", "idna", "typing_extensions",
)  # fmt: skip
# Runs the program and says which of our modules it has loaded, and from where.
CONFINED = """
import sys
from fullstop_probe.app.probe_cli import main
code = main(sys.argv[1:])
ours = {
    name: module.__file__ for name, module in sys.modules.items()
    if name.partition(".")[0] in ("api", "app", "engine", "fullstop_probe")
}
import json
print(json.dumps(ours), file=sys.stderr)
sys.exit(code)
"""


def project() -> dict[str, Any]:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the distribution, as its build writes them."""
    folder = tmp_path_factory.mktemp("wheel")
    runpy.run_path(str(PROJECT / "hatch_build.py"))["write_package"](ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which nothing but the library can be imported."""
    folder = tmp_path_factory.mktemp("libraries")
    for name in LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            source = origin.parent if origin.name == "__init__.py" else origin
            (folder / source.name).symlink_to(source)
    return folder


def confined(
    tree: Path, libraries: Path, *words: str, here: Path | None = None
) -> tuple[int, str, dict[str, str]]:
    places = [*([here] if here is not None else []), tree, libraries]
    done = subprocess.run(
        # Without the packages of the environment.
        [sys.executable, "-S", "-c", CONFINED, *words],
        cwd=here or tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    *said, modules = done.stderr.splitlines()
    return done.returncode, done.stdout + "\n".join(said), json.loads(modules)


def test_the_program_runs_from_its_own_files_without_qt_and_mlx(
    tree: Path, libraries: Path
) -> None:
    code, shown, modules = confined(tree, libraries, "http://127.0.0.1:9", "--timeout", "5")
    assert code == 4, shown
    assert "does not answer" in shown
    elsewhere = [path for path in modules.values() if not path.startswith(str(tree))]
    assert elsewhere == []
    code, shown, _ = confined(tree, libraries, "--list")
    assert (code, "stop.one_character" in shown) == (0, True)


def test_it_runs_in_a_repository_with_folders_of_the_same_names(
    tree: Path, libraries: Path, tmp_path: Path
) -> None:
    for name in ("api", "app", "engine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('this is another one')")
    answer = {"message": {"role": "assistant", "content": "a"}, "finish_reason": "eos"}
    file = tmp_path / "answer.json"
    file.write_text(json.dumps({"choices": [{"index": 0, **answer}]}))
    code, shown, _ = confined(tree, libraries, "http://127.0.0.1:9", here=tmp_path)
    assert (code, "does not answer" in shown) == (4, True)
    code, shown, modules = confined(tree, libraries, "inspect", str(file), here=tmp_path)
    assert code == 1, shown
    assert "ERROR unknown_reason" in shown
    assert {name.partition(".")[0] for name in modules} == {"fullstop_probe"}


def test_one_name_is_all_that_it_adds_to_an_environment(tree: Path) -> None:
    assert [path.name for path in tree.iterdir()] == ["fullstop_probe"]


def test_nothing_is_in_it_that_the_program_does_not_import(tree: Path, libraries: Path) -> None:
    imported = set()
    for words in (("http://127.0.0.1:9", "--timeout", "5"), ("inspect", "/dev/null")):
        imported |= {Path(path) for path in confined(tree, libraries, *words)[2].values()}
    unused = {
        path.relative_to(tree).as_posix() for path in tree.rglob("*.py") if path not in imported
    }
    assert unused == set()


def test_its_version_and_its_library_are_those_of_the_application() -> None:
    here = project()["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert here["version"] == __version__ == whole["version"]
    assert set(here["dependencies"]) <= set(whole["dependencies"])
    assert here["license"] == whole["license"]


@pytest.mark.slow
def test_it_is_installed_into_an_empty_environment(tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile"]
    subprocess.run([*pip, str(PROJECT)], check=True, timeout=600, cwd=tmp_path)
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    assert size < MAX_BYTES
    program = folder / "bin" / "fullstop-probe"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for words, code in ((("--version",), 0), (("--list",), 0), (("http://127.0.0.1:9",), 4)):
        done = subprocess.run(
            [program, *words], env=clean, cwd=tmp_path, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == code, done.stderr
