"""Tags that a user quotes."""

from pathlib import Path

from tests.support.asking import scripted_answer
from tests.support.scripted import Stage


def opened(end: str) -> str:
    return (
        "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
        + end
        + "<|go|>"
    )


def test_a_tag_that_a_person_quotes_opens_nothing(tmp_path: Path) -> None:
    question = "what is <think>?"
    for number, template in enumerate(
        (opened(""), "{% for m in messages %}user:{{ m.content }}{% endfor %}:<|go|>")
    ):
        stage = Stage(
            tmp_path / str(number),
            {},
            plain=["<think>", "</think>"],
            pieces=["yes"],
            template=template,
        )
        stage.scripts = dict.fromkeys([question, question + ":"], stage.ids("yes"))
        answer = scripted_answer(stage, question)
        assert (answer.thinking, answer.text) == ("", "yes")
