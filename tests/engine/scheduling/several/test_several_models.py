"""Several models at once: chosen by name, loaded when needed, each with its own queue and cache."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import ModelLoadFailed, NoModel, UnknownModel
from engine.library.memory_need import need
from engine.scheduling.model_list import ModelStatus, OfferedModel
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.limits import Limits
from tests.engine.scheduling.stages import until
from tests.support.asking import ask, offered_engine, request
from tests.support.several.offered_models import write_models

_ASKED = "Count from 1 to 9."
_ENDLESS = StopRules(ignore_eos=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> list[OfferedModel]:
    return write_models(tmp_path_factory.mktemp("models"), demo_model_path)


def room_for(models: list[OfferedModel], count: int) -> Limits:
    """Return limits with memory for a number of these models, which need about the same."""
    most = max(need(model.folder).total for model in models)
    return Limits(memory_bytes=most * count + most // 3)


async def alone(model: OfferedModel, text: str = _ASKED, most: int = 24) -> str:
    """Return the answer of a model that is the only one."""
    engine = Engine()
    await engine.load(model.folder)
    answer = await ask(engine, text, max_tokens=most)
    await engine.aclose()
    return answer.text


def status_of(engine: Engine, model: OfferedModel) -> ModelStatus:
    [status] = [one for one in engine.models if one.id == model.id]
    return status


def state(engine: Engine, model: OfferedModel) -> str:
    return status_of(engine, model).state


async def test_a_request_is_answered_by_the_model_that_it_names(models: list[OfferedModel]) -> None:
    first, second = models[:2]
    async with offered_engine(models) as engine:
        await engine.load(first.folder)
        answers = await asyncio.gather(
            ask(engine, _ASKED, max_tokens=24, model=second.id),
            ask(engine, _ASKED, max_tokens=24),
            ask(engine, _ASKED, max_tokens=24, model=first.id),
        )
        of_first, of_second = await alone(first), await alone(second)
        assert of_first != of_second
        assert [one.text for one in answers] == [of_second, of_first, of_first]
        assert engine.model is not None
        assert engine.model.id == first.id
        assert [one.state for one in engine.models] == ["ready", "ready", "unloaded", "unloaded"]


@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_moved_offer_is_answered_from_new_folder(
    models: list[OfferedModel], tmp_path: Path, is_in_memory: bool
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(models[0].folder, old)
    shutil.copytree(models[1].folder, new)
    async with offered_engine([OfferedModel("m", old)]) as engine:
        before = await ask(engine, _ASKED, max_tokens=24, model="m")
        if not is_in_memory:
            engine.unload_when_idle("m")
            await until(lambda: engine.models[0].state == "unloaded")
        engine.offer([OfferedModel("m", new)])
        shutil.rmtree(old)
        answers = await asyncio.gather(
            *(ask(engine, _ASKED, max_tokens=24, model="m") for _ in range(2))
        )
        assert [answer.text for answer in answers] == [await alone(models[1])] * 2
        assert before.text == await alone(models[0])
        assert engine.models[0].info is not None
        assert engine.models[0].info.path == new.resolve()


async def test_an_unknown_name_is_refused_with_the_nearest_names(
    models: list[OfferedModel],
) -> None:
    async with offered_engine(models) as engine:
        with pytest.raises(UnknownModel) as caught:
            await engine.generate(request(_ASKED, model="model_3"))
        assert f"the nearest names are {models[1].id}" in str(caught.value)
        with pytest.raises(NoModel):  # no model is the default one
            await engine.generate(request(_ASKED))


async def test_least_recently_used_model_is_evicted(models: list[OfferedModel]) -> None:
    a, b, c = models[:3]
    async with offered_engine(models, room_for(models, 2)) as engine:
        await engine.load(a.folder)
        await ask(engine, _ASKED, max_tokens=4, model=b.id)
        await ask(engine, _ASKED, max_tokens=4, model=a.id)
        await ask(engine, _ASKED, max_tokens=4, model=c.id)
        assert [state(engine, one) for one in (a, b, c)] == ["ready", "unloaded", "ready"]


async def test_pinned_model_is_not_evicted_and_load_is_refused(models: list[OfferedModel]) -> None:
    a, b, c = models[:3]
    async with offered_engine(
        [replace(a, is_pinned=True), b, replace(c, is_pinned=True)], room_for(models, 2)
    ) as engine:
        await engine.load(a.folder)
        await ask(engine, _ASKED, max_tokens=4, model=b.id)
        await ask(engine, _ASKED, max_tokens=4, model=c.id)
        assert [state(engine, one) for one in (a, b, c)] == ["ready", "unloaded", "ready"]
        with pytest.raises(NoModel, match=r"needs .* MB of memory .* are pinned: unpin one") as why:
            await ask(engine, _ASKED, max_tokens=4, model=b.id)
        assert a.id in str(why.value)
        assert c.id in str(why.value)
        assert [state(engine, one) for one in (a, c)] == ["ready", "ready"]


async def test_busy_model_finishes_answers_before_eviction(models: list[OfferedModel]) -> None:
    a, b = models[:2]
    async with offered_engine(models, room_for(models, 1)) as engine:
        await engine.load(a.folder)
        running = await engine.generate(request(_ASKED, rules=_ENDLESS))
        asked_b = asyncio.ensure_future(ask(engine, _ASKED, max_tokens=24, model=b.id))
        await until(lambda: "still answering" in status_of(engine, b).message)
        assert a.id in status_of(engine, b).message
        asked_a = asyncio.ensure_future(ask(engine, _ASKED, max_tokens=24, model=a.id))
        await until(lambda: status_of(engine, a).waiting == 1)
        running.cancel()
        assert (await running.collect()).finished.stop.kind is StopKind.CANCELLED
        assert (await asked_b).text == await alone(b)
        assert (await asked_a).text == await alone(a)


@pytest.mark.parametrize("is_one", [True, False])
async def test_model_larger_than_memory_is_refused(
    models: list[OfferedModel], is_one: bool
) -> None:
    async with offered_engine(None if is_one else models, Limits(memory_bytes=1_000_000)) as engine:
        with pytest.raises(ModelLoadFailed) as caught:
            await engine.load(models[0].folder)
        assert models[0].id in str(caught.value)
        assert "models may take 1.0 MB together" in str(caught.value)
        assert engine.model is None
        assert engine.status.state == "failed"


async def test_pinned_model_is_never_unloaded_for_idleness(models: list[OfferedModel]) -> None:
    async with offered_engine(models) as engine:
        await engine.load(models[0].folder)
        engine.pin(models[0].id)
        engine.unload_after(0.01)
        await engine.tokenize("x")
        assert status_of(engine, models[0]).unloads_at is None
        await asyncio.sleep(0.1)
        assert state(engine, models[0]) == "ready"
        engine.pin(models[0].id, is_pinned=False)
        await until(lambda: state(engine, models[0]) == "unloaded")


async def test_unloading_default_model_leaves_no_default(models: list[OfferedModel]) -> None:
    async with offered_engine(models) as engine:
        await engine.load(models[0].folder)
        assert engine.model is not None
        await engine.unload()
        assert (engine.model, engine.status.state) == (None, "unloaded")
        assert engine.resolve_model() is None
        with pytest.raises(NoModel):
            await ask(engine, _ASKED)
        assert (await ask(engine, _ASKED, model=models[0].id)).text


async def test_default_model_is_listed_beside_an_earlier_offer_of_its_folder(
    models: list[OfferedModel],
) -> None:
    first = models[0]
    async with offered_engine(models) as engine:
        await engine.load(first.folder)
        await engine.unload()
        engine.offer(None)
        await engine.load(first.folder)
        [default] = [status for status in engine.models if status.is_default]
        assert (default.id, default.state) == (first.folder.name, "ready")
        await ask(engine, _ASKED, max_tokens=1)
        engine.offer(models)
        await ask(engine, _ASKED, max_tokens=1, model=first.id)
        engine.offer(None)
        assert any(status.is_default for status in engine.models)


async def test_request_waits_for_memory_of_other_models_answers(models: list[OfferedModel]) -> None:
    a, b = models[:2]
    async with offered_engine(models, room_for(models, 2)) as engine:
        for one in (a, b):
            assert (await ask(engine, _ASKED, max_tokens=2, model=one.id)).text
        large = request(_ASKED, max_tokens=32_000, rules=_ENDLESS, model=b.id)
        running = [await engine.generate(large) for _ in range(2)]
        await until(lambda: status_of(engine, b).running == 2)
        asked = await engine.generate(request(_ASKED, max_tokens=32_000, model=a.id))
        await until(lambda: status_of(engine, a).waiting == 1)
        # Nobody joins the others meanwhile, so that it is not starved.
        later = await engine.generate(request(_ASKED, max_tokens=4, model=b.id))
        await until(lambda: status_of(engine, b).waiting == 1)
        for generation in running:
            generation.cancel()
        assert (await asked.collect()).text == await alone(a, most=32_000)
        assert (await later.collect()).text
        assert {state(engine, one) for one in (a, b)} <= {"ready", "unloaded"}
