"""Several models at once: chosen by name, loaded when needed, each with its own queue and cache."""

import asyncio
from pathlib import Path

import pytest

from engine.errors import NoModel, UnknownModel
from engine.library.memory import need
from engine.scheduling.limits import Limits
from engine.scheduling.model_status import ModelStatus
from engine.scheduling.offering import OfferedModel
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from tests.engine.scheduling.stages import until
from tests.support.asking import ask, request, run
from tests.support.several.offered_models import write_models

_ASKED = "Count from 1 to 9."
_ENDLESS = StopRules(ignore_eos=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> list[OfferedModel]:
    return write_models(tmp_path_factory.mktemp("models"), demo_model_path)


def room_for(models: list[OfferedModel], count: int) -> Limits:
    """Return limits with memory for so many of these models, which need nearly the same."""
    most = max(need(model.folder).total for model in models)
    return Limits(memory_bytes=most * count + most // 2)


async def alone(model: OfferedModel, text: str = _ASKED, most: int = 24) -> str:
    """Return what a model answers where it is the only one."""
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


def test_a_request_is_answered_by_the_model_that_it_names(models: list[OfferedModel]) -> None:
    async def play() -> None:
        first, second = models[:2]
        engine = Engine()
        engine.offer(models)
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
        await engine.aclose()

    run(play(), 120)


def test_an_unknown_name_is_refused_with_the_nearest_names(models: list[OfferedModel]) -> None:
    async def play() -> None:
        engine = Engine()
        engine.offer(models)
        with pytest.raises(UnknownModel) as caught:
            await engine.generate(request(_ASKED, model="model_3"))
        assert caught.value.nearest[0] == models[1].id
        assert models[1].id in str(caught.value)
        with pytest.raises(NoModel):  # no model is the default one
            await engine.generate(request(_ASKED))
        await engine.aclose()

    run(play())


def test_without_an_offer_one_model_answers_whatever_is_named(models: list[OfferedModel]) -> None:
    async def play() -> None:
        engine = Engine()
        await engine.load(models[0].folder)
        answer = await ask(engine, _ASKED, max_tokens=24, model="gpt-4o")
        assert answer.text == await alone(models[0])
        assert [one.id for one in engine.models] == [models[0].id]
        await engine.aclose()

    run(play(), 120)


def test_the_model_that_was_asked_for_longest_ago_leaves_when_room_is_needed(
    models: list[OfferedModel],
) -> None:
    async def play() -> None:
        a, b, c = models[:3]
        engine = Engine(room_for(models, 2))
        engine.offer(models)
        await engine.load(a.folder)
        await ask(engine, _ASKED, max_tokens=4, model=b.id)
        await ask(engine, _ASKED, max_tokens=4, model=a.id)
        await ask(engine, _ASKED, max_tokens=4, model=c.id)
        assert [state(engine, one) for one in (a, b, c)] == ["ready", "unloaded", "ready"]
        await engine.aclose()

    run(play())


def test_a_pinned_model_stays_and_what_cannot_fit_beside_it_is_refused_with_figures(
    models: list[OfferedModel],
) -> None:
    async def play() -> None:
        a, b, c = models[:3]
        engine = Engine(room_for(models, 2))
        engine.offer(models)
        await engine.load(a.folder)
        await ask(engine, _ASKED, max_tokens=4, model=b.id)
        engine.pin(a.id)
        await ask(engine, _ASKED, max_tokens=4, model=c.id)
        assert [state(engine, one) for one in (a, b, c)] == ["ready", "unloaded", "ready"]
        engine.pin(c.id)
        with pytest.raises(NoModel, match=r"needs .* MB of memory .* are pinned: unpin one") as why:
            await ask(engine, _ASKED, max_tokens=4, model=b.id)
        assert a.id in str(why.value)
        assert c.id in str(why.value)
        assert [state(engine, one) for one in (a, c)] == ["ready", "ready"]
        engine.pin(c.id, is_pinned=False)
        assert (await ask(engine, _ASKED, max_tokens=24, model=b.id)).text == await alone(b)
        await engine.aclose()

    run(play(), 120)


def test_a_model_that_answers_is_waited_for_and_takes_no_more_until_it_has_left(
    models: list[OfferedModel],
) -> None:
    async def play() -> None:
        a, b = models[:2]
        engine = Engine(room_for(models, 1))
        engine.offer(models)
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
        await engine.aclose()

    run(play(), 120)
