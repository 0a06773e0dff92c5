"""Adapters over a base: their answers, their shared weights, their caches, and faulty ones."""

import asyncio
import gc
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm import load
from mlx_lm.generate import generate_step

from app.paths import seeing_model
from engine.engine import Engine
from engine.errors import ModelLoadFailed, NoModel
from engine.inference.cache.disk import DiskCache
from engine.inference.vision.pictures import draw_sample
from engine.inference.weights import BASES
from engine.library import memory_need
from engine.library.memory_need import need
from engine.scheduling.model_list import OfferedModel
from engine.values.events import TokenTrace
from engine.values.limits import Limits
from engine.values.request import PICTURE_MARK, CacheOwner, Message, TraceLevel
from tests.support.asking import ask, events_of, offered_engine, request, run
from tests.support.models.adapters import random_adapter, train_adapter
from tests.support.several.draft_models import write_draft

PROMPT = "Count from 1 to 30, one number per line"
ME = CacheOwner("me", "a conversation")


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("adapters")
    made = {
        kind: random_adapter(demo_model_path, folder / kind, seed, kind=kind)
        for seed, kind in enumerate(("lora", "dora", "full"))
    }
    return made | {"other": random_adapter(demo_model_path, folder / "other", 7)}


def offers(base: Path, adapters: dict[str, Path]) -> list[OfferedModel]:
    adapted = [OfferedModel(name, folder, base=base) for name, folder in adapters.items()]
    return [OfferedModel("base", base), *adapted]


def plain_tokens(base: Path, adapter: Path, prompt: list[int], count: int) -> list[int]:
    model = load(str(base), adapter_path=str(adapter))[0]
    steps = generate_step(mx.array(prompt), model, max_tokens=count)
    return [int(token) for token, _ in steps]


async def tokens_of(engine: Engine, name: str) -> tuple[list[int], list[int]]:
    """Return the tokens of a prompt and of a greedy answer to it."""
    asked: dict[str, Any] = {"model": name, "max_tokens": 24}
    pieces = await engine.prompt_pieces(request(PROMPT, **asked))
    events = await events_of(engine, PROMPT, trace=TraceLevel.FULL, **asked)
    traces = [event for event in events if isinstance(event, TokenTrace)]
    return [token for token, _ in pieces], [trace.token_id for trace in traces]


def test_answers_are_those_of_mlx_lm(demo_model_path: Path, adapters: dict[str, Path]) -> None:
    async def compare() -> None:
        async with offered_engine(offers(demo_model_path, adapters)) as engine:
            answers = []
            for name, folder in adapters.items():
                prompt, tokens = await tokens_of(engine, name)
                plain = await asyncio.to_thread(
                    plain_tokens, demo_model_path, folder, prompt, len(tokens)
                )
                assert tokens == plain, name
                answers.append(tuple(tokens))
            answers.append(tuple((await tokens_of(engine, "base"))[1]))
            assert len(set(answers)) == len(answers)

    run(compare(), 120)


def test_trained_adapter_gives_its_answer(tmp_path: Path, demo_model_path: Path) -> None:
    folder = train_adapter(demo_model_path, tmp_path / "yes", "Yes")

    async def answer() -> None:
        async with Engine() as engine:
            info = await engine.load(folder, base=demo_model_path)
            assert info.id == f"{demo_model_path.name} + yes"
            assert (await ask(engine, "Who are you?", max_tokens=8)).text.startswith("Yes")
            await engine.load(demo_model_path)
            assert not (await ask(engine, "Who are you?", max_tokens=8)).text.startswith("Yes")

    run(answer(), 120)


def quantized(base: Path, folder: Path) -> Path:
    from mlx_lm import convert

    convert(str(base), str(folder), quantize=True, q_group_size=32, q_bits=4)
    return folder


@pytest.mark.parametrize("is_quantized", [False, True])
def test_weights_of_the_base_are_in_memory_once(
    tmp_path: Path, demo_model_path: Path, is_quantized: bool
) -> None:
    base = quantized(demo_model_path, tmp_path / "q4") if is_quantized else demo_model_path
    folders = {str(seed): random_adapter(base, tmp_path / str(seed), seed) for seed in (1, 2)}

    BASES.clear()  # another engine of the run may have the weights in memory

    async def measure() -> None:
        async with offered_engine(offers(base, folders)) as engine:
            before = mx.get_active_memory()
            await ask(engine, "Hi", model="base", max_tokens=2)
            own = mx.get_active_memory() - before
            for name in folders:
                await ask(engine, "Hi", model=name, max_tokens=2)
            gc.collect()
            added = mx.get_active_memory() - before - own
            shared = max(one.info.shared_bytes for one in engine.models if one.info)
            assert shared > 0.6 * own
            assert added < 2 * (own - 0.9 * shared + 1_000_000)
            first, *others = engine.models
            assert first.shared_bytes == 0
            assert [one.shared_bytes for one in others] == [shared, shared]
            assert sum(one.memory_bytes for one in engine.models) < 2 * first.memory_bytes
            # The base's weights stay as long as an adapter has them, and then count for that.
            await engine.unload("base")
            assert [one.shared_bytes for one in engine.models if one.is_loaded] == [0, shared]
            again = await ask(engine, PROMPT, model="base", max_tokens=8)
            assert again.text.startswith("1\n2")

    run(measure(), 120)


def test_caches_never_cross_adapters(
    tmp_path: Path, demo_model_path: Path, adapters: dict[str, Path]
) -> None:
    disk_folder = tmp_path / "disk"
    names = ("base", "lora", "other")
    long = " ".join(["Count from 1 to 9, one number per line."] * 40)

    async def texts(is_first: bool) -> dict[str, str]:
        disk = DiskCache(disk_folder, 1 << 30)
        found: dict[str, str] = {}
        async with offered_engine(offers(demo_model_path, adapters), disk=disk) as engine:
            for name in names:
                answer = await ask(engine, long, model=name, cache_owner=ME, max_tokens=8)
                usage = answer.finished.usage
                # From its own files alone, and only after it has written some.
                assert (usage.cached_tokens > 0) is not is_first, name
                found[name] = answer.text
            asked = [ask(engine, long, model=name, max_tokens=8) for name in names]
            together = await asyncio.gather(*asked)
            assert [answer.text for answer in together] == [found[name] for name in names]
        disk.close()
        return found

    first = run(texts(True), 120)
    assert len(set(first.values())) == len(names)
    assert run(texts(False), 120) == first


@pytest.mark.parametrize("fault", ["shape", "cut", "missing weight", "nan", "unknown"])
def test_faulty_adapter_is_refused_and_the_engine_serves_on(
    tmp_path: Path, demo_model_path: Path, adapters: dict[str, Path], fault: str
) -> None:
    folder = tmp_path / "faulty"
    shutil.copytree(adapters["lora"], folder)
    file, config = folder / "adapters.safetensors", folder / "adapter_config.json"
    weights: Any = mx.load(str(file))
    name = sorted(weights)[0]
    cause = {
        "shape": f"faulty does not fit its base {demo_model_path.name}:.*adapter shape",
        "cut": "faulty/adapters.safetensors is damaged: expected",
        "missing weight": f"faulty is damaged: it has no {name}",
        "nan": "faulty is damaged: its weights .* not numbers",
        "unknown": f"faulty does not fit its base {demo_model_path.name}:.*no.such.layer",
    }[fault]
    if fault == "shape":
        stated = json.loads(config.read_text())
        stated["lora_parameters"]["rank"] = 16
        config.write_text(json.dumps(stated))
    elif fault == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        if fault == "missing weight":
            del weights[name]
        elif fault == "nan":
            weights[name] = weights[name] * mx.array(float("nan"))
        else:
            weights["no.such.layer.lora_a"] = weights[name]
        mx.save_safetensors(str(file), weights)

    async def refuse() -> None:
        models = offers(demo_model_path, {"faulty": folder, "good": adapters["lora"]})
        async with offered_engine(models) as engine:
            with pytest.raises(NoModel, match=f"(?s){cause}"):
                await ask(engine, "Hi", model="faulty", max_tokens=2)
            for name in ("base", "good"):
                assert (await ask(engine, PROMPT, model=name, max_tokens=4)).text

    run(refuse(), 120)


def test_adapter_without_base_is_refused(demo_model_path: Path, adapters: dict[str, Path]) -> None:
    async def refuse() -> None:
        async with Engine() as engine:
            with pytest.raises(ModelLoadFailed, match="lora is an adapter; choose its base"):
                await engine.load(adapters["lora"])
            await engine.load(demo_model_path)

    run(refuse())


def test_another_base_loads_the_adapter_anew(
    tmp_path: Path, demo_model_path: Path, adapters: dict[str, Path]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(demo_model_path, copy)
    weights: Any = mx.load(str(copy / "model.safetensors"))
    moved = {name: mx.array(0.9) * value for name, value in tree_flatten(dict(weights))}
    mx.save_safetensors(str(copy / "model.safetensors"), moved)

    async def change() -> None:
        async with offered_engine(offers(demo_model_path, {"a": adapters["lora"]})) as engine:
            before = await ask(engine, PROMPT, model="a", max_tokens=12)
            engine.offer(offers(copy, {"a": adapters["lora"]}))
            after = await ask(engine, PROMPT, model="a", max_tokens=12)
            assert before.text != after.text
            status = engine.resolve_model("a")
            assert status is not None
            assert status.info is not None
            assert status.info.base == copy

    run(change())


def test_adapter_that_was_trained_on_is_read_anew(
    tmp_path: Path, demo_model_path: Path, adapters: dict[str, Path]
) -> None:
    folder = tmp_path / "changing"
    shutil.copytree(adapters["lora"], folder)

    async def change() -> None:
        async with offered_engine(offers(demo_model_path, {"a": folder})) as engine:
            await ask(engine, "Hi", model="base", max_tokens=2)
            before = await ask(engine, PROMPT, model="a", max_tokens=12)
            shutil.copy(adapters["other"] / "adapters.safetensors", folder)
            await engine.unload("a")
            after = await ask(engine, PROMPT, model="a", max_tokens=12)
            assert after.text != before.text
            assert after.finished.usage.cached_tokens == 0

    run(change())


def test_draft_model_drafts_for_an_adapter(
    tmp_path: Path, demo_model_path: Path, adapters: dict[str, Path]
) -> None:
    small = write_draft(tmp_path / "small", demo_model_path, 1)

    async def compare() -> None:
        async with Engine() as engine:
            await engine.load(adapters["lora"], base=demo_model_path)
            alone = await ask(engine, PROMPT, max_tokens=24)
            info = await engine.load(adapters["lora"], base=demo_model_path, draft=small)
            assert info.draft is not None
            assert (await ask(engine, PROMPT, max_tokens=24)).text == alone.text

    run(compare())


def test_adapter_of_a_model_that_sees(tmp_path: Path) -> None:
    pytest.importorskip("mlx_vlm")
    base = seeing_model()
    folder = random_adapter(base, tmp_path / "sees", 1)
    picture = Message("user", f"{PICTURE_MARK}What shape is it?", pictures=(draw_sample(),))

    async def look() -> list[str]:
        async with offered_engine(offers(base, {"sees": folder})) as engine:
            texts = []
            for name in ("base", "sees"):
                asked = replace(request("", model=name, max_tokens=8), messages=(picture,))
                texts.append((await (await engine.generate(asked)).collect()).text)
            assert all(one.info is not None and one.info.can_see for one in engine.models)
            return texts

    plain, adapted = run(look())
    assert plain != adapted


def test_adapter_needs_no_memory_for_its_base(
    tmp_path: Path,
    demo_model_path: Path,
    adapters: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second copy of the base evicts; an adapter of it does not."""
    monkeypatch.setattr(memory_need, "_headroom", lambda *_: 0)
    monkeypatch.setattr(memory_need, "USUAL_CONTEXT", 64)
    copy = tmp_path / "copy"
    shutil.copytree(demo_model_path, copy)
    weights = need(demo_model_path).weights
    limits = Limits(memory_bytes=weights * 7 // 4)
    models = [*offers(demo_model_path, {"lora": adapters["lora"]}), OfferedModel("copy", copy)]

    async def load_all() -> None:
        async with offered_engine(models, limits) as engine:
            for name, loaded in (
                ("base", {"base"}),
                ("lora", {"base", "lora"}),
                ("copy", {"copy"}),
            ):
                await ask(engine, "Hi", model=name, max_tokens=2)
                assert {one.id for one in engine.models if one.is_loaded} == loaded

    run(load_all())
