"""What Ollama's clients ask about models: names, sizes, abilities. Pure; any thread."""

import hashlib
from datetime import UTC, datetime

from api.dialects.ollama.wire import Ability, OllamaDetails, OllamaListed, OllamaModel
from engine import ModelInfo

# Clients ask for the version to learn what they may send; this is the reference we follow.
API_VERSION = "0.12.6"

_TAG = ":latest"
_NEVER = datetime(2318, 1, 1, tzinfo=UTC)


def tagged(model_id: str) -> str:
    """Return a model's name as this API spells it, with a tag."""
    return model_id if ":" in model_id.rpartition("/")[2] else f"{model_id}{_TAG}"


def is_named(asked: str, model: ModelInfo) -> bool:
    """Whether a name, with or without a tag, is the model's."""
    return tagged(asked).lower() == tagged(model.id).lower()


def time_text(when: datetime) -> str:
    """Return a time as this API spells it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def listed(model: ModelInfo) -> OllamaListed:
    """Return the model's entry of ``/api/tags``."""
    return {
        "name": tagged(model.id),
        "model": tagged(model.id),
        "modified_at": _loaded_at(model),
        "size": model.size_bytes,
        "digest": _digest(model),
        "details": _details(model),
    }


def running(model: ModelInfo) -> OllamaListed:
    """Return the model's entry of ``/api/ps``: it stays until another is loaded."""
    entry = listed(model)
    del entry["modified_at"]
    entry["expires_at"] = time_text(_NEVER)
    entry["size_vram"] = model.weights_bytes
    entry["context_length"] = model.context_length
    return entry


def shown(model: ModelInfo) -> OllamaModel:
    """Return the answer of ``/api/show``."""
    capabilities: list[Ability] = ["completion"]
    capabilities += ["tools"] if model.can_call_tools else []
    capabilities += ["thinking"] if model.can_think else []
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(model),
        "model_info": {
            "general.architecture": model.architecture,
            f"{model.architecture}.context_length": model.context_length,
            f"{model.architecture}.vocab_size": model.vocabulary_size,
        },
        "capabilities": capabilities,
        "modified_at": _loaded_at(model),
    }


def _details(model: ModelInfo) -> OllamaDetails:
    return {
        "parent_model": "",
        "format": "safetensors",
        "family": model.architecture,
        "families": [model.architecture],
        "parameter_size": "",
        "quantization_level": "",
    }


def _loaded_at(model: ModelInfo) -> str:
    return time_text(datetime.fromtimestamp(model.loaded_at, UTC))


def _digest(model: ModelInfo) -> str:
    """Return a digest of the model's description; hashing the weights would take too long."""
    known = f"{model.id}\n{model.architecture}\n{model.size_bytes}\n{model.vocabulary_size}"
    return hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest()
