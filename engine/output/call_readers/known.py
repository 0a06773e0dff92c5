"""Finds the reader of a model's tool calls. Pure; any thread."""

from collections.abc import Callable

from engine.output.call_readers.arriving import CallParser, CallReader, Format, NewReader
from engine.output.call_readers.attribute_calls import kimi_k3, minicpm5, muse_spark
from engine.output.call_readers.gemma_calls import function_gemma, gemma4
from engine.output.call_readers.json_calls import json_calls, kimi_k2, mistral, named_call
from engine.output.call_readers.pythonic_calls import pythonic
from engine.output.call_readers.tagged_calls import glm47, longcat, minimax_m2, qwen3_coder
from engine.output.families.tags import JSON_CALLS

_FORMATS: dict[str, Format] = {
    JSON_CALLS: json_calls,
    "gemma4": gemma4,
    "kimi_k2": kimi_k2,
    "mistral": mistral,
}
# Formats whose values the model's parser converts.
_CONVERTING: dict[str, Callable[[CallParser], Format]] = {
    "function_gemma": function_gemma,
    "glm47": glm47,
    "kimi_k3": kimi_k3,
    "longcat": longcat,
    "minicpm5": minicpm5,
    "minimax_m2": minimax_m2,
    "muse_spark": muse_spark,
    "pythonic": pythonic,
    "qwen3_coder": qwen3_coder,
}

STYLES = frozenset({*_FORMATS, *_CONVERTING})
"""mlx-lm's names of the styles whose calls can be read while they are written."""


def readers(call_style: str, parse: CallParser) -> NewReader:
    """Return a function that makes a reader for each call of one answer.

    Args:
        call_style: mlx-lm's name of the format of the model's calls.
        parse: The parser of its calls.
    """
    converting = _CONVERTING.get(call_style)
    style = converting(parse) if converting is not None else _FORMATS.get(call_style)

    def new_reader(name: str | None) -> CallReader | None:
        read = style if name is None else named_call(name)
        return None if read is None else CallReader(read)

    return new_reader
