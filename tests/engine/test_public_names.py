"""The engine's public names: what the package offers, and what importing it loads."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import engine
from tests.support.sources import modules

HEAVY = ("mlx", "mlx_lm", "transformers", "llguidance", "huggingface_hub", "numpy")


def loaded_by(program: str) -> list[str]:
    """Return the modules that a fresh process has loaded after running a program."""
    report = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program + report], capture_output=True, text=True, check=True
    )
    modules: list[str] = json.loads(done.stdout)
    return modules


def public_names() -> dict[str, str]:
    """Return each public name with its module."""
    tree = ast.parse(Path(engine.__file__).read_text(encoding="utf-8"))
    return {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("engine.")
        for alias in node.names
    }


def test_loading_every_public_name_loads_no_model_library() -> None:
    modules = loaded_by(f"import engine\nfor name in {[*public_names()]}: getattr(engine, name)")
    assert "engine.scheduling.engine_thread" in modules
    assert [name for name in modules if name.partition(".")[0] in HEAVY] == []


def test_type_checker_sees_the_lazy_names() -> None:
    assert public_names() == engine._LAZY
    assert all(hasattr(engine, name) for name in engine._LAZY)


def test_each_public_name_is_used_by_another_package() -> None:
    used = {
        alias.name
        for _, text in modules("api", "ui", "app", holding="from engine import")
        for node in ast.parse(text).body
        if isinstance(node, ast.ImportFrom) and node.module == "engine"
        for alias in node.names
    }
    assert public_names().keys() - used == set()
