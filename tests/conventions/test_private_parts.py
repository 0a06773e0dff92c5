"""The private parts of other libraries that the product uses: one module for each library.

A test fails here, and says what to look at, when a new version of a library changes one of them.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine.conversation.bounded_jinja import BoundedEnvironment
from engine.inference import mlx_lm_internals, transformers_internals
from tests.conventions.private_parts import ADAPTERS, complaint, expect
from tests.support.sources import PACKAGES, ROOT, modules, nodes


def test_a_lazy_module_of_transformers_knows_what_its_structure_names() -> None:
    from transformers.utils import import_utils

    expect(
        "transformers",
        "utils.import_utils._LazyModule",
        lambda: transformers_internals._is_as_expected(import_utils),
    )


def test_chat_templates_are_compiled_in_the_environment_with_bounds() -> None:
    def is_bounded() -> bool:
        from transformers.utils import chat_template_utils

        transformers_internals.bound_templates()
        compiled = chat_template_utils._cached_compile_jinja_template("x")
        return isinstance(compiled.environment, BoundedEnvironment)

    expect("transformers", "utils.chat_template_utils.ImmutableSandboxedEnvironment", is_bounded)


def test_a_part_that_is_gone_is_named_with_its_library_and_its_adapter() -> None:
    said = complaint(
        "mlx-lm",
        "TokenizerWrapper._tokenizer",
        lambda: bool(mlx_lm_internals.inner_tokenizer(object())),
    )
    assert said is not None
    assert f"mlx-lm {version('mlx-lm')} has changed TokenizerWrapper._tokenizer" in said
    assert "engine.inference.mlx_lm_internals" in said


@pytest.mark.parametrize("library", ADAPTERS)
def test_each_workaround_names_the_version_and_its_place_upstream(library: str) -> None:
    adapter = ADAPTERS[library]
    about = inspect.getdoc(adapter) or ""
    assert re.search(rf"{library} \d+\.\d+\.\d+", about)
    assert re.search(r"https://github\.com/\S+/tree/v\d", about)
    assert str(Path(__file__).relative_to(ROOT)) in about
    for function in functions_of(adapter):
        assert "Upstream: " in (inspect.getdoc(function) or ""), function.__name__


def functions_of(adapter: ModuleType) -> list[Callable[..., Any]]:
    return [
        one
        for one in vars(adapter).values()
        if inspect.isfunction(one) and one.__module__ == adapter.__name__
    ]


def test_no_other_module_imports_what_a_library_keeps_private() -> None:
    adapters = {Path(str(a.__file__)).relative_to(ROOT).as_posix() for a in ADAPTERS.values()}
    named = re.compile(r"^ *from [\w.]+ import (\([^)]*|.*)|^ *from \S*\._", re.MULTILINE)
    found = []
    for path, text in modules():
        if path in adapters or not any(re.search(r"\b_", one[0]) for one in named.finditer(text)):
            continue
        for node in nodes(text):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            first = node.module.partition(".")[0]
            if first in PACKAGES or first in sys.stdlib_module_names:
                continue
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            if any(name.startswith("_") for name in names):
                found.append(f"{path}:{node.lineno}")
    assert found == []
