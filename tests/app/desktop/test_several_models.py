"""Other programs choose among the models of the window's engine, unless the person forbids it."""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from api.dialects.openai.chat import detokenize, tokenize
from api.dialects.openai.chat_wire import DetokenizeParams, TokenizeParams
from api.dialects.shared.dialect import ParsedRequest
from api.service.generations import run_generations
from api.service.models import address_requests, check_model
from api.service.record import RequestRecord
from api.service.service import Service
from app.desktop.server import LocalServer
from app.served_models import offered_models
from app.settings.keychain import KeyStore
from engine.engine import Engine
from engine.errors import UnknownModel
from engine.library.local_models import ModelFolders, discover
from engine.values.request import GenerationRequest, Message
from tests.support.asking import run
from tests.support.kept import preferences_state
from ui.preferences import Preferences, ServerPreferences
from ui.preferences_state import PreferencesState

MODELS = ("alpha", "beta")


def asking(model: str) -> GenerationRequest:
    return GenerationRequest(messages=(Message("user", "Count from 1 to 3"),), model=model)


def served(engine: Engine, preferences: PreferencesState | None = None) -> Service:
    server = LocalServer(engine, preferences or preferences_state(), KeyStore(Path()))
    return Service(engine, run(server._config()))


async def answered_by(service: Service, name: str) -> str:
    async with run_generations(
        service, RequestRecord(), address_requests(service, [asking(name)], name)
    ) as [answer]:
        async for _ in answer.batches():
            pass
    assert answer.setting is not None
    return answer.setting.model


async def tokens_of(service: Service, name: str) -> int:
    [wanted] = address_requests(service, [asking(name)], name)
    return await service.engine.count_tokens(wanted)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("models")
    for name in MODELS:
        shutil.copytree(demo_model_path, folder / name)
    with contextlib.closing(Engine()) as engine:
        engine.offer(offered_models(discover(ModelFolders(added=(folder,)))))
        run(engine.load(folder / MODELS[-1]))
        yield engine


def test_several_models_chosen_by_name(several: Engine) -> None:
    service = served(several)
    assert service.is_choosing
    assert sorted(model.id for model in service.models) == ["alpha", "beta"]
    assert [run(answered_by(service, name)) for name in ("beta", "alpha")] == ["beta", "alpha"]
    assert run(tokens_of(service, "alpha")) > 0
    # The window's own choice has not changed.
    assert several.model is not None
    assert several.model.id == "beta"
    with pytest.raises(UnknownModel):
        run(answered_by(service, "claude-of-no-such-name"))
    with pytest.raises(UnknownModel):
        check_model(service, "claude-of-no-such-name")


def test_several_models_tokenizer_of_named_model(
    several: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, names = served(several), []
    pieces, text = several.tokenize, several.detokenize

    async def pieces_of(text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        names.append(name)
        return await pieces(text, name)

    async def text_of(ids: Sequence[int], name: str | None = None) -> str:
        names.append(name)
        return await text(ids, name)

    monkeypatch.setattr(several, "tokenize", pieces_of)
    monkeypatch.setattr(several, "detokenize", text_of)
    read = [GenerationRequest(prompt="Hello")]
    params = TokenizeParams(model="alpha", prompt="Hello", add_special_tokens=False)
    record, ids = RequestRecord(), DetokenizeParams(model="alpha", tokens=[65])
    assert run(tokenize.reply(ParsedRequest(service, record, params, read)))
    assert run(detokenize.reply(ParsedRequest(service, record, ids)))
    assert names == ["alpha", "alpha"]


def test_several_models_last_loaded_answers_all(several: Engine) -> None:
    preferences = preferences_state(Preferences(server=ServerPreferences(is_model_chosen=False)))
    service = served(several, preferences)
    assert not service.is_choosing
    assert run(answered_by(service, "claude-of-no-such-name")) == "beta"
    assert run(answered_by(service, "alpha")) == "beta"
    assert run(tokens_of(service, "alpha")) > 0
    assert [model.id for model in service.models] == ["beta"]
    preferences._now = Preferences()  # takes effect at once
    assert run(answered_by(service, "alpha")) == "alpha"
