"""What the page says in so many words: the reference and the product both give it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from engine.stopping.record import Channel, StopKind
from engine.stopping.repetition import Repetition, RepetitionDetection
from engine.stopping.rules import Stop, StopRules, StopScope
from tests.engine.contract.comparing import differences
from tests.engine.contract.found import found
from tests.engine.contract.reference import expected
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.vocabularies import EOS, ODD, model

PAGE = json.loads((Path(__file__).parents[1] / "stop_cases.json").read_text(encoding="utf-8"))
TEXT, THINKING, TOOLS = Channel.TEXT, Channel.THINKING, Channel.TOOL
BOTH, ALL = StopScope.TEXT_AND_THINKING, StopScope.ALL
END_OF_MODEL, BY_STRING, BY_ID = StopKind.EOS, StopKind.STOP_STRING, StopKind.STOP_TOKEN
IS_CALL, IS_LIMIT, CYCLES = StopKind.TOOL_CALL, StopKind.MAX_TOKENS, StopKind.REPETITION
TWICE = RepetitionDetection(4, min_count=2)

THOUGHT = ["<think>", "hm", "</think>", "yes"]
CALL = '{"name": "add", "arguments": {"a": 1}}'
CALLED = (("add", {"a": 1}),)
TOOL = ["<tool_call>", CALL, "</tool_call>"]
NO_TOOL = ["<tool_call>", "{broken", "</tool_call>", "ok"]
BEGUN = [*TOOL[:1], '{"name": "', "add", '", "arguments": ', *'{"a": 1']
RAW = "".join(BEGUN[1:])
BRACKETS = ["[TOOL_CALLS]", "add", "[ARGS]", '{"a": 1}']
HARMONY_START = "<|start|>user<|message|>hm<|end|><|start|>assistant"
ANALYSIS = ["<|channel|>", "analysis", "<|message|>", "hm", "<|end|>"]
FINAL = ["<|start|>", "assistant", "<|channel|>", "final", "<|message|>"]
TO_ADD = ["<|start|>", "assistant", "<|channel|>", "commentary", " to=functions.", "add"]
HARMONY_CALL = [*TO_ADD, "<|message|>", '{"a": 1}']
HALF, REST = b"\xf0\x9f", b"\x9a\x80"


@pytest.mark.parametrize("case", PAGE, ids=[case["id"] for case in PAGE])
def test_it_gives_what_the_pages_own_cases_say(case: dict[str, Any]) -> None:
    made = model("byte-level", "plain")
    script = [made.ids[bytes([byte])] for byte in "".join(case["pieces"]).encode()]
    rules = StopRules.of(*dict.fromkeys(case["stops"]), include_stop=case["include_stop"])
    whole = Case("byte-level", "plain", tuple(script), rules)
    answer = expected(whole)
    assert answer.text == "".join(case["emits"])
    stopped = case["reason"] == "stop_string"
    assert (answer.kind, answer.value) == (BY_STRING if stopped else END_OF_MODEL, case["value"])
    assert not differences(whole)


def says(
    claim: str, family: str, script: Iterable[str | bytes], wanted: dict[str, Any], **given: Any
) -> Any:
    """Return a claim of the page: the script of a model, and what the answer must be."""
    return pytest.param(found("byte-level", family, script, **given), wanted, id=claim)


def harmony(claim: str, script: list[str], wanted: dict[str, Any], **given: Any) -> Any:
    return says(claim, "harmony", script, wanted, **{"prompt": HARMONY_START, **given})


CLAIMS = [
    # 1, 2: text, not tokens; the earliest to complete, then the longest, then list order.
    says("a stop that spans tokens is cut and named", "plain", ["1", " ", "EN", "D", "x"],
         {"text": "1 ", "kind": BY_STRING, "value": "END", "rule_index": 0, "text_offset": 2,
          "token_index": 3, "dropped": "END", "output_tokens": 4, "token_text": "D"},
         strings=["END"]),
    says("the earliest to complete wins", "plain", ["an", "ana"], {"value": "n"},
         strings=["nan", "n"]),
    says("of two that complete together the longest wins", "plain", ["b", "an"],
         {"value": "ban", "text_offset": 0}, strings=["n", "ban"]),
    says("a stop at the first character leaves an empty answer", "plain", ["END", "x"],
         {"text": "", "text_offset": 0, "value": "END"}, strings=["END"]),
    # 4: what was held is released, and passes the matcher.
    says("held text is released at EOS", "plain", ["EN"],
         {"text": "EN", "held": "EN", "kind": END_OF_MODEL, "token_text": EOS}, strings=["END"]),
    says("held text is released at the limit", "plain", ["EN", "x"],
         {"text": "EN", "kind": IS_LIMIT, "output_tokens": 1}, strings=["END"], max_tokens=1),
    says("what appears only at the end passes the matcher", "plain", ["a", b"\xf0"],
         {"text": "a", "kind": BY_STRING, "dropped": "\ufffd"}, strings=["\ufffd"]),
    *(
        says(f"held text is sent before a stop by {how}", "long json calls",
             ["a", "EN", "<tool", HALF, *end],
             {"text": "aEN<tool\ufffd", "held": "EN<tool"}, strings=["END", *strings], ids=ids)
        for how, end, strings, ids in (
            ("id", [ODD], [], [ODD]), ("special token", [ODD], [ODD], []), ("EOS", [], [], []),
        )
    ),
    says("text released before a special stop can be a stop", "long json calls",
         ["a", "<tool", ODD], {"text": "a", "value": "<to", "dropped": "<tool"},
         strings=["<to", ODD]),
    # 5: the stop and what follows it are dropped.
    says("the stop and the rest of its piece are dropped", "plain", ["a", "END."],
         {"text": "aE", "dropped": "ND.", "token_index": 1, "text_offset": 2}, strings=["ND"]),
    # 6: channels.
    says("thinking has its own channel and is counted", "thinking",
         ["<think>", "\n", "hm", "</think>", "\n\n", "yes"],
         {"thinking": "hm", "text": "yes", "thinking_tokens": 4}),
    says("a stop inside thinking does not empty the answer", "thinking",
         ["<think>", "END", "</think>", "yes", "END"],
         {"thinking": "END", "text": "yes", "channel": TEXT}, strings=["END"]),
    says("a stop inside thinking counts if the scope says so", "thinking",
         ["<think>", "an", "END", "</think>", "yes"],
         {"thinking": "an", "text": "", "channel": THINKING}, strings=["END"], scope=BOTH),
    says("no match joins two channels", "thinking", ["<think>", "EN", "</think>", "D"],
         {"thinking": "EN", "text": "D", "kind": END_OF_MODEL, "thinking_tokens": 3},
         strings=["END"], scope=ALL),
    says("white space of the template never matches", "thinking",
         [*THOUGHT[:3], "\n\n", "a", "\n\n", "b"], {"text": "a", "value": "\n\n"},
         strings=["\n\n"]),
    says("an id that is the template's white space ends the answer", "thinking",
         [*THOUGHT[:3], "\n\n", "yes"], {"text": "", "kind": BY_ID},
         strings=["\n\n"], ids=["\n\n"]),
    says("letters of a tag are text", "thinking", [*THOUGHT[:3], "a", "<", "/think", ">", "b"],
         {"thinking": "hm", "text": "a"}, strings=["</think>"]),
    *(
        says(f"{tag} is no stop under scope {scope.value}", "thinking", THOUGHT,
             {"thinking": "hm", "text": "yes", "kind": END_OF_MODEL},
             strings=[tag], ids=[tag], scope=scope)
        for tag in ("<think>", "</think>") for scope in (StopScope.TEXT, BOTH)
    ),
    *(
        says(f"{tag} fires in the channel that it opens or closes", "thinking", ["a", *THOUGHT],
             {"kind": BY_STRING, "value": tag, "text": "a", "thinking": thought,
              "channel": THINKING, "text_offset": len(thought)}, strings=[tag], scope=ALL)
        for tag, thought in (("<think>", ""), ("</think>", "hm"))
    ),
    says("the id of a tag ends the answer though its letters could match", "thinking", THOUGHT,
         {"kind": BY_ID, "thinking": "hm", "text": ""},
         strings=["<"], ids=["</think>"], scope=ALL),
    *(
        says(f"a tag of several tokens under scope {scope.value}", "long thinking",
             ["<|channel>", "thought", "hm", "<channel|>", "yes"], wanted,
             strings=["<|channel>thought"], scope=scope)
        for scope, wanted in (
            (StopScope.TEXT, {"thinking": "hm", "text": "yes"}),
            (BOTH, {"thinking": "hm", "text": "yes"}),
            (ALL, {"thinking": "", "text": "", "kind": BY_STRING}),
        )
    ),
    says("a tag of several tokens counts in its stop's own scope", "long thinking",
         ["<|channel>", "thought", "hm", "<channel|>", "yes"],
         {"thinking": "", "text": "", "kind": BY_STRING},
         strings=[Stop("<|channel>thought", ALL)]),
    says("min_tokens lets an early tag of several tokens pass", "long thinking",
         ["<|channel>", "thought", "hm", "<channel|>", "yes"], {"thinking": "hm", "text": "yes"},
         strings=["<|channel>thought"], scope=ALL, min_tokens=5),
    says("a string in text held for a tag wins over the id of its token", "long json calls",
         ["a", "<tool", "_call"], {"text": "a<too", "value": "l_", "dropped": "l_call"},
         strings=["l_"], ids=["_call"]),
    *(
        says(f"reasoning that the prompt began goes on after {words} words", "thinking",
             ["hm", "</think>", "\n", "yes"], {"thinking": "hm", "text": "yes"},
             prompt="<think>" + "hm the " * words)
        for words in (0, 100)
    ),
    says("reasoning that the prompt closed is over", "thinking", ["yes"],
         {"thinking": "", "text": "yes"}, prompt="<think>\n\n</think>\n\n"),
    *(
        says(f"a stop of its own scope counts there: {name}", "thinking",
             ["<think>", "an", "the", "</think>", "ok", "an", "the"],
             {"kind": BY_STRING, "channel": channel, "value": value, "rule_index": number},
             strings=strings, scope=scope)
        for name, strings, scope, channel, value, number in (
            ("none", ["an", "the"], StopScope.TEXT, TEXT, "an", 0),
            ("the second", ["an", Stop("the", BOTH)], StopScope.TEXT, THINKING, "the", 1),
            ("the first", ["the", Stop("an", BOTH)], StopScope.TEXT, THINKING, "an", 1),
            ("everywhere", ["ok", Stop("an", ALL)], StopScope.TEXT, THINKING, "an", 1),
            ("narrower", [Stop("an", StopScope.TEXT), "the"], BOTH, THINKING, "the", 1),
        )
    ),
    *(
        says(f"a special token counts in its scope: {channel.value}", "thinking",
             ["<think>", "an", ODD, "</think>", "the", ODD], {"channel": channel},
             strings=[stop])
        for channel, stop in ((TEXT, ODD), (THINKING, Stop(ODD, BOTH)))
    ),
    # 6: headers are structure from their first to their last token.
    harmony("channels are split and no marker leaks", [*ANALYSIS, *FINAL, "yes", "ok"],
            {"thinking": "hm", "text": "yesok", "kind": END_OF_MODEL, "thinking_tokens": 5}),
    harmony("stops fire in the final channel only", [*ANALYSIS, *FINAL, "yes", "hm", "ok"],
            {"thinking": "hm", "text": "yes", "value": "hm"},
            strings=["hm", "final", "analysis"]),
    harmony("stops fire in the analysis if the scope says so", [*ANALYSIS, *FINAL, "yes"],
            {"thinking": "h", "channel": THINKING}, strings=["m"], scope=ALL),
    harmony("a preamble is part of the answer",
            ["<|channel|>", "commentary", "<|message|>", "ok", "<|end|>", *FINAL, "yes"],
            {"text": "okyes"}),
    *(
        harmony(f"a limit of {most} inside a header leaks nothing", [*ANALYSIS, *FINAL, "x"],
                {"text": "", "thinking": "", "kind": IS_LIMIT}, max_tokens=most)
        for most in (1, 2, 3)
    ),
    *(
        harmony(f"EOS after {len(script)} tokens is inside a header and leaks nothing", script,
                {"text": "", "kind": END_OF_MODEL})
        for script in (ANALYSIS[:2], [*ANALYSIS, *FINAL[:4]])
    ),
    *(
        harmony(f"{word} in a header is no stop under scope {scope.value}",
                [*ANALYSIS, *FINAL, "x"], {"thinking": "hm", "text": "x", "kind": END_OF_MODEL},
                strings=[word], ids=[word], scope=scope)
        for word in ("analysis", "assistant", "commentary", "final") for scope in StopScope
    ),
    *(
        harmony(f"a marker under scope {scope.value}", [*ANALYSIS, *FINAL, "x"],
                {"thinking": "hm", "text": text}, strings=["<|end|>"], scope=scope)
        for scope, text in ((StopScope.TEXT, "x"), (BOTH, "x"), (ALL, ""))
    ),
    *(
        harmony(f"{stop} fires in the channel {channel.value}", script,
                {"kind": BY_STRING, "value": stop, "channel": channel}, strings=[stop], scope=ALL)
        for script, stop, channel in (
            ([*ANALYSIS, *FINAL, "yes"], "<|end|>", THINKING),
            ([*ANALYSIS[:3], "x"], "<|message|>", THINKING),
            (["<|channel|>", "final", "<|message|>", "yes"], "<|message|>", TEXT),
            (HARMONY_CALL[2:], "<|message|>", TOOLS),
        )
    ),
    *(
        harmony(f"an answer begins where the prompt leaves it: {name}", script,
                {"thinking": thought, "text": text}, strings=["END"], prompt=begun)
        for name, begun, script, thought, text in (
            ("no header", "", ["yes"], "", "yes"),
            ("final", f"{HARMONY_START}<|channel|>final<|message|>an", ["a", "END", "x"], "", "a"),
            ("analysis", f"{HARMONY_START}<|channel|>analysis<|message|>the",
             ["END", "<|end|>", *FINAL, "yes"], "END", "yes"),
            ("in a header", f"{HARMONY_START}<|channel|>analysis",
             ["<|message|>", "hm", "<|end|>", *FINAL, "yes"], "hm", "yes"),
            ("after a message", f"{HARMONY_START}<|channel|>analysis<|message|>hm<|end|>",
             [*FINAL, "yes"], "", "yes"),
            ("between messages", f"{HARMONY_START}<|channel|>analysis<|message|>hm<|end|>",
             ["ok", *FINAL, "yes"], "", "okyes"),
        )
    ),
    harmony("text outside of messages is text, and its stops fire at once",
            ["an", "END", "yes", *FINAL, "x"], {"text": "an", "output_tokens": 2},
            strings=["END"], prompt=""),
    # 7: only generated text counts.
    says("prompt text never matches nor joins a match", "plain", ["D", "!"],
         {"text": "D!", "kind": END_OF_MODEL}, strings=["END", "an"], prompt="an EN"),
    # 8: ids, and special tokens named as strings.
    says("EOS still ends where stop ids are given", "plain", ["a"], {"kind": END_OF_MODEL},
         ids=["z"]),
    says("a string wins over an id on the same token", "plain", ["EN", "D"],
         {"kind": BY_STRING, "text": ""}, strings=["END"], ids=["D"]),
    says("the text of a stop id is not part of the answer", "plain", ["a", "b"],
         {"kind": BY_ID, "text": "a", "dropped": "b"}, strings=["bc"], ids=["b"]),
    says("a special token given as a string is found by its id", "plain", ["EN", b"\xf0", ODD],
         {"text": "EN\ufffd", "value": ODD, "held": "EN"}, strings=["END", ODD]),
    says("an EOS that is a stop id ends the answer in any channel", "thinking", THOUGHT[:2],
         {"kind": BY_ID, "channel": THINKING}, ids=[EOS]),
    # 9: precedence.
    says("a stop wins over the limit", "plain", ["a", "END"], {"kind": BY_STRING},
         strings=["END"], max_tokens=2),
    *(
        says(f"EOS on the last allowed token is EOS: {most}", "plain", ["a", "b"], {"kind": kind},
             max_tokens=most)
        for most, kind in ((2, IS_LIMIT), (3, END_OF_MODEL), (4, END_OF_MODEL))
    ),
    says("a full context is not the token limit", "plain", ["x"] * 9,
         {"kind": StopKind.CONTEXT_FULL, "output_tokens": 5}, room=5, max_tokens=9),
    # 9, 17: a cycle ends the answer before a limit, and after everything else.
    *(
        says(f"a cycle and {name}", "plain", ["x", *["a", "END"] * 4], {"kind": kind, **wanted},
             repetition=TWICE, **given)
        for name, kind, wanted, given in (
            ("nothing else", CYCLES, {"text": "xaENDaEND", "dropped": "", "token_index": 4,
                                      "repetition": Repetition(2, 2, 1)}, {}),
            ("a limit on its token", CYCLES, {}, {"max_tokens": 5}),
            ("a full context on its token", CYCLES, {}, {"room": 5}),
            ("a limit before it", IS_LIMIT, {"repetition": None}, {"max_tokens": 4}),
            ("a string on its token", BY_STRING, {"text": "xa"}, {"strings": ["ENDaEND"]}),
            ("an id on its token", BY_ID, {"text": "xa"}, {"ids": ["END"]}),
            ("min_tokens", CYCLES, {"output_tokens": 8, "repetition": Repetition(2, 3, 2)},
             {"min_tokens": 7}),
        )
    ),
    says("EOS behind a cycle too short is EOS", "plain", ["a", "b", "a"], {"kind": END_OF_MODEL},
         repetition=TWICE),
    says("an ignored EOS is a token of a cycle", "plain", ["a"],
         {"kind": CYCLES, "output_tokens": 3, "text": "a"}, repetition=TWICE, ignore_eos=True),
    says("the held text of a cycle is released", "plain", ["EN", "EN"],
         {"kind": CYCLES, "text": "ENEN", "held": "EN"}, strings=["END"], repetition=TWICE),
    says("a cycle in reasoning is the reasoning's alone", "thinking",
         ["<think>", "a", "a", "</think>", "b", "a", "a", "x"],
         {"kind": CYCLES, "thinking": "aa", "text": "baa", "repetition": Repetition(1, 2, 5)},
         repetition=TWICE),
    says("no cycle reaches over a tag", "thinking", ["<think>", "a", "</think>", "a", "b"],
         {"kind": END_OF_MODEL, "text": "ab"}, repetition=TWICE),
    says("no cycle counts in a call", "json calls", ["ok", *TOOL[:1], *"[[{{", *TOOL[2:]],
         {"kind": END_OF_MODEL, "text": "ok[[{{"}, repetition=TWICE),
    says("tags of a raw prompt's answer can be a cycle", "thinking", ["<think>", "<think>", "a"],
         {"kind": CYCLES, "text": "<think><think>"}, prompt="a", is_raw=True, repetition=TWICE),
    *(
        says(f"the record of {count} tokens before {name}", "plain", ["x", *"ab" * (count // 2)],
             {"kind": kind, "repetition": cycle}, **given)
        for count, cycle in ((62, None), (64, Repetition(2, 32, 1)))
        for name, kind, given in (
            ("EOS", END_OF_MODEL, {}),
            ("a limit", IS_LIMIT, {"max_tokens": count + 1}),
            ("a cancel", StopKind.CANCELLED, {"cancel_after": count + 1}),
        )
    ),
    # 9: a whole call is a call, whatever ends it.
    says("a call is the reason, and no stop counts in it", "json calls", ["ok", *TOOL],
         {"text": "ok", "calls": CALLED, "kind": IS_CALL}, strings=["add"]),
    says("a call ends as a call where EOS is a stop id", "json calls", TOOL, {"kind": IS_CALL},
         ids=[EOS]),
    says("a call ends as a call where EOS is a stop string", "json calls", TOOL,
         {"kind": IS_CALL}, strings=[EOS]),
    *(
        says(f"a call and a limit of {most}", "json calls", TOOL,
             {"kind": kind, "unfinished": unfinished}, max_tokens=most)
        for most, kind, unfinished in (
            (2, IS_LIMIT, CALL), (3, IS_CALL, ""), (4, IS_CALL, ""), (5, IS_CALL, ""),
        )
    ),
    says("without a closing tag a call is whole at the limit", "bracketed calls", BRACKETS,
         {"unfinished": "", "calls": CALLED, "kind": IS_CALL}, max_tokens=4),
    *(
        says(f"a stop in the text of a call ends and completes it: {name}", "bracketed calls",
             [*BRACKETS, "\n", "yes"], {"kind": IS_CALL, "calls": CALLED}, scope=ALL, **stop)
        for name, stop in (("string", {"strings": ["\n"]}), ("id", {"ids": ["\n"]}))
    ),
    says("a second call shows that the first is whole", "bracketed calls",
         [*BRACKETS, *BRACKETS[:3], '{"a": "'],
         {"calls": CALLED, "unfinished": 'add[ARGS]{"a": "', "kind": IS_LIMIT}, max_tokens=8),
    says("a stop in the text after a call is the stop", "json calls", [*TOOL, "ok", "EN", "D"],
         {"kind": BY_STRING, "calls": CALLED}, strings=["END"]),
    *(
        says(f"a special token that is no stop here stays in the call: {name}", "bracketed calls",
             BRACKETS, {"kind": IS_CALL, "calls": CALLED}, **given)
        for name, given in (
            ("string", {"strings": ["[ARGS]"]}), ("id", {"ids": ["[ARGS]"]}),
            ("early string", {"strings": ["[ARGS]"], "scope": ALL, "min_tokens": 100}),
            ("early id", {"ids": ["[ARGS]"], "scope": ALL, "min_tokens": 100}),
        )
    ),
    says("a special token inside a call is a stop in scope", "bracketed calls", BRACKETS,
         {"kind": BY_STRING, "value": "[ARGS]", "unfinished": "add", "channel": TOOLS},
         strings=["[ARGS]"], scope=ALL),
    says("a string in the text of a special token of a call wins over its id", "bracketed calls",
         BRACKETS, {"value": "G", "unfinished": "add[AR"}, strings=["G"], ids=["[ARGS]"],
         scope=ALL),
    says("stops count inside a call if the scope says so", "json calls", TOOL,
         {"kind": BY_STRING, "channel": TOOLS, "unfinished": '{"name": "add", "'},
         strings=["arguments"], scope=ALL),
    says("the tag of a call fires in the call", "json calls", TOOL,
         {"kind": BY_STRING, "channel": TOOLS}, strings=["<tool_call>"], scope=ALL),
    *(
        says(f"what the stop completes: {end} {name} {'kept' if keeps else 'dropped'}",
             "json calls", [*BEGUN, *end], wanted, scope=ALL, include_stop=keeps,
             **{name: [stop]})
        for name in ("strings", "ids")
        for end, stop, keeps, wanted in (
            (["}}", "END", "x"], "END", False, {"kind": IS_CALL, "calls": CALLED}),
            (["}}", "END", "x"], "END", True, {"kind": IS_CALL, "calls": CALLED}),
            (["}}", "x"], "}}", False, {"calls": (), "unfinished": RAW}),
            (["}}", "x"], "}}", True, {"kind": IS_CALL, "calls": CALLED, "unfinished": ""}),
            (["END", "}}"], "END", True, {"calls": (), "unfinished": RAW + "END"}),
        )
    ),
    *(
        harmony(f"a call stays a call where {end} is a stop: {name}, scope {scope.value}",
                [*ANALYSIS, *HARMONY_CALL, end], {"kind": IS_CALL, "calls": CALLED},
                scope=scope, **{name: [end]})
        for end in ("<|call|>", "<|return|>") for name in ("strings", "ids")
        for scope in StopScope
    ),
    harmony("a call that a limit cuts is the limit", [*ANALYSIS, *HARMONY_CALL],
            {"kind": IS_LIMIT, "unfinished": '{"a": 1}', "thinking": "hm"}, max_tokens=13),
    harmony("a call that the prompt began is a call", ["1", "}", "<|call|>"], {"calls": CALLED},
            prompt=HARMONY_START + ' to=functions.add<|message|>{"a": '),
    harmony("an ignored EOS closes its call and nothing else",
            [*HARMONY_CALL, "<|call|>", *FINAL, *["x"] * 90],
            {"calls": CALLED, "text": "x" * 26, "kind": IS_LIMIT}, ignore_eos=True,
            max_tokens=40),
    # What turns out to be no call is text.
    says("what cannot be parsed is text", "json calls", NO_TOOL,
         {"text": "{brokenok", "calls": (), "kind": END_OF_MODEL}),
    *(
        says(f"a stop in text that is no call: {name}", "json calls", script,
             {"text": text, "kind": BY_STRING, "value": stop, "channel": TEXT,
              "text_offset": len(text)}, strings=[stop])
        for name, script, stop, text in (
            ("inside", NO_TOOL, "oke", "{br"), ("across its end", NO_TOOL, "nok", "{broke"),
            ("where the answer ends in it", [*NO_TOOL[:2], " ", "数", " an"], "数", "{broken "),
            ("its first character", ["a", *NO_TOOL[:2]], "{", "a"),
        )
    ),
    says("a possible stop at the end of text that is no call is released", "json calls",
         NO_TOOL[:2], {"text": "{broken", "held": "ken", "kind": END_OF_MODEL}, strings=["kens"]),
    harmony("a second message never joins what a call that is none held",
            [*HARMONY_CALL[:-1], "EN", "<|end|>", *FINAL, "D"],
            {"text": "END", "kind": END_OF_MODEL}, strings=["END"]),
    # 10, 11: counting and options.
    *(
        says(f"min_tokens {least} lets early stops pass", "plain", ["an"] * 4,
             {"text": "an" * least, "output_tokens": least + 1}, strings=["an"],
             min_tokens=least)
        for least in (0, 1, 3, 4)
    ),
    says("include_stop keeps the stop and cuts the rest", "plain", ["a", "END."],
         {"text": "aEND", "dropped": ".", "text_offset": 2}, strings=["ND"], include_stop=True),
    *(
        says(f"a kept stop begins where it matched: {name}", "plain", ["a", "END", "x"],
             {"text": "aEND", "text_offset": 1, "dropped": ""}, include_stop=True, **stop)
        for name, stop in (("string", {"strings": ["END"]}), ("id", {"ids": ["END"]}))
    ),
    says("ignore_eos goes on to the limit", "plain", ["a", EOS, "b"],
         {"text": "ab", "kind": IS_LIMIT}, ignore_eos=True, max_tokens=3),
    says("ignore_eos goes on to a stop", "plain", ["a", EOS, "b", "END"],
         {"text": "ab", "value": "END"}, ignore_eos=True, strings=["END"]),
    *(
        says(f"a cancelled answer honours min_tokens {least}", "plain", ["a", HALF],
             {"kind": StopKind.CANCELLED, "text": text, "dropped": dropped},
             strings=["\ufffd"], min_tokens=least, cancel_after=2)
        for least, text, dropped in ((0, "a", "\ufffd"), (2, "a\ufffd", ""))
    ),
    # 12: bytes.
    says("a character split over tokens arrives whole", "plain", ["a", HALF, REST, "b"],
         {"text": "a🚀b"}),
    says("a character split over tokens can be a stop", "plain", ["a", HALF, REST, "b"],
         {"text": "a", "output_tokens": 3}, strings=["🚀"]),
    says("a truncated character is one replacement and blocks nothing", "plain",
         ["a", HALF, "b", HALF], {"text": "a\ufffdb\ufffd"}),
    says("a stop is reported though its token ends in half a character", "plain",
         ["a", b"END\xf0\x9f", "x"], {"text": "a", "output_tokens": 2}, strings=["END"]),
    says("half a character before thinking is the answer's", "thinking",
         ["a", HALF, "<think>", "b"], {"text": "a\ufffd", "thinking": "b"}),
    says("half a character in thinking is the thinking's", "thinking",
         ["<think>", "a", HALF, "</think>", "b"], {"thinking": "a\ufffd", "text": "b"}),
    says("a tag of calls that reasoning mentions leaves it reasoning", "json calls",
         ["<think>", "hm", "<tool_call>", "the", "</tool_call>", " no", "</think>", "yes"],
         {"thinking": "hmthe no", "text": "yes", "calls": (), "kind": END_OF_MODEL}),
    says("the end of reasoning ends a call that is none", "json calls",
         ["<think>", "hm", "<tool_call>", "the", "</think>", "\n", "yes"],
         {"thinking": "hmthe", "text": "yes", "calls": ()}),
    says("a call in open reasoning is a call", "json calls", ["<think>", "hm", *TOOL],
         {"thinking": "hm", "text": "", "calls": CALLED, "kind": IS_CALL}),
    says("reasoning goes on behind its call", "json calls",
         ["<think>", "hm", *TOOL, "\n", "the", "</think>", "yes"],
         {"thinking": "hmthe", "text": "yes", "calls": CALLED}),
    # 6: an answer without any header is text; without tools offered, so are the tags of calls.
    harmony("an answer without a header is text", ["the", " ", "END", "x"],
            {"text": "the ", "kind": BY_STRING, "text_offset": 4}, strings=["END"]),
    harmony("the name of a channel without its mark is held and then text", ["final", "<|end|>"],
            {"text": "final", "kind": END_OF_MODEL}),
    harmony("a second message without a header is text",
            [*ANALYSIS, "<|start|>", "assistant", "yes", "<|return|>"],
            {"thinking": "hm", "text": "yes"}),
    harmony("a recipient without the mark of its channel is a header",
            ["commentary", " to=functions.", "add", "<|message|>", '{"a": 1}', "<|call|>"],
            {"calls": CALLED, "text": ""}),
    harmony("a limit in a header leaks nothing of it", [" to=functions.", "add"],
            {"text": "", "kind": IS_LIMIT}, max_tokens=2),
    says("without tools a call and its tags are text", "json calls", ["a", *TOOL],
         {"text": f"a<tool_call>{CALL}</tool_call>", "calls": (), "kind": END_OF_MODEL},
         has_tools=False),
    says("without tools a tag can be a stop", "long json calls", ["a", "<tool", "_call", ">", "x"],
         {"text": "a", "value": "<tool_call>", "text_offset": 1}, strings=["<tool_call>"],
         has_tools=False),
    says("text behind a whole call is text, in which stops count", "bracketed calls",
         [*BRACKETS, " ", "yes", "END", "x"], {"text": "yes", "calls": CALLED, "kind": BY_STRING},
         strings=["END"]),
    # Raw prompts: not a character is lost.
    says("tags of a raw prompt's answer are text", "bracketed calls", BRACKETS,
         {"text": '[TOOL_CALLS]add[ARGS]{"a": 1}', "calls": (), "kind": END_OF_MODEL},
         prompt="a", is_raw=True),
]  # fmt: skip


@pytest.mark.parametrize(("case", "wanted"), CLAIMS)
def test_it_gives_what_the_page_says(case: Case, wanted: dict[str, Any]) -> None:
    answer = expected(case)
    assert {name: getattr(answer, name) for name in wanted} == wanted
    assert not differences(case)
