"""The engine's public names: what its door offers, and what importing them loads."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_loading_every_public_name_loads_no_model_library() -> None:
    modules = loaded_by("import engine\nfor name in engine.__all__: getattr(engine, name)")
    assert "engine.scheduling.engine_thread" in modules
    assert [name for name in modules if name.partition(".")[0] in HEAVY] == []


def test_opening_the_door_loads_no_room() -> None:
    modules = loaded_by("import engine")
    assert [name for name in modules if name.startswith("engine.")] == []


def test_a_public_name_loads_its_room_and_what_that_needs() -> None:
    modules = loaded_by("from engine import StopRules")
    assert "engine.stopping.rules" in modules
    assert "engine.engine" not in modules
    assert "asyncio" not in modules


def test_the_type_checker_sees_the_names_that_programs_get() -> None:
    tree = ast.parse(Path(engine.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    checked = {
        (alias.name, node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    loaded = {(name, module) for module, names in engine._NAMES_BY_MODULE.items() for name in names}
    assert checked == loaded


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="StopRule"):
        engine.StopRule  # type: ignore[attr-defined]  # noqa: B018


def test_the_door_lists_its_names() -> None:
    assert set(engine.__all__) <= set(dir(engine))
    assert all(hasattr(engine, name) for name in engine.__all__)


def test_no_class_inherits_from_the_owner_of_the_engine_thread() -> None:
    heirs = [
        f"{path}: {found[0]}"
        for path, text in modules("api", "ui", "app")
        for found in re.finditer(r"class \w+\(([^)]*\b)?(Engine|Generation)\b[^)]*\)", text)
    ]
    assert heirs == []


def test_each_public_name_is_used_by_another_package() -> None:
    used = {
        alias.name
        for _, text in modules("api", "ui", "app", holding="from engine import")
        for node in ast.parse(text).body
        if isinstance(node, ast.ImportFrom) and node.module == "engine"
        for alias in node.names
    }
    assert set(engine.__all__) - used == set()
