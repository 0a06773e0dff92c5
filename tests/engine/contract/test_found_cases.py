"""Cases that once differed from the contract, as small as they could be made."""

import pytest

from engine.stopping.rules import StopScope
from tests.engine.contract.comparing import differences
from tests.engine.contract.found import found
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.vocabularies import EOS, LATE_EOS, ODD

ALL = StopScope.ALL
THINKING = StopScope.TEXT_AND_THINKING
START = "<|start|>user<|message|>hm<|end|><|start|>assistant"
TO_ADD = [" to=functions.", "add", "<|message|>"]

FOUND = [
    # The last allowed token.
    found("byte-level", "plain", [], max_tokens=1),
    found("byte-level", "plain", [], room=1),
    found("metaspace", "bracketed calls", ["[TOOL_CALLS]", "mul", "}"], room=4),
    # Ids and special tokens beside what is held.
    found("byte-level", "plain", ["EN", b"\xf0"], strings=["END"]),
    found("byte-level", "plain", ["a", b"\xf0\x9f", ODD], strings=["\ufffd", ODD]),
    found("byte-level", "plain", [], ids=[EOS], include_stop=True),
    found("byte-level", "long json calls", ["<tool"], ids=["<tool"], strings=["<"]),
    found("byte-level", "long json calls", ["a", "<tool", "_call"], strings=["<t"], ids=["_call"]),
    found("byte-level", "long json calls", ["<tool", "_call"], strings=["a"], ids=["_call"]),
    found("byte-level", "long json calls", ["a", "<tool", "_call", ">"], ids=[">"]),
    found("byte-level", "long json calls", ["a", "<tool", "_call"], cancel_after=3),
    found("word-piece", "long json calls", ["<tool", "_call", ">", "l", "</"], strings=["lz"]),
    found("byte-level", "long json calls", ["<tool", "_call", ">", "l", "<"], strings=["l<", "lz"]),
    found("byte-level", "long json calls", ["<tool", "_call", ">", "l", "</"], strings=["l</x"]),
    found(
        "byte-level",
        "harmony",
        ["{broken"],
        strings=["nax", "el"],
        scope=ALL,
        prompt=f"{START} to=functions.add<|channel|>commentary json<|message|>",
    ),
    found("sentence-piece", "long thinking", ["<|chan", b"\xe6"], strings=["<"], ids=[b"\xe6"]),
    found("metaspace", "long thinking", ["<|channel>"], strings=["nnel"], ids=["<|channel>"]),
    # Thinking.
    found("byte-level", "thinking", ["</think>"], strings=["</think>"], scope=ALL),
    found("byte-level", "thinking", ["<think>", b"\xf0\x9f", "</think>", b"\x9a\x80"]),
    found("byte-level", "special thinking", ["<think>", "</think>"], strings=["</think>"]),
    found("byte-level", "thinking", ["aab"], ids=["aab"], prompt="<think>\n"),
    found(
        "byte-level",
        "long json calls",
        ["<", "t", "<think>"],
        strings=["<t"],
        ids=["<think>"],
        scope=ALL,
    ),
    found("byte-level", "long special thinking", ["<|channel>", "thought", "\n", "hm"]),
    found("word-piece", "long special thinking", [":", "<|channel>", "thought"]),
    found("metaspace", "long special thinking", ["<|channel>", "t"], strings=["ta"]),
    found("byte-level", "long special thinking", ["hm"], prompt="<|channel>thought\nhm"),
    found(
        "sentence-piece",
        "long thinking",
        ["<|channel>", "thought"],
        strings=["<|channel>thought"],
        scope=ALL,
    ),
    # Calls.
    found("byte-level", "json calls", ["<tool_call>", '{"a": 1}', "b"], ids=["b"]),
    found("byte-level", "json calls", ["<tool_call>", "END"], strings=["END"], scope=ALL),
    found(
        "byte-level", "json calls", ["<tool_call>", "{", "</tool_call>"],
        strings=["</tool_call>"], scope=ALL,
    ),
    found(
        "byte-level", "json calls",
        ["<tool_call>", '{"name": "', "add", '"}', "</tool_call>", "<tool_call>", '{"name": "'],
        strings=["na"],
    ),
    found(
        "byte-level", "json calls",
        ["<tool_call>", "add", "</tool_call>", "<tool_call>", "}"],
        ids=["}"], scope=ALL,
    ),
    found("byte-level", "long json calls", ["<tool", "_call", ">", "</t"]),
    found("metaspace", "special json calls", ["<tool_call>", "add"], ids=[EOS]),
    found("metaspace", "special json calls", ["<tool_call>"], ignore_eos=True, max_tokens=5),
    found("byte-level", "special json calls", ["<tool_call>", "</tool_call>", " "]),
    found("byte-level", "special json calls", ["<tool_call>", ODD, "</tool_call>"], strings=[ODD]),
    found(
        "byte-level", "bracketed calls", ["[TOOL_CALLS]", "add", "[ARGS]", '{"a": 1}'],
        ids=[EOS],
    ),
    found(
        "word-piece", "bracketed calls",
        ["[TOOL_CALLS]", "add", "[ARGS]", '{"a": "', '"}', "[TOOL_CALLS]", "{broken"],
        strings=["roke"], scope=ALL,
    ),
    found(
        "byte-level", "bracketed calls", ["[TOOL_CALLS]", "[ARGS]"],
        strings=["S]"], ids=["[ARGS]"], scope=ALL,
    ),
    found("metaspace", "bracketed calls", ["[TOOL_CALLS]", "END"], ids=[EOS], include_stop=True),
    found(
        "sentence-piece", "bracketed calls", ["[TOOL_CALLS]", "{broken", "[TOOL_CALLS]"],
        strings=["[TOOL_CALLS]"], scope=ALL, min_tokens=2,
    ),
    found("byte-level", "bracketed calls", ["[TOOL_CALLS]", b"\xc3"], strings=["\ufffdEND"]),
    # Harmony.
    found("byte-level", "harmony", ["yes", "<|end|>", "ok"]),
    found("byte-level", "harmony", ["yes", "<|channel|>", "analysis", "<|message|>", "ok"]),
    found("byte-level", "harmony", ["<|start|>", "analysis", "<|message|>", "ok"]),
    found("byte-level", "harmony", ["<|call|>"], strings=["<|call|>"]),
    found("byte-level", "harmony", [], ids=[EOS], include_stop=True, prompt=START),
    found("metaspace", "harmony", [*TO_ADD, '{"a": 1}'], prompt=START),
    found(
        "byte-level", "harmony without ends", [*TO_ADD, "END", "<|end|>"],
        prompt=START, strings=["D1"],
    ),
    found(
        "byte-level", "harmony without ends", TO_ADD,
        prompt=START, ignore_eos=True, max_tokens=9,
    ),
    found(
        "byte-level", "harmony", ["<|channel|>", "analysis", LATE_EOS, "<|message|>"],
        ignore_eos=True, max_tokens=9,
    ),
    found(
        "byte-level", "harmony", ["<|channel|>", "analysis", "<|message|>"],
        prompt=START + "<|channel|>analysis<|message|>the",
    ),
    found("byte-level", "harmony", TO_ADD, ids=["<|message|>"], scope=ALL, prompt=START),
    found("byte-level", "harmony", [*TO_ADD, "{", "}"], strings=["{}"], scope=ALL, prompt=START),
    found("byte-level", "harmony", TO_ADD, prompt=START),
    found(
        "byte-level", "harmony without ends", [*TO_ADD, "<|call|>"],
        ids=["<|call|>"], scope=ALL, prompt=START,
    ),
    found("byte-level", "harmony", ["<|channel|>", ODD], strings=[ODD], scope=ALL),
    found("byte-level", "harmony", ["<|channel|>", ODD], ids=[ODD], scope=ALL),
    found("byte-level", "harmony", ["<|channel|>", ODD], ids=[ODD]),
    found(
        "byte-level", "harmony", [*TO_ADD, "{broken", "<|call|>"],
        ids=["<|call|>"], ignore_eos=True, prompt=START, max_tokens=42,
    ),
    found(
        "byte-level", "json calls", ["1", "}}", "</tool_call>", "\n"],
        prompt='<tool_call>{"name": "add", "arguments": {"a":', is_prefill=True,
    ),
    found(
        "byte-level", "harmony", [*TO_ADD, "{", "}", "<|constrain|>"],
        ids=["<|constrain|>"], scope=ALL, prompt=START,
    ),
    found(
        "sentence-piece", "json calls", ["<think>", "<tool_call>", "a", "</tool_call>"],
        ids=["</tool_call>"], scope=ALL,
    ),
    found("word-piece", "json calls", ["<think>", "<tool_call>", "\n"], ids=["<|im_end|>"]),
    found(
        "byte-level", "bracketed calls", ["<think>", "[TOOL_CALLS]", "<think>", "</think>"],
        strings=["<t"], scope=THINKING,
    ),
    found(
        "word-piece", "json calls", ["<think>", "<tool_call>", "\n\n", "</think>"],
        strings=["\n\n"], scope=THINKING,
    ),
    found(
        "sentence-piece", "long json calls",
        ["<think>", "<tool", "_call", ">", "a", "b", "</", "tool_call", ">"],
        strings=["ab"], scope=THINKING,
    ),
    found(
        "sentence-piece", "long json calls",
        ["<think>", "<tool", "_call", ">", "a", "</", "tool_call", ">"],
        strings=["</tool_call>"], scope=ALL, include_stop=True,
    ),
    found(
        "byte-level", "bracketed calls", ["[TOOL_CALLS]", "add", '{"b": [1, 2]}', "EN", b"\xc3"],
        strings=["\ufffd"], scope=ALL,
    ),
    # Raw prompts.
    found("byte-level", "thinking", ["<think>", "a", "</think>", "\n"], prompt="a", is_raw=True),
    found("byte-level", "special json calls", ["<tool_call>", "a"], prompt="a", is_raw=True),
    found("byte-level", "harmony", ["<|call|>"], strings=[">"], prompt="a", is_raw=True),
    found("byte-level", "long special thinking", ["<|channel>"], prompt="a", is_raw=True),
    found("sentence-piece", "plain", [" the"], prompt="a", is_raw=True),
    found("metaspace", "plain", [" the"], prompt="an END", is_prefill=True),
    found("word-piece", "plain", ["the"], prompt="a", is_raw=True),
    # Pieces that depend on their neighbours.
    found("word-piece", "thinking", ["<think>", " no", "ok", "</think>", " no", "\n", "ok"]),
    found("word-piece", "plain", ["User"], strings=["Us"]),
    found("metaspace", "plain", [" an"], ids=[" an"]),
]  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_it_is_what_the_contract_says_now(case: Case) -> None:
    assert not differences(case)
