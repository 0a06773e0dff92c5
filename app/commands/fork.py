"""``fullstop ask --from-run``: a saved run goes on from one of its tokens with another.

Main thread.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from app import exits, paths
from app.commands.replay import read_run
from app.engines import folder_and_base, load, open_engine, read_user_template
from app.exits import CommandError
from app.printer import Printer
from app.settings.options import AnswerOptions, AskOptions
from app.settings.repetition import OFF
from app.terminal.answers import print_end, save_run, show_answer
from app.terminal.status_line import LoadMeter, live_line
from engine import Answer, Engine
from engine.errors import EngineError, InvalidRequest
from engine.recording.fork import describe_fork, end_here, fork_request
from engine.recording.replay import replay
from engine.recording.run_trace import RunTrace
from engine.values.events import Finished, Timing, Usage
from engine.values.limits import Limits


def fork(options: AskOptions) -> int:
    """Answer from a token of a saved run on, and return the exit code."""
    assert options.from_run is not None, "a saved run is named"
    _check(options)
    run, question = read_run(options.from_run)
    try:
        if options.is_end:
            return _end_here(options, run, question)
        fork_request(run, _index(options), ())
    except EngineError as error:
        raise CommandError(f"{options.from_run}: {error}") from error
    return asyncio.run(_go_on(options, run, question))


def _check(options: AskOptions) -> None:
    limit = options.answer.conversation.max_tokens
    own = AnswerOptions()
    own = replace(own, conversation=replace(own.conversation, max_tokens=limit))
    has_settings = options.answer != own or options.repetition_detection != OFF
    if options.prompt is not None or options.files or options.times or has_settings:
        raise CommandError(
            "--from-run takes the prompt and the settings of the run; of other options, only "
            "--max-tokens changes them",
            exits.USAGE,
        )
    if options.at is None:
        raise CommandError("--from-run needs --at N, the token that is replaced", exits.USAGE)
    if options.choices != 1:
        raise CommandError("--from-run needs one of --with TEXT, --token ID and --end", exits.USAGE)


def _index(options: AskOptions) -> int:
    assert options.at is not None, "it was checked"
    return options.at - 1


def _end_here(options: AskOptions, run: RunTrace, question: str) -> int:
    ended, made = end_here(run, _index(options))
    played = replay(ended)
    assert ended.stop is not None, "a fork has ended"
    printer = Printer()
    if options.saved_run is not None:
        save_run(options.saved_run, ended, question)
    if not options.is_json:
        printer.thinking(played.thinking)
        printer.text(played.text)
    usage = Usage(output_tokens=played.output_tokens, thinking_tokens=played.thinking_tokens)
    finished = Finished(ended.stop, usage, Timing(), details=ended.details)
    given = Answer(played.text, played.thinking, played.calls, finished)
    remark = describe_fork(made.token_index, made.replaced_text, "")
    print_end(given, printer, made, remark, is_json=options.is_json)
    return exits.OK


async def _go_on(options: AskOptions, run: RunTrace, question: str) -> int:
    printer, name = Printer(), run.setting.model
    has_model = options.model is not None or options.adapter is not None
    folder, base = folder_and_base(options, None if has_model else _folder_of(name))
    template = read_user_template(options.template, folder, base)
    async with open_engine(Limits(plain_decoding=options.is_plain)) as engine:
        async with live_line(LoadMeter(engine).text, sys.stderr):
            info = await load(engine, folder, options.draft, template, base)
        if info.id != name:
            raise CommandError(
                f"{options.from_run} is a run of {name}, and the model is {info.id}; its tokens "
                f"mean something else there. --model takes the folder of {name}",
                exits.USAGE,
            )
        chosen, text = await _chosen(options, engine)
        request = fork_request(run, _index(options), chosen)
        if (limit := options.answer.conversation.max_tokens) is not None:
            request = replace(request, max_tokens=limit)
        assert request.fork is not None, "a fork was made"
        remark = describe_fork(request.fork.token_index, request.fork.replaced_text, text)
        return await show_answer(options, engine, request, question, printer, remark)


def _folder_of(name: str) -> Path:
    demo = paths.demo_model()
    if demo.name == name:
        return demo
    folder = paths.model_folder(name)
    if not folder.is_dir():
        raise CommandError(
            f"the run is of the model {name}, which is not on this computer; --model takes its "
            "folder"
        )
    return folder


async def _chosen(options: AskOptions, engine: Engine) -> tuple[tuple[int, ...], str]:
    if options.chosen_token is not None:
        try:
            text = await engine.detokenize([options.chosen_token])
        except InvalidRequest as error:
            raise CommandError(f"--token: {error.reason}", exits.USAGE) from error
        return (options.chosen_token,), text
    text = options.chosen_text or ""
    try:
        chosen = tuple(token_id for token_id, _ in await engine.tokenize(text)) if text else ()
    except InvalidRequest as error:
        raise CommandError(f"--with: {error.reason}", exits.USAGE) from error
    if not chosen:
        raise CommandError("--with: the text has no tokens", exits.USAGE)
    return chosen, text
