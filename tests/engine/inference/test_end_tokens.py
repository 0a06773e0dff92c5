"""A model whose files name the wrong end token ends where its chat template closes a turn."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.inference.backend import BatchLimits
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from tests.support.asking import ask, loaded_engine, scripted_answer
from tests.support.scripted import END, GO, START, Stage

_LIMITS = BatchLimits(64, 1 << 20, 8)
TURN_END, WRONG = "<|im_end|>", "<|endoftext|>"
_OPEN = "{% for m in messages %}" + START + "{{ m.role }}:{{ m.content }}"
_GO = "{% if add_generation_prompt %}" + GO + "{% endif %}"
CLOSED = _OPEN + TURN_END + "\n{% endfor %}" + _GO


def stage(
    folder: Path, template: str = CLOSED, text: tuple[str, ...] = ("a", "b"), **options: Any
) -> Stage:
    script = [*text, TURN_END, "user: more", WRONG]
    options = {"special": [TURN_END], "eos": WRONG, **options}
    made = Stage(folder, {"go": script}, template=template, **options)
    made._script_of = lambda _: made.scripts["go"]  # type: ignore[method-assign]
    made.model._answer = made._script_of
    return made


def test_answer_ends_at_the_templates_closing_token(tmp_path: Path) -> None:
    answer = scripted_answer(stage(tmp_path), "go", max_tokens=20)
    stop = answer.finished.stop
    assert (answer.text, stop.kind) == ("ab", StopKind.EOS)
    assert (stop.token_text, stop.source) == (TURN_END, "template")


def test_end_token_of_the_files_keeps_its_own_source(tmp_path: Path) -> None:
    stop = scripted_answer(stage(tmp_path, eos=TURN_END, special=[WRONG]), "go").finished.stop
    assert (stop.token_text, stop.source) == (TURN_END, "tokenizer")


@pytest.mark.parametrize(
    "rules", [StopRules(ignore_template_eos=True), StopRules(ignore_eos=True)], ids=["own", "all"]
)
def test_template_end_token_can_be_ignored(tmp_path: Path, rules: StopRules) -> None:
    answer = scripted_answer(stage(tmp_path), "go", rules=rules, max_tokens=5)
    assert answer.text == "abuser: more"
    expected = StopKind.MAX_TOKENS if rules.ignore_eos else StopKind.EOS
    assert answer.finished.stop.kind is expected
    assert answer.finished.stop.source == (None if rules.ignore_eos else "tokenizer")


@pytest.mark.parametrize(
    ("template", "options"),
    [
        (_OPEN + "{% endfor %}" + _GO, {}),
        (_OPEN + "\n{% endfor %}" + _GO, {}),
        (_OPEN + f"{TURN_END}{END}" + "{% endfor %}" + _GO, {}),
        (_OPEN + "/end{% endfor %}" + _GO, {}),
        (_OPEN + "<plain>{% endfor %}" + _GO, {"plain": ["<plain>"]}),
        ("{{ raise_exception('no') }}", {}),
        (
            _OPEN + END + "{% endfor %}" + _GO,
            {"special": ["<|channel|>", "<|message|>", "<|call|>", "<|return|>"]},
        ),
    ],
    ids=["nothing", "space", "two", "text", "plain", "raises", "harmony"],
)
def test_nothing_but_one_special_token_is_an_end(
    tmp_path: Path, template: str, options: dict[str, Any]
) -> None:
    made = Stage(tmp_path, {}, **{"special": [TURN_END], "eos": WRONG, **options})
    made.wrapper._tokenizer.chat_template = template
    backend = made.load(tmp_path, limits=_LIMITS)
    assert {end.source for end in backend.info.eos} == {"tokenizer"}


async def test_copy_of_a_model_with_a_wrong_end_token_ends_by_itself(
    tmp_path: Path, demo_model_path: Path
) -> None:
    async with loaded_engine(demo_model_path) as engine:
        sound = await ask(engine, "Hi", max_tokens=64)
    assert sound.finished.stop.kind is StopKind.EOS
    folder = tmp_path / "model"
    shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("*.py"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    wrong = next(
        token for token in tokenizer["added_tokens"]
        if token["special"] and token["content"] != sound.finished.stop.token_text
    )  # fmt: skip
    for name, key, value in (
        ("tokenizer_config.json", "eos_token", wrong["content"]),
        ("config.json", "eos_token_id", wrong["id"]),
        ("generation_config.json", "eos_token_id", wrong["id"]),
        ("special_tokens_map.json", "eos_token", wrong["content"]),
    ):
        if (folder / name).exists():
            (folder / name).write_text(
                json.dumps(json.loads((folder / name).read_text()) | {key: value})
            )
    async with loaded_engine(folder) as engine:
        healed = await ask(engine, "Hi", max_tokens=64)
    assert healed.text == sound.text
    assert healed.finished.stop.source == "template"
