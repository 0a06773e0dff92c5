"""An assistant of Gemma 4 is loaded as a draft model, or refused in words."""

import asyncio
import json
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import DraftLoadFailed, ModelLoadFailed
from engine.inference.backend import BatchLimits
from engine.inference.mlx_loading import load
from engine.library.local_models import Origin, look_into
from engine.library.memory_need import need
from engine.values.tokens import TokenOrigin
from tests.support.models.assistants import write_assistant, write_gemma4

LIMITS = BatchLimits(512, 1 << 24, 4)


@pytest.fixture(scope="module", params=["large", "small"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def target(kind: str, tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> Path:
    return write_gemma4(tmp_path_factory.mktemp("models") / "gemma-4", kind, demo_model_path)


def test_an_assistant_is_loaded_beside_its_model_and_counted(
    target: Path, kind: str, tmp_path: Path
) -> None:
    folder = write_assistant(tmp_path / "gemma-4-assistant", kind)
    backend = load(target, limits=LIMITS, draft=folder)
    info = backend.info
    assert info.draft is not None
    assert (info.draft.id, info.draft.path) == ("gemma-4-assistant", folder)
    assert info.own_head_problem is None
    assert backend.batch.own_head is not None
    assert backend.batch.own_head.origin is TokenOrigin.DRAFT
    assert info.weights_bytes == info.held_bytes + info.draft.weights_bytes
    size = (folder / "model.safetensors").stat().st_size  # with the names of the weights
    assert 0.95 * size < info.draft.weights_bytes <= size
    assert info.answer_cache == info.cache  # it keeps nothing of its own
    backend.close()
    alone, both = need(target), need(target, folder)
    assert both.cache == alone.cache
    assert both.weights > alone.weights


def test_an_assistant_of_another_model_is_refused_with_the_reason(
    loop_engine: tuple[asyncio.Runner, Engine],
    target: Path,
    kind: str,
    tmp_path: Path,
    demo_model_path: Path,
) -> None:
    folder = write_assistant(tmp_path / "gemma-4-assistant", kind)
    runner, engine = loop_engine
    runner.run(engine.load(demo_model_path))
    with pytest.raises(DraftLoadFailed) as raised:
        runner.run(engine.load(demo_model_path, draft=folder))
    words = "gemma-4-assistant cannot be the draft model of demo-model: it drafts for models of"
    assert str(raised.value).startswith(words)
    for name, changed in (("windows", {"head_dim": 16}), ("whole", {"global_head_dim": 32})):
        other = write_assistant(tmp_path / name, kind, **changed)
        with pytest.raises(DraftLoadFailed, match="do not fit the keys and values of that model"):
            load(target, limits=LIMITS, draft=other)
    fewer = write_assistant(tmp_path / "fewer", kind, vocab_size=512)
    with pytest.raises(DraftLoadFailed, match="it has 512 tokens, and that model has 768"):
        load(target, limits=LIMITS, draft=fewer)


def test_an_assistant_alone_is_no_model_and_says_what_it_is(kind: str, tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "gemma-4-assistant", kind)
    with pytest.raises(ModelLoadFailed) as raised:
        load(folder, limits=LIMITS)
    assert "choose it as the draft model of a Gemma 4 model" in str(raised.value)
    found = look_into(folder, Origin.FOLDER)
    assert (found.can_be_loaded, found.is_assistant, found.problem) == (False, True, "")
    assert "as whose draft model it can be chosen" in found.obstacle


def test_a_model_and_its_assistants_are_paired_by_what_their_configurations_say(
    target: Path, kind: str, tmp_path: Path, demo_model_path: Path
) -> None:
    folder = write_assistant(tmp_path / "gemma-4-assistant", kind)
    model, own = look_into(target, Origin.FOLDER), look_into(folder, Origin.FOLDER)
    assert model.pairing == own.pairing != ""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"backbone_hidden_size": 64}))
    assert look_into(folder, Origin.FOLDER).pairing not in ("", model.pairing)
    assert look_into(demo_model_path, Origin.BUNDLED).pairing == ""
    with pytest.raises(DraftLoadFailed, match=r"not those of its config\.json"):
        load(target, limits=LIMITS, draft=folder)
