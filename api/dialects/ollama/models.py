"""Describes models for Ollama's clients: names, sizes, capabilities. Pure; any thread."""

import hashlib
from datetime import UTC, datetime

from api.dialects.ollama.wire import Ability, OllamaDetails, OllamaListed, OllamaModel
from api.transport.service import Abilities, ListedModel
from engine import ModelInfo

# Clients ask for the version to learn what they may send; we follow the reference of this version.
API_VERSION = "0.12.6"

_TAG = ":latest"
_NEVER = datetime(2318, 1, 1, tzinfo=UTC)


def tagged(model_id: str) -> str:
    """Return a model's name as this API spells it, with a tag."""
    return model_id if ":" in model_id.rpartition("/")[2] else f"{model_id}{_TAG}"


def untagged(asked: str) -> str:
    """Return the name of a model as the engine knows it: without the tag for the latest version."""
    return asked[: -len(_TAG)] if asked.lower().endswith(_TAG) else asked


def is_named(asked: str, model: ModelInfo) -> bool:
    """Whether a name is the model's, with or without a tag."""
    return tagged(asked).lower() == tagged(model.id).lower()


def time_text(when: datetime) -> str:
    """Return a time as this API spells it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def listed(model: ListedModel) -> OllamaListed:
    """Return a model's entry of ``/api/tags``."""
    return {
        "name": tagged(model.id),
        "model": tagged(model.id),
        "modified_at": _since(model),
        "size": model.size_bytes,
        "digest": _digest(model),
        "details": _details(model),
    }


def running(model: ListedModel) -> OllamaListed:
    """Return the entry of ``/api/ps`` of a model that is in memory."""
    entry = listed(model)
    del entry["modified_at"]
    ends = _NEVER if model.unloads_at is None else datetime.fromtimestamp(model.unloads_at, UTC)
    entry["expires_at"] = time_text(ends)
    entry["size_vram"] = model.memory_bytes
    entry["context_length"] = model.context_length
    return entry


def shown(model: ListedModel, abilities: Abilities) -> OllamaModel:
    """Return the answer of ``/api/show``."""
    capabilities: list[Ability] = ["completion"]
    capabilities += ["tools"] if abilities.can_call_tools else []
    capabilities += ["thinking"] if abilities.can_think else []
    info: dict[str, str | int] = {
        "general.architecture": model.architecture,
        f"{model.architecture}.context_length": model.context_length,
    }
    if abilities.vocabulary_size is not None:
        info[f"{model.architecture}.vocab_size"] = abilities.vocabulary_size
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(model),
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": _since(model),
    }


def _details(model: ListedModel) -> OllamaDetails:
    return {
        "parent_model": "",
        "format": "safetensors",
        "family": model.architecture,
        "families": [model.architecture],
        "parameter_size": "",
        "quantization_level": "" if model.bits is None else f"{model.bits}-bit",
    }


def _since(model: ListedModel) -> str:
    return time_text(datetime.fromtimestamp(model.since, UTC))


def _digest(model: ListedModel) -> str:
    """Return a digest of the model's description; hashing the weights would take too long."""
    known = f"{model.id}\n{model.architecture}\n{model.size_bytes}\n{model.context_length}"
    return hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest()
