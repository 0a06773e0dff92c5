"""Loads model folders with mlx-lm, and explains why one cannot be loaded.

Never runs code from a folder. Engine thread, except for ``check``.
"""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_adapters, load_model, load_tokenizer

from engine.errors import DraftLoadFailed, EngineError, ModelDamaged, ModelLoadFailed
from engine.files.causes import without_folders
from engine.files.json_fields import DamagedFile
from engine.inference.backend import (
    BatchLimits,
    LoadCancelled,
    LoadProgress,
    OnLoadProgress,
    unobserved,
)
from engine.inference.batch import RunningBatch
from engine.inference.cache.disk import Stamps, stamps_of
from engine.inference.cache.size import measure_cache
from engine.inference.end_tokens import end_tokens, stated_ids
from engine.inference.mlx_backend import MlxBackend
from engine.inference.mlx_lm_internals import (
    classes_of,
    has_template_in_code,
    inner_tokenizer,
)
from engine.inference.sampling import sampling_defaults
from engine.inference.speculation.assistants import read_assistant
from engine.inference.speculation.draft_model import DraftModel, LoadedDraft, check_draft
from engine.inference.speculation.head_drafts import attach, cache_size_of
from engine.inference.speculation.heads import (
    DrafterUnusable,
    HeadKeeper,
    HeadWeights,
    build_head,
)
from engine.inference.text import chat_template
from engine.inference.transformers_internals import bound_templates
from engine.inference.weights import BASES, BaseWeights, read_weights, size_of, step_reads, widen
from engine.library.adapters import adapted_name, check_adapter
from engine.library.architectures import ASSISTANTS, SEEING, unsupported
from engine.library.configuration import architecture_of, context_length
from engine.library.memory_need import CacheSize
from engine.library.model_files import model_name
from engine.library.model_folder import check_folder, is_assistant
from engine.library.model_info import DraftInfo, EosToken, ModelInfo
from engine.library.weights import weights_size
from engine.output.vocabulary import Vocabulary, read_vocabulary
from engine.wording import counted, escaped

if TYPE_CHECKING:
    from engine.inference.vision.vision import Vision

_log = logging.getLogger(__name__)
_MAX_MESSAGE_CHARS = 600
_VISION_MISSING = "pictures need mlx-vlm: pip install 'fullstop-chat[vision]'"
_VISION_SHARDED = "its weights are sharded across several processes"
_ADAPTER_LEAVES = {"lora_a", "lora_b", "m"}

Shard = Callable[[Any, dict[str, Any]], None]
"""Called with a model and its configuration; leaves only this process's shard of the model."""


def _describe(folder: Path, config: dict[str, Any], error: BaseException) -> str:
    name, kind = model_name(folder), _shown(architecture_of(config))
    if not kind:
        return f"{name} is not a language model: its config.json names no model_type"
    if kind in ASSISTANTS:
        return f"{name} answers nothing by itself; choose it as the draft model of a Gemma 4 model"
    if code := config.get("model_file"):
        return f"{name} needs code of its own ({_shown(code)}), and code from models is never run"
    if isinstance(error, ValueError) and "not supported" in str(error):
        return f"{name} is of architecture {unsupported(kind)}"
    if "No Metal back-end" in str(error):
        return f"{name} needs a Mac: mlx-lm computes {kind} with programs for Apple's GPUs"
    if isinstance(error, MemoryError):
        return f"there is not enough memory for {name}"
    if isinstance(error, SystemExit):  # mlx-lm's module of OLMo prints the package and exits
        return f"{name} needs a package for {kind} that is not installed here; the output names it"
    return _failure(folder, error)


def _failure(folder: Path, error: BaseException) -> str:
    cause = _shown(without_folders(str(error), folder))
    return f"{model_name(folder)} could not be loaded: {cause}"


def _shown(message: object) -> str:
    """Return a library's message on one line, without control characters from a model's files."""
    parts = str(message)[: 2 * _MAX_MESSAGE_CHARS].split()
    return escaped(" ".join(parts))[:_MAX_MESSAGE_CHARS]


def _open(
    folder: Path, on_progress: OnLoadProgress, user_template: str | None = None
) -> tuple[Any, Any, dict[str, Any], HeadWeights | DrafterUnusable | None]:
    """Return a folder's lazy model, tokenizer, configuration and draft head."""
    on_progress(LoadProgress("checking"))
    stated = check_folder(folder)
    mx.random.seed(int.from_bytes(os.urandom(4), "little"))
    on_progress(LoadProgress("tokenizer", 0, weights_size(folder)))
    with _reporting_failures(folder, stated):
        model, config, head = _load_lazily(folder)
        if not mx.metal.is_available():
            # This computes nothing, but fails where the model needs kernels of Metal.
            model(mx.array([[0]]), cache=make_prompt_cache(model))
        tokenizer = _tokenizer(folder, config, user_template)
    return model, tokenizer, config, head


def _tokenizer(folder: Path, config: dict[str, Any], user_template: str | None) -> Any:
    bound_templates()
    own: dict[str, str | None] | None = None
    if user_template is not None:  # it also replaces a template that is code
        own = {"chat_template": user_template, "chat_template_type": None}
    return load_tokenizer(folder, own, eos_token_ids=stated_ids(config) or None)


def _fill(
    folder: Path,
    config: dict[str, Any] | None,
    model: Any,
    on_progress: OnLoadProgress,
    shard: Shard | None = None,
) -> None:
    with _reporting_failures(folder, config):
        if shard is not None and config is not None:
            shard(model, config)
        if mx.default_device() == mx.cpu:
            widen(model)
        read_weights(model, on_progress)


@contextlib.contextmanager
def _reporting_failures(folder: Path, config: dict[str, Any] | None) -> Iterator[None]:
    """Raise ``ModelLoadFailed`` for errors; ``config`` is that of a model that answers."""
    try:
        yield
    except DrafterUnusable as error:
        raise ModelLoadFailed(f"{model_name(folder)} is not as published: {error}") from error
    except DamagedFile as error:
        raise ModelDamaged(f"{model_name(folder)} is damaged: {error}") from error
    except (EngineError, KeyboardInterrupt):
        raise
    # Panics of native libraries are such exceptions.
    except BaseException as error:
        message = _failure(folder, error) if config is None else _describe(folder, config, error)
        raise ModelLoadFailed(message) from error


def _load_lazily(folder: Path) -> tuple[Any, dict[str, Any], HeadWeights | DrafterUnusable | None]:
    keepers: list[HeadKeeper] = []

    def classes(config: dict[str, Any]) -> tuple[Callable[[Any], Any], type[Any]]:
        kind, kind_of_args = classes_of(config)
        text = config.get("text_config") or {}
        layers = int(config.get("num_hidden_layers") or text.get("num_hidden_layers") or 0)

        def made(args: Any) -> Any:
            model = kind(args)
            keepers.append(HeadKeeper(model, layers))
            return model

        return made, kind_of_args

    model, config = load_model(folder, lazy=True, get_model_classes=classes)
    return model, config, keepers[0].take(folder)


def _attached_head(
    weights: HeadWeights | DrafterUnusable,
    model: Any,
    config: dict[str, Any],
    name: str,
) -> tuple[str, CacheSize, int]:
    """Let a model use its own head, or say why not; return the size of its caches and weights."""
    try:
        if isinstance(weights, DrafterUnusable):
            raise weights
        head = build_head(weights, model, config)
        read_weights(head, unobserved)
    except (DrafterUnusable, DamagedFile) as error:
        _log.warning("the own draft head of %s is not used: %s", name, error)
        return _shown(error), CacheSize(), 0
    attach(model, head)
    return "", cache_size_of(head), size_of(head)


def _fill_shared(
    folder: Path,
    config: dict[str, Any],
    model: Any,
    on_progress: OnLoadProgress,
    stamps: Stamps | None,
) -> BaseWeights:
    """Read a model's weights, or take those of the same folder that are in memory."""
    shared = None if stamps is None else BASES.get((folder, stamps))
    if shared is None:
        _fill(folder, config, model, on_progress)
        shared = BaseWeights(model)
        if stamps is not None:
            BASES[folder, stamps] = shared
    else:
        shared.give_to(model)
        total = size_of(model)
        on_progress(LoadProgress("weights", total, total))
    return shared


def _adapt(
    adapter: Path, base: Path, model: Any, on_progress: OnLoadProgress, resident: frozenset[int]
) -> int:
    """Put an adapter around the layers of its base; return the bytes of its file."""
    checked = check_adapter(adapter)
    before = {name for name, _ in tree_flatten(model.parameters())}
    try:
        load_adapters(model, str(adapter))
    except Exception as error:
        # mlx-lm lists the faulty weights below the first line.
        first, *faults = str(error).splitlines() or [type(error).__name__]
        cause = _shown(without_folders(faults[0] if faults else first, adapter))
        more = f" and {counted(len(faults) - 1, 'more fault')}" if len(faults) > 1 else ""
        raise ModelLoadFailed(
            f"{model_name(adapter)} does not fit its base {model_name(base)}: {cause}{more}"
        ) from error
    added = {name for name, _ in tree_flatten(model.parameters())} - before
    own = {name for name in added if name.rpartition(".")[2] in _ADAPTER_LEAVES}
    if missing := own - checked.names:  # mlx-lm leaves them random
        raise ModelDamaged(f"{model_name(adapter)} is damaged: it has no {min(missing)}")
    model.eval()
    with _reporting_failures(adapter, None):
        read_weights(model, on_progress, resident)
    return checked.stored_bytes


def check(folder: Path) -> None:
    """Check a model folder without loading it."""
    stated = check_folder(folder)
    with _reporting_failures(folder, stated):
        if stated.get("model_file"):
            raise ValueError("code from models is never run")
        classes_of(stated)


def read_plainly(folder: Path, on_progress: OnLoadProgress, base: Path | None = None) -> Any:
    """Load a model for the plain loop of mlx-lm; the rest of the engine has no part in it."""
    files = (base or folder).resolve()
    model, _, config, _ = _open(files, on_progress)
    _fill(files, config, model, on_progress)
    if base is not None:
        _adapt(folder, base, model, on_progress, frozenset())
    return model


def load_shard(folder: Path, shard: Shard) -> tuple[Any, int]:
    """Load one shard of a model, for a process that follows another."""
    model, _, config, _ = _open(folder.resolve(), unobserved)
    _fill(folder, config, model, unobserved, shard)
    return model, size_of(model)


def load(
    folder: Path,
    *,
    limits: BatchLimits,
    on_progress: OnLoadProgress = unobserved,
    shard: Shard | None = None,
    batch_of: Callable[[Any, BatchLimits], RunningBatch] | None = None,
    draft: Path | None = None,
    user_template: str | None = None,
    base: Path | None = None,
) -> MlxBackend:
    """Load a model folder, or that of an adapter over its base; never runs code from it."""
    adapter = None
    if base is not None:
        adapter, base = folder.resolve(), base.resolve()
        check_adapter(adapter)
    folder = base or folder.resolve()
    # The caches of a sharded model are spread over several machines, so they are not kept on disk.
    disk = limits.disk if shard is None else None
    stamps: Stamps | None = None
    own_stamps: Stamps | None = None
    with contextlib.suppress(OSError):  # loading reports the error
        stamps = stamps_of(folder)
        own_stamps = stamps if adapter is None else stamps_of(adapter, folder)
    drafted = None
    if draft is not None:
        # The draft model is read first, so that it is compared with the larger model before the
        # weights of that are read.
        drafted = _read_draft(draft.resolve(), on_progress)
    model, tokenizer, config, head = _open(folder, on_progress, user_template)
    assistant = None if drafted is None or drafted.vocabulary is not None else drafted.model
    if assistant is not None and drafted is not None:
        try:
            assistant.follow(model)
        except DrafterUnusable as error:
            lead = f"{drafted.info.id} cannot be the draft model of {model_name(folder)}"
            raise DraftLoadFailed(f"{lead}: {error}") from error
    elif drafted is not None:
        vocabulary, _ = _vocabulary(folder, tokenizer, logits_size(model))
        check_draft(drafted, model_name(folder), vocabulary)
    shared = None
    if shard is None:
        shared = _fill_shared(folder, config, model, on_progress, stamps)
    else:
        _fill(folder, config, model, on_progress, shard)
    size = weights_size(folder)
    if adapter is not None and shared is not None:
        size = _adapt(adapter, folder, model, on_progress, shared.ids)
    vocabulary, ends = _vocabulary(folder, tokenizer, logits_size(model))
    info = ModelInfo(
        id=adapted_name(adapter or folder, base),
        path=adapter or folder,
        architecture=architecture_of(config),
        context_length=context_length(config),
        vocabulary_size=vocabulary.size,
        eos=ends,
        **_abilities(tokenizer),
        size_bytes=size,
        loaded_at=int(time.time()),
        cache=measure_cache(model, config),
        held_bytes=size_of(model),
        own_settings=tuple(sampling_defaults(folder).items()),
        user_template=user_template,
        base=base,
        shared_bytes=0 if shared is None else shared.shared_bytes(model),
    )
    if limits.drafts and shard is None:
        if assistant is not None:
            attach(model, assistant)
        elif head is not None:
            problem, cache, head_bytes = _attached_head(head, model, config, info.id)
            held, cache = info.held_bytes + head_bytes, info.cache + cache
            info = replace(info, own_head_problem=problem, held_bytes=held, cache=cache)
    del head
    drafting = None
    if drafted is not None:
        info = replace(info, draft=drafted.info)
    if drafted is not None and assistant is None:
        share = drafted.info.cache.token_bytes / max(1, info.answer_cache.token_bytes)
        # Both models keep caches of earlier prompts, and share the memory for them.
        kept = int(limits.cache_bytes * share)
        limits = replace(limits, cache_bytes=limits.cache_bytes - kept)
        drafting = DraftModel(drafted, kept)
    vision, info = _vision(folder, config, model, info, is_sharded=shard is not None)
    info = replace(info, reads=step_reads(model, config, info.answer_cache))
    limits = replace(limits, reads=info.reads)
    batch = (
        RunningBatch(model, limits, vision=vision) if batch_of is None else batch_of(model, limits)
    )
    if disk is not None and own_stamps is not None:
        can_see = batch.vision is not None
        batch.prompt_cache.attach(disk, info.path, own_stamps, can_see=can_see, base=base)
    return MlxBackend(tokenizer, info, vocabulary, batch, drafting, shared)


def with_template(backend: MlxBackend, user_template: str | None) -> MlxBackend:
    """Return a backend whose prompts have another chat template; its end tokens follow it."""
    folder = backend.info.model_folder
    config = check_folder(folder)
    with _reporting_failures(folder, config):
        tokenizer = _tokenizer(folder, config, user_template)
    ends = end_tokens(folder, tokenizer, backend.info.vocabulary_size)
    sources = {end.token_id: end.source for end in ends}
    vocabulary = replace(backend.vocabulary, eos=frozenset(sources), eos_sources=sources)
    info = replace(backend.info, eos=ends, user_template=user_template, **_abilities(tokenizer))
    shared = backend.base_weights
    return MlxBackend(tokenizer, info, vocabulary, backend.batch, backend.draft, shared)


def _abilities(tokenizer: Any) -> dict[str, Any]:
    """Return the fields of ``ModelInfo`` that follow from a tokenizer and its template."""
    return {
        "can_think": bool(tokenizer.has_thinking),
        "can_call_tools": bool(tokenizer.has_tool_calling),
        "takes_tools": has_template_in_code(tokenizer)
        or "tools" in chat_template(tokenizer).variables,
    }


def _vision(
    folder: Path, config: dict[str, Any], model: Any, info: ModelInfo, *, is_sharded: bool
) -> "tuple[Vision | None, ModelInfo]":
    """Return what a model sees, and its figures with that; a faulty tower harms no text."""
    if not config.get("vision_config"):
        return None, info
    if is_sharded:
        return None, replace(info, vision_problem=_VISION_SHARDED)
    try:
        from engine.inference.vision.tower import read_tower
        from engine.inference.vision.vision import Vision

        if info.architecture not in SEEING:
            raise NotImplementedError(f"pictures of {info.architecture} are not known")
        tower = read_tower(folder, config, model)
        vision = Vision(folder, config, model, tower)
    except ModuleNotFoundError as error:
        _log.info("%s reads text only: %s", info.id, error)
        return None, replace(info, vision_problem=_VISION_MISSING)
    except Exception as error:  # mlx-vlm may raise anything
        _log.warning("%s reads text only: %s", info.id, error)
        return None, replace(info, vision_problem=_shown(error))
    return vision, replace(info, can_see=True, held_bytes=info.held_bytes + tower.size_bytes)


def _vocabulary(folder: Path, tokenizer: Any, size: int) -> tuple[Vocabulary, tuple[EosToken, ...]]:
    ends = end_tokens(folder, tokenizer, size)
    sources = {end.token_id: end.source for end in ends}
    if missing := set(tokenizer.eos_token_ids) - sources.keys():
        listed = ", ".join(map(_shown, missing))
        _log.warning("%s has no token for its EOS ids %s", model_name(folder), listed)
    return read_vocabulary(folder, inner_tokenizer(tokenizer), sources, size, sources), ends


def logits_size(model: Any) -> int:
    """Return how many ids a model reads and produces, whatever ``vocab_size`` says."""
    logits = model(mx.zeros((1, 1), mx.int32), cache=make_prompt_cache(model))
    tables = (nn.Embedding, nn.QuantizedEmbedding)
    rows = [part.weight.shape[0] for part in model.modules() if isinstance(part, tables)]
    size = int(logits.shape[-1])
    # Some architectures have smaller tables beside that of the input ids, such as positions.
    return min(size, max(rows, default=size))


def _read_draft(folder: Path, on_progress: OnLoadProgress) -> LoadedDraft:
    """Read a draft model, or an assistant, which drafts from the other model's cache."""
    vocabulary: Vocabulary | None = None
    cache = CacheSize()
    try:
        if is_assistant(folder):
            on_progress(LoadProgress("checking"))
            config = check_folder(folder)
            with _reporting_failures(folder, None):
                model: Any = read_assistant(folder, config)
            _fill(folder, None, model, on_progress)
        else:
            model, tokenizer, config, _ = _open(folder, on_progress)
            _fill(folder, config, model, on_progress)
            vocabulary = _vocabulary(folder, tokenizer, logits_size(model))[0]
            cache = measure_cache(model, config)
    except LoadCancelled:
        raise
    except ModelLoadFailed as error:
        raise DraftLoadFailed(f"the draft model cannot be loaded: {error}") from error
    info = DraftInfo(model_name(folder), folder, weights_size(folder), size_of(model), cache)
    return LoadedDraft(model, info, vocabulary)
