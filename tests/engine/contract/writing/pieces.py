"""What the tokens of the small vocabularies say."""

# What tokens say: words, halves of words, what looks like tags and stops, white space, JSON.
PIECES = (
    *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?'\"{}[]()<>/|_=-* \n\t",
    *("EN", "END", "ND", "END.", "the", " the", "an", " an", "ana", "nan", "aa", "aab", "aba"),
    *("\n\n", "\n\n\n", "  ", " \n", "Observation:", "Observ", "ation", "User", "User:", "###"),
    *("<|", "|>", "<t", "</", "</t", "<th", "ink", "think", "<think", "think>", "/think"),
    *("channel", "thought", "<|chan", "nel>", "<chan", "el|>", "tool", "_call", "<tool"),
    *("tool_call", "im_end"),
    *("TOOL", "_CALLS", "[TOOL", "ARGS", "[ARGS", "CALLS]", "start", "message", "END</", "yes<"),
    *("analysis", "final", "commentary", "assistant", " to=functions.", "add", "mul", "json"),
    *('{"name": "', '", "arguments": ', '{"name": "add", "arguments": {"a": 1}}', '{"a": 1}'),
    *('{"a": "', '"}', '"}}', "}}", '{"b": [1, 2]}', '"END"', "{broken", "hm", "yes", " no", "ok"),
    *("é", "🚀", "数", "a\u0301", "\u00a0", "ß"),
)
# Only where tokens are bytes: halves of characters, alone and with text around them.
BROKEN = (
    *("\ufffd".encode(), "x\ufffd".encode()),
    *(b"\xf0\x9f", b"\x9a\x80", b"\xf0", b"\x9f\x9a", b"\xc3", b"\xa9", b"\xff", b"\xe6\x95"),
    *(
        b"END\xf0\x9f",
        b"\x9a\x80END",
        b"a\xc3",
        b"\xa9b",
        b"\xc3END",
        b"</\xe6",
        b"\xb0",
        b"yes\xc3",
    ),
)
