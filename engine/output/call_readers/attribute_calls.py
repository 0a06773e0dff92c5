"""Calls whose tags have attributes: names, keys and types. Pure; any thread."""

import re

from engine.output.call_readers.arriving import (
    ArrivingText,
    CallParser,
    CallWriter,
    Format,
    IrregularCall,
    Waiting,
)
from engine.output.call_readers.json_text import Rewritten, json_object
from engine.output.call_readers.parameter_value import Trim
from engine.output.call_readers.parameters import Conversions, ParameterWriter

_NAME = r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>]+)"
_FUNCTION = re.compile(rf"\s*{_NAME}\s*")
_PARAM = re.compile(rf"\s+name\s*=\s*{_NAME}\s*")
_INVOKE = re.compile(r"\s[^>]*?\bname=\"[^\"]+\"")
_ATEM_PARAMETER = re.compile(r"\s[^>]*?\bname=\"[^\"]+\"[^>]*?")


def minicpm5(parse: CallParser) -> Format:
    """Return the format ``<function name="f"><param name="p">…</param></function>``.

    The tag that opens the call ends before the name.
    """
    conversions = Conversions(parse)

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        head = yield from text.until(">")
        if not _FUNCTION.fullmatch(head):
            raise IrregularCall
        begun = f"{head}>"
        out.start(conversions.name_of(begun))
        writer = ParameterWriter(out, conversions)
        writer.open()
        while True:
            yield from text.skip_past("<param")
            attributes = yield from text.until(">")
            if not _PARAM.fullmatch(attributes):
                raise IrregularCall

            def call_of(value: str, attributes: str = attributes) -> str:
                return f"{begun}<param{attributes}>{value}</param>"

            yield from writer.read(text, ("</param>",), call_of, Trim.SPACE, has_cdata=True)

    return read


def muse_spark(parse: CallParser) -> Format:
    """Return the format ``<atem:invoke name="f"><atem:parameter name="p">…``."""
    conversions = Conversions(parse)
    end = "</atem:invoke>"

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        while True:
            yield from text.skip_past("<atem:invoke")
            head = yield from text.until(">")
            if not _INVOKE.fullmatch(head):
                raise IrregularCall
            begun = f"<atem:invoke{head}>"
            out.start(conversions.name_of(begun + end))
            writer = ParameterWriter(out, conversions)
            writer.open()
            while (yield from text.skip_past("<atem:parameter", end)) != end:
                attributes = yield from text.until(">")
                if not _ATEM_PARAMETER.fullmatch(attributes):
                    raise IrregularCall

                def call_of(value: str, begun: str = begun, attributes: str = attributes) -> str:
                    parameter = f"<atem:parameter{attributes}>{value}</atem:parameter>"
                    return f"{begun}{parameter}{end}"

                yield from writer.read(
                    text, ("</atem:parameter>",), call_of, Trim.SPACE, may_be_json=True
                )
            writer.end()

    return read


def kimi_k3(parse: CallParser) -> Format:
    """Return Kimi K3's format: ``<|open|>call tool="f"<|sep|>`` and arguments with types."""
    conversions = Conversions(parse)
    sep, end = "<|sep|>", "<|close|>call<|sep|>"
    argument, json_block = "<|open|>argument", "<|open|>json"
    argument_end = "<|close|>argument<|sep|>"

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        while True:
            yield from text.skip_past("<|open|>call")
            begun = f"<|open|>call{(yield from text.until(sep))}{sep}"
            out.start(conversions.name_of(begun + end))
            writer = ParameterWriter(out, conversions)
            while (mark := (yield from text.skip_past(argument, json_block, end))) == argument:
                attributes = yield from text.until(sep)

                def call_of(value: str, begun: str = begun, attributes: str = attributes) -> str:
                    return f"{begun}{argument}{attributes}{sep}{value}{argument_end}{end}"

                yield from writer.read(text, (argument_end, end), call_of, Trim.NOTHING)
            if mark == json_block:
                if writer.is_open:
                    raise IrregularCall
                yield from text.until(sep)
                yield from text.skip_space()
                yield from json_object(text, Rewritten(out.write))
                yield from text.skip_space()
                yield from text.expect("<|close|>json<|sep|>")
                yield from text.skip_past(end)
                out.owe("}")
            else:
                writer.end()

    return read
