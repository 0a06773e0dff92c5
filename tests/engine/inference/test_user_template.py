"""A user's chat template in place of a model's own: loaded with it, or changed in memory."""

import asyncio
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.inference import mlx_loading
from engine.scheduling.model_list import OfferedModel
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest
from tests.support.asking import ask, request, run
from tests.support.several.draft_models import write_draft

# Closes a turn with another special token than the model's own template.
_OTHER_END = "<|endoftext|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }} says\n{{ m.content }}" + _OTHER_END + "\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose weights were read."""
    read: list[Path] = []
    original = mlx_loading._load_lazily

    def load_lazily(folder: Path) -> object:
        read.append(folder)
        return original(folder)

    monkeypatch.setattr(mlx_loading, "_load_lazily", load_lazily)
    return read


async def _prompt(engine: Engine) -> str:
    return (await engine.render_prompt(request("Hi"))).text


def _ends(engine: Engine) -> dict[str, str]:
    assert engine.model is not None
    return {end.text: end.source for end in engine.model.eos}


def test_template_changes_prompt_and_end_tokens_and_keeps_the_weights(
    demo_model_path: Path, reads: list[Path]
) -> None:
    async def change() -> None:
        async with Engine() as engine:
            await engine.load(demo_model_path)
            own_prompt, own_ends = await _prompt(engine), _ends(engine)
            own_answer = await ask(engine, "Count from 1 to 5", max_tokens=30)
            info = await engine.load(demo_model_path, user_template=TEMPLATE)
            assert (info.user_template, info.takes_tools) == (TEMPLATE, False)
            assert await _prompt(engine) == (
                "<|im_start|>user says\nHi<|endoftext|>\n<|im_start|>assistant\n"
            )
            assert _ends(engine) == own_ends | {_OTHER_END: "template"}
            answer = await ask(engine, "Count from 1 to 5", max_tokens=5)
            assert answer.finished.details.has_user_template
            raw = GenerationRequest(prompt="1 2", max_tokens=2)
            finished = (await (await engine.generate(raw)).collect()).finished
            assert not finished.details.has_user_template
            await engine.load(demo_model_path)
            assert (await _prompt(engine), _ends(engine)) == (own_prompt, own_ends)
            again = await ask(engine, "Count from 1 to 5", max_tokens=30)
            assert again.text == own_answer.text
            # The earlier prompt is still in memory.
            assert again.finished.usage.cached_tokens > 0

    run(change())
    assert len(reads) == 1


def test_offered_models_are_loaded_with_their_templates_and_follow_a_change(
    demo_model_path: Path, reads: list[Path]
) -> None:
    def offer(template: str | None) -> list[OfferedModel]:
        return [OfferedModel("one", demo_model_path, user_template=template)]

    async def change() -> None:
        async with Engine() as engine:
            engine.offer(offer(TEMPLATE))
            assert "user says" in await _prompt_of_one(engine)
            engine.offer(offer(None))
            assert "user says" not in await _prompt_of_one(engine)
            engine.unload_when_idle("one")
            engine.offer(offer(TEMPLATE))
            assert "user says" in await _prompt_of_one(engine)
            info = await engine.restart("one")
            assert info.user_template == TEMPLATE

    run(change())


async def _prompt_of_one(engine: Engine) -> str:
    return (await engine.render_prompt(request("Hi", model="one"))).text


def test_changed_template_waits_behind_a_load_that_waits_for_an_answer(
    demo_model_path: Path, tmp_path: Path
) -> None:
    small = write_draft(tmp_path / "small", demo_model_path, layers=1)

    async def change() -> None:
        async with Engine() as engine:
            engine.offer([OfferedModel("one", demo_model_path)])
            endless = request("Count", model="one", rules=StopRules(ignore_eos=True))
            answer = await engine.generate(endless)
            loading = asyncio.create_task(engine.load(demo_model_path, draft=small))
            await asyncio.sleep(0.2)
            engine.offer(
                [OfferedModel("one", demo_model_path, draft=small, user_template=TEMPLATE)]
            )
            prompt = asyncio.create_task(_prompt_of_one(engine))
            await asyncio.sleep(0.2)
            assert not loading.done()
            answer.cancel()
            assert (await loading).draft is not None
            assert "user says" in await prompt

    run(change())
