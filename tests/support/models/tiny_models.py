"""A tiny model for each kind of cache."""

import functools
from typing import Any

from tests.support.models.architectures import architecture_model

# Every token is kept; a window of the last ones in half of the layers; a state in half of them.
KINDS = {"full": "qwen3", "windowed": "gpt_oss", "recurrent": "qwen3_next"}


@functools.cache
def tiny_model(kind: str) -> Any:
    return architecture_model(KINDS[kind])
