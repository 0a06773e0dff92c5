"""The domain and the model: requests, stop matching, channels, events and the one engine thread.

Knows no HTTP, no Qt and no pydantic. ``api``, ``ui`` and ``app`` import its public names from here,
and contracts keep them out of its packages. Four packages are public themselves, because they work
without an engine: ``engine.library`` (models on disk), ``engine.recording`` (saved runs),
``engine.files`` (JSON files) and, for ``app.engines`` alone, ``engine.distributed``. A package
never imports from here.

Values are imported at once, and the names that need more at their first use, so that a command
loads few modules. Importing a name from here never loads MLX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.errors import (
    DraftLoadFailed,
    EngineClosed,
    EngineError,
    EngineStuck,
    InvalidRequest,
    MemoryShort,
    ModelLoadFailed,
    NoModel,
    PromptTooLong,
    QueueFull,
    RequestCancelled,
    UnknownModel,
)
from engine.library.model_info import ModelInfo
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import (
    MAX_STOP_CHARS,
    MAX_STOPS,
    OWN_STOP_OPTIONS,
    STOP_OPTIONS,
    Stop,
    StopOption,
    StopOptions,
    StopRules,
    StopScope,
    checked_strings,
    checked_token_ids,
    options_to_fields,
    stop_from_fields,
    stop_options_from_fields,
)
from engine.values.embedding import EmbeddingRequest, Embeddings
from engine.values.events import (
    BudgetEnd,
    CacheMiss,
    Event,
    Finished,
    PromptProgress,
    Speculation,
    TextDelta,
    ThinkingDelta,
    Timing,
    TokenTrace,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Usage,
    tokens_per_s,
)
from engine.values.figures import (
    RunPhase,
    acceptance,
    draft_sources,
    end_facts,
    figures,
    has_counts,
    phases,
)
from engine.values.limits import Limits
from engine.values.request import (
    LOCAL_OWNER,
    SAMPLING_OPTIONS,
    CacheOwner,
    Effort,
    GenerationRequest,
    Message,
    OutputConstraint,
    Sampling,
    SamplingOptions,
    TextForm,
    Tool,
    ToolCall,
    ToolChoice,
    TraceLevel,
)
from engine.values.tokens import (
    Comparison,
    Difference,
    PromptScores,
    PromptScoring,
    PromptToken,
    TokenOrigin,
    TokenSpan,
    TokenStats,
)
from engine.values.verdict import (
    UNEXPECTED,
    UNRECORDED,
    WRITTEN,
    AnswerContext,
    VerdictText,
    headline,
    interrupted,
    plain_cause,
    sentence,
    shortest,
    steps,
    verdict_text,
)
from engine.wording import (
    as_sentence,
    counted,
    escaped,
    figure,
    format_size,
    quoted,
    seconds,
    visible,
)

if TYPE_CHECKING:
    from engine.conversation.template_check import TemplateReport
    from engine.engine import Engine
    from engine.generation import Answer, Generation, merge_deltas
    from engine.inference.backend import LoadCancelled, LoadProgress
    from engine.inference.cache.disk import DiskCache
    from engine.inference.loader import compare_with_plain_loop, mlx_in_use
    from engine.output.answer import DecodingContext
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
    "compare_with_plain_loop": "engine.inference.loader",
    "mlx_in_use": "engine.inference.loader",
    "DecodingContext": "engine.output.answer",
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
