"""Which models mlx-lm can load is told from its files, as it would tell by itself."""

from typing import Any

import pytest
from mlx_lm import utils

from engine.errors import EngineError
from engine.inference.mlx_lm_internals import classes_of
from engine.library.architectures import _table, problem_of


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama"},
        {"model_type": "mistral"},
        {"model_type": "qwen2_5_vl", "text_config": {"model_type": "newer9"}},
        {"model_type": "bailing_hybrid", "architectures": ["BailingMoeV3ForCausalLM"]},
        {"model_type": "newer9"},
        {"model_type": "newer9", "text_config": {"model_type": "llama"}},
        {"model_type": "../llama"},
        {"model_type": "LLAMA", "architectures": 5},
    ],
)
def test_an_architecture_is_known_exactly_where_mlx_lm_knows_it(config: dict[str, Any]) -> None:
    try:
        classes_of(config)
    except (ValueError, TypeError, EngineError):
        assert "does not support; a later version may." in problem_of(config)
    else:
        assert problem_of(config) == ""


@pytest.mark.parametrize("name", ["MODEL_REMAPPING", "MODEL_ARCHITECTURE_REMAPPING"])
def test_the_tables_of_other_names_are_mlx_lms_own(name: str) -> None:
    expected = getattr(utils, name)
    assert expected
    assert _table(name) == expected
