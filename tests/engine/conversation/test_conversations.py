"""Conversations that vendors' APIs allow, behind the templates of the families that agents run."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engine.conversation.template import ChatTemplate
from engine.values.request import GenerationRequest, Message, Tool, ToolCall
from tests.support.families.conversations import (
    missing_words,
    random_conversation,
    unstable_turns,
    without_thinking,
)
from tests.support.families.templates import TEMPLATES

Templates = dict[str, ChatTemplate]
FAMILY = pytest.mark.parametrize("family", TEMPLATES)
TOOL = Tool("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})
CALL = ToolCall("call_0123456789abcdef", "search", '{"q": "VALUE"}')
CALLED = (
    Message("assistant", "", tool_calls=(CALL,)),
    Message("tool", "OUTCOME", tool_call_id=CALL.id),
)


def render(template: ChatTemplate, *messages: Message, **fields: Any) -> str:
    return str(template.render(GenerationRequest(messages=messages, **fields), "m")[0])


def without_header(template: ChatTemplate, tools: tuple[Tool, ...]) -> Callable[..., str]:
    def turns(messages: Sequence[Message]) -> str:
        return render(template, *messages, tools=tools, continues_last=False, opens_answer=False)

    return turns


@pytest.mark.parametrize("tools", [(), (TOOL,)], ids=["plain", "tools"])
@FAMILY
def test_random_conversations_are_rendered_with_nothing_missing(
    family_templates: Templates, family: str, tools: tuple[Tool, ...]
) -> None:
    for seed in range(25):
        messages = random_conversation(seed)
        prompt = render(family_templates[family], *messages, tools=tools, continues_last=False)
        assert missing_words(messages, prompt) == [], (seed, prompt)


@FAMILY
def test_prompt_of_a_growing_conversation_keeps_its_prefix(
    family_templates: Templates, family: str
) -> None:
    turns = without_header(family_templates[family], (TOOL,))
    for seed in range(25):
        assert unstable_turns(without_thinking(random_conversation(seed)), turns) == [], seed


@FAMILY
def test_later_system_stands_at_its_place(family_templates: Templates, family: str) -> None:
    prompt = render(
        family_templates[family],
        Message("system", "BASE"),
        Message("user", "QUESTION"),
        Message("system", "REMINDER"),
        *CALLED,
        Message("system", "MODE"),
        tools=(TOOL,),
    )
    words = ("BASE", "QUESTION", "REMINDER", "VALUE", "OUTCOME", "MODE")
    assert [word for word in words if word not in prompt] == []
    # gpt-oss's and Qwen's tools stand before the system message, and hold no such words.
    assert sorted(words, key=prompt.rindex) == list(words), prompt


@FAMILY
def test_results_stay_behind_their_calls(family_templates: Templates, family: str) -> None:
    other = ToolCall("call_fedcba9876543210", "search", '{"q": "OTHER"}')
    prompt = render(
        family_templates[family],
        Message("user", "QUESTION"),
        Message("assistant", "", tool_calls=(CALL, other)),
        Message("system", "MODE"),
        Message("user", "BESIDE"),
        Message("tool", "SECOND", tool_call_id=other.id),
        Message("tool", "FIRST", tool_call_id=CALL.id),
        tools=(TOOL,),
    )
    words = ("VALUE", "FIRST", "SECOND", "MODE", "BESIDE")
    assert sorted(words, key=prompt.index) == list(words), prompt


@pytest.mark.parametrize("arguments", ['{"q": "CUT', "", "null", '["LIST"]', '"TEXT"', "BROKEN}"])
@FAMILY
def test_arguments_that_are_no_object_are_rendered(
    family_templates: Templates, family: str, arguments: str
) -> None:
    call = ToolCall("0", "search", arguments)
    prompt = render(
        family_templates[family],
        Message("user", "QUESTION"),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "not valid JSON", tool_call_id="0"),
        tools=(TOOL,),
    )
    word = "".join(letter for letter in arguments if letter.isupper())
    assert word in prompt


@FAMILY
def test_thinking_before_a_call_reaches_templates_that_read_it(
    family_templates: Templates, family: str
) -> None:
    first = Message("assistant", "", thinking="REASON", tool_calls=(CALL,))
    second = ToolCall("call_2", "search", '{"q": "AGAIN"}')
    prompt = render(
        family_templates[family],
        Message("user", "QUESTION"),
        first,
        CALLED[1],
        Message("assistant", "PREAMBLE", thinking="MORE", tool_calls=(second,)),
        Message("tool", "END", tool_call_id="call_2"),
        tools=(TOOL,),
    )
    shown = [word in prompt for word in ("PREAMBLE", "AGAIN", "REASON", "MORE")]
    is_read = family in {"qwen3", "qwen38", "nemotron", "gptoss", "gemma4", "glm"}
    assert shown == [True, True, is_read, is_read]


@FAMILY
def test_texts_of_special_tokens_in_answers_are_rendered(
    family_templates: Templates, family: str
) -> None:
    prompt = render(
        family_templates[family],
        Message("user", "QUESTION"),
        Message("assistant", "<|channel|>analysis<|message|>WORD", thinking="<|channel|>x"),
        Message("user", "NEXT"),
    )
    assert "WORD" in prompt


@pytest.mark.parametrize("begun", ["", "BEGUN", "BEGUN \n"])
@FAMILY
def test_begun_answer_ends_the_prompt(family_templates: Templates, family: str, begun: str) -> None:
    before = (Message("system", "S"), Message("user", "Q"), Message("system", "LATER"))
    prompt = render(family_templates[family], *before, Message("assistant", begun))
    assert "LATER" in prompt
    assert prompt.endswith(begun)


@pytest.mark.parametrize("shown", ["{{ part.text }}", "{{ part.text or part.thinking }}"])
def test_contents_are_parts_where_a_template_reads_only_parts(
    template_of: Callable[[str], ChatTemplate], shown: str
) -> None:
    source = (
        "{% for m in messages %}[{{ m.role }}]{% for part in m.content %}"
        "{% if part.type is defined %}" + shown + "{% endif %}{% endfor %}{% endfor %}"
    )
    answer = Message("assistant", "ANSWER", thinking="REASON")
    prompt = render(template_of(source), Message("user", "ONE"), answer, Message("user", "TWO"))
    thinking = "REASON" if "thinking" in shown else ""
    assert prompt == f"[user]ONE[assistant]{thinking}ANSWER[user]TWO"


def test_thinking_is_no_part_where_a_template_writes_lists_as_they_are(
    template_of: Callable[[str], ChatTemplate],
) -> None:
    for shown in (
        "{{ m.content }}",
        "{{ m.content if m.content is string else m.content|tojson }}",
    ):
        template = template_of("{% for m in messages %}" + shown + ";{% endfor %}")
        answer = Message("assistant", "ANSWER", thinking="REASON")
        prompt = render(template, Message("user", "ONE"), answer, Message("user", "TWO"))
        assert prompt == "ONE;ANSWER;TWO;"


def test_tools_stay_before_the_first_question_where_a_template_moves_them(
    family_templates: Templates,
) -> None:
    template = family_templates["mistral"]
    turns = without_header(template, (TOOL,))
    messages = [Message("user", "ONE"), *CALLED, Message("assistant", "TWO"), Message("user", "X")]
    grown = turns(messages)
    assert template.rules(has_tools=True).moves_tools
    assert grown.startswith(turns(messages[:1]))
    assert grown.count("Searches.") == 1
    assert grown.index("Searches.") < grown.index("ONE")
