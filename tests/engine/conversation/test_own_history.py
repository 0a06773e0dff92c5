"""Every answer that a model of each family gives is rendered again as history, broken ones too."""

import random
from pathlib import Path

import pytest

from engine.values.request import GenerationRequest, Message, Sampling, Tool
from tests.support.asking import loaded_engine, run
from tests.support.families.conversations import missing_words
from tests.support.families.stage import FamilyStage
from tests.support.families.templates import TEMPLATES
from tests.support.families.writers import FAMILIES

TOOL = Tool("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})
_ANSWERS = 12
_MAX_TURNS = 4


@pytest.mark.parametrize("family", [name for name in FAMILIES if name in TEMPLATES])
def test_own_history_is_rendered_again(tmp_path: Path, family: str) -> None:
    draw = random.Random(family)

    def answer(prompt: str) -> str:
        calls = [("search", {"q": f"value{draw.randrange(100)}", "n": 3})] * draw.choice((0, 1, 2))
        thinking = draw.choice(("", "let me think"))
        written = FAMILIES[family].write(prompt, thinking, draw.choice(("", "Well.")), calls)
        if draw.random() < 0.4:  # some piece is lost, wherever it is
            start = draw.randrange(len(written) + 1)
            written = written[:start] + written[start + draw.randrange(12) :]
        return written

    async def talk() -> None:
        stage = FamilyStage(tmp_path, FAMILIES[family], template=TEMPLATES[family], answer=answer)
        async with loaded_engine(tmp_path, loader=stage.load) as engine:
            messages: list[Message] = []
            for turn in range(_ANSWERS):
                if turn % _MAX_TURNS == 0:
                    messages = [Message("system", "S"), Message("user", "go")]
                request = GenerationRequest(
                    messages=tuple(messages),
                    tools=(TOOL,),
                    max_tokens=draw.choice((3, 20, 60, 400)),
                    sampling=Sampling(temperature=0),
                    continues_last=False,
                )
                found = await (await engine.generate(request)).collect()
                assert missing_words(messages, stage.prompts[-1]) == []
                messages.append(
                    Message("assistant", found.text, found.thinking, tuple(found.tool_calls))
                )
                messages += [
                    Message("tool", "fine", tool_call_id=call.id) for call in found.tool_calls
                ]
                if not found.tool_calls and draw.random() < 0.7:
                    messages.append(Message("user", "more"))

    run(talk())
