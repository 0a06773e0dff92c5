"""The domain and the model: requests, stop matching, channels, events and the one engine thread.

Knows no HTTP, no Qt and no pydantic. ``api``, ``ui`` and ``app`` import from here all that makes
an engine, and contracts keep them out of its packages. These are public themselves, because they
work without an engine: ``values``, ``stopping``, ``errors``, ``wording``, ``library`` (models on
disk), ``recording`` (saved runs), ``files`` (JSON files) and, for ``app.engines`` alone,
``distributed``. A package never imports from here.

The names are imported at their first use, so that a command loads few modules. Importing one never
loads MLX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.conversation.template_check import TemplateReport
    from engine.engine import Engine
    from engine.generation import Answer, Generation, merge_deltas
    from engine.inference.backend import LoadCancelled, LoadProgress
    from engine.inference.cache.disk import DiskCache
    from engine.inference.loader import compare_with_mlx_vlm, compare_with_plain_loop, mlx_in_use
    from engine.inference.template_preview import (
        SAMPLE_REQUEST,
        TemplatePreview,
        preview_template,
        validate_template,
    )
    from engine.inference.vision.pictures import draw_sample
    from engine.output.answer import DecodingSetting
    from engine.output.vocabulary import Vocabulary
    from engine.scheduling.model_list import ModelStatus, OfferedModel, Offering

_LAZY = {
    "TemplateReport": "engine.conversation.template_check",
    "Engine": "engine.engine",
    "Answer": "engine.generation",
    "Generation": "engine.generation",
    "merge_deltas": "engine.generation",
    "LoadCancelled": "engine.inference.backend",
    "LoadProgress": "engine.inference.backend",
    "DiskCache": "engine.inference.cache.disk",
    "compare_with_mlx_vlm": "engine.inference.loader",
    "draw_sample": "engine.inference.vision.pictures",
    "compare_with_plain_loop": "engine.inference.loader",
    "mlx_in_use": "engine.inference.loader",
    "SAMPLE_REQUEST": "engine.inference.template_preview",
    "TemplatePreview": "engine.inference.template_preview",
    "preview_template": "engine.inference.template_preview",
    "validate_template": "engine.inference.template_preview",
    "DecodingSetting": "engine.output.answer",
    "Vocabulary": "engine.output.vocabulary",
    "ModelStatus": "engine.scheduling.model_list",
    "OfferedModel": "engine.scheduling.model_list",
    "Offering": "engine.scheduling.model_list",
}


def __getattr__(name: str) -> Any:
    """Import a name of ``_LAZY`` from its module, once."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no public name {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value
