"""Pictures from the bytes of a request to the answer, with each family's own processor."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("mlx_vlm")

from engine import Generation
from engine.engine import Engine
from engine.inference.vision.whole_model import compare
from engine.stopping.rules import StopRules
from engine.values.events import TokenTrace
from engine.values.request import GenerationRequest, Picture, Sampling, TraceLevel
from tests.engine.inference.vision.test_families import FAMILIES, use_small_mobilenet
from tests.support.models.seeing import picture, question, write_seeing_model

_TOKENS = 12


def request(text: str, *pictures: Picture) -> GenerationRequest:
    return GenerationRequest(
        messages=(question(text, *pictures),),
        max_tokens=_TOKENS,
        sampling=Sampling(temperature=0),
        stops=StopRules(ignore_eos=True),
        trace=TraceLevel.STOPS,
    )


async def token_ids(generation: Generation) -> list[int]:
    events = [event async for event in generation.events()]
    return [event.token_id for event in events if isinstance(event, TokenTrace)]


@pytest.mark.filterwarnings("ignore:At least one mel filter:UserWarning")
@pytest.mark.parametrize("family", FAMILIES)
async def test_answer_about_a_picture_is_that_of_mlx_vlm(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_mobilenet(monkeypatch)
    write_seeing_model(tmp_path, family)
    tall, wide = picture("green", (32, 160)), picture("red")
    requests = [request("What is it?", tall), request("Both?", wide, tall), request("Hello there")]
    engine = Engine()
    await engine.load(tmp_path)
    alone = [await token_ids(await engine.generate(one)) for one in requests]
    begun = [await engine.generate(one) for one in (*requests, requests[2])]
    together = await asyncio.gather(*map(token_ids, begun))
    assert together == [*alone, alone[2]]
    prompt = [token for token, _ in await engine.prompt_pieces(requests[0])]
    await engine.aclose()
    if family == "gemma3n":
        return  # of which mlx-vlm 0.7.10 scales no embedding of text
    compared = compare(tmp_path, tall, (prompt, alone[0]), lambda _: None)
    assert (compared.tokens, compared.differences) == (_TOKENS, ())
