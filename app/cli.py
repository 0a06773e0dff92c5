"""The command line: reads arguments into options and hands them to one command.

Imports a command only when it is called, so that help and version are fast; must not do any
command's work. Main thread.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from api.conformance.captures.values import harmless
from app import exits, paths
from app.command_line import arguments, launch_arguments
from app.exits import CommandError
from app.settings.options import (
    AnswerOptions,
    AskOptions,
    ChatOptions,
    ReplayOptions,
    check_guessing,
)
from engine import InvalidRequest, checked_strings
from ui.words import unescaped

RUN_ENDING = ".fullstop-run"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        argv: Arguments without the program's name; None reads them from the process.
    """
    words = _with_opened_file(list(sys.argv[1:] if argv is None else argv))
    parser = _parser()
    ours, for_agent = launch_arguments.split(words)
    try:
        given = parser.parse_args(_with_verbatim_values(ours))
        given.for_agent = for_agent
        if given.self_test:
            return _self_test(words)
        command: arguments.Command = given.command
        code = command(given)
        if (engines := sys.modules.get("app.composition")) is not None:
            engines.end_if_stuck(code)
        return code
    except SystemExit as ended:  # argparse has printed help, version or the error
        return ended.code if isinstance(ended.code, int) else exits.USAGE
    except CommandError as failed:
        print(f"fullstop: {harmless(str(failed))}", file=sys.stderr)
        return failed.exit_code
    except KeyboardInterrupt:
        print("fullstop: interrupted", file=sys.stderr)
        return exits.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    return arguments.parser(
        window=_window,
        ask=_ask,
        serve=_serve,
        replay=_replay,
        inspect=_inspect,
        probe=_probe,
        models=_models,
        launch=_launch,
        completion=_completion,
    )


def _with_opened_file(words: list[str]) -> list[str]:
    """Read ``fullstop FILE`` as ``fullstop --open FILE``, as file managers open saved runs.

    A word with a dot or a slash is not a command.
    """
    first = words[0] if words else ""
    is_path = not first.startswith("-") and ("." in first or os.sep in first)
    if is_path and (Path(first).is_file() or first.endswith(RUN_ENDING)):
        return ["--open", *words]
    return words


def _with_verbatim_values(words: list[str]) -> list[str]:
    """Rewrite ``--stop X`` as ``--stop=`` and a marked X, which argparse takes as a value.

    Otherwise argparse takes a value such as ``---`` for an option, and drops ``--``.
    """
    marked: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*marked, word, *rest]
        name, separator, joined = word.partition("=")
        if name in arguments.VERBATIM:
            value = joined if separator else next(rest, None)
            word = name if value is None else f"{name}={arguments.VERBATIM_MARK}{value}"
        marked.append(word)
    return marked


def _window(given: argparse.Namespace) -> int:
    prefix = arguments.WINDOW_PREFIX
    options = ChatOptions(
        model=_model(given, prefix),
        draft=_draft(given, prefix),
        is_plain=_is_plain(given, prefix),
        answer=_answer(given, prefix),
        opened=_opened(given, prefix),
    )
    from engine.processes.collector import collector_paused

    with collector_paused():
        from app.commands import window

    return window.run(options)


def _self_test(words: list[str]) -> int:
    if len(words) > 1:
        raise CommandError("--self-test takes no other options: fullstop --self-test", exits.USAGE)
    from app.self_test import checks as self_test

    return self_test.run()


def _ask(given: argparse.Namespace) -> int:
    _refuse_options_before("ask", given)
    options = AskOptions(
        prompt=given.prompt,
        model=_model(given),
        draft=_draft(given),
        is_plain=_is_plain(given),
        answer=_answer(given),
        is_json=given.json,
        saved_run=given.save_run,
    )
    from app.commands import ask

    return ask.run(options)


def _serve(given: argparse.Namespace) -> int:
    _refuse_options_before("serve", given)
    from app.process import end_before_start

    end_before_start()
    from app.settings.serve import resolve_serve_options

    options = resolve_serve_options(vars(given), os.environ)
    from engine.processes.collector import collector_paused

    with collector_paused():
        from app.commands import serve

    return serve.run(options)


def _replay(given: argparse.Namespace) -> int:
    _refuse_options_before("replay", given)
    if given.no_stop and hasattr(given, "stop"):
        raise CommandError("use either --stop or --no-stop", exits.USAGE)
    options = ReplayOptions(
        file=given.file,
        stops=_stops(getattr(given, "stop", []), getattr(given, "escapes", False)),
        drops_stops=given.no_stop,
        is_json=given.json,
    )
    from app.commands import replay

    return replay.run(options)


def _inspect(given: argparse.Namespace) -> int:
    _refuse_options_before("inspect", given)
    from app.commands import inspect

    stops = _stops(getattr(given, "stop", []), getattr(given, "escapes", False))
    return inspect.run(inspect.InspectOptions(given.file, stops, is_json=given.json))


def _probe(given: argparse.Namespace) -> int:
    _refuse_options_before("probe", given)
    from app.commands import probe

    return probe.run_arguments(given)


def _models(given: argparse.Namespace) -> int:
    _refuse_options_before("models", given)
    from app.commands import models

    is_json = getattr(given, "json", False)
    match given.action:
        case "search":
            return models.search(" ".join(given.words), given.limit, is_json=is_json)
        case "download":
            return models.download(given.name, is_json=is_json)
        case "remove":
            return models.remove(given.name, is_sure=given.yes, is_json=is_json)
        case _:
            names_only = getattr(given, "names", False)
            return models.show(is_json=is_json, names_only=names_only)


def _launch(given: argparse.Namespace) -> int:
    _refuse_options_before("launch", given)
    from app.commands import launch

    options = launch.LaunchOptions(
        agent=given.agent,
        model=given.model,
        url=given.url,
        is_printed=given.is_printed,
        is_insisted=given.anyway,
        arguments=(*given.arguments, *given.for_agent),
    )
    return launch.run(options)


def _completion(given: argparse.Namespace) -> int:
    _refuse_options_before("completion", given)
    from app.command_line import completing

    line = given.line[1:] if given.line[:1] == ["--"] else given.line
    if not line:
        print(completing.script(given.shell), end="")
        return exits.OK
    found = completing.candidates(_parser(), line, paths.model_names, _suggested)
    print("".join(f"{one}\n" for one in found if harmless(one) == one), end="")
    return exits.OK


def _suggested() -> list[str]:
    from engine.library.hub.suggestions import SUGGESTIONS

    return [one.name for one in SUGGESTIONS]


def _refuse_options_before(command: str, given: argparse.Namespace) -> None:
    prefix = arguments.WINDOW_PREFIX
    for name in vars(given):
        if name.startswith(prefix):
            option = "--" + name.removeprefix(prefix).replace("_", "-")
            raise CommandError(
                f"{option} must come after {command}: fullstop {command} … {option}",
                exits.USAGE,
            )


def _model(given: argparse.Namespace, prefix: str = "") -> Path:
    model: Path | None = getattr(given, f"{prefix}model", None)
    return paths.demo_model() if model is None else model.expanduser()


def _draft(given: argparse.Namespace, prefix: str = "") -> Path | None:
    draft: Path | None = getattr(given, f"{prefix}draft_model", None)
    return draft


def _is_plain(given: argparse.Namespace, prefix: str = "") -> bool:
    """Return whether decoding is plain; raise if a draft model is also given."""
    is_plain: bool = getattr(given, f"{prefix}plain_decoding", False)
    check_guessing(_draft(given, prefix), is_plain=is_plain)
    return is_plain


def _opened(given: argparse.Namespace, prefix: str) -> Path | None:
    file: Path | None = getattr(given, f"{prefix}open", None)
    return None if file is None else file.expanduser().absolute()


def _answer(given: argparse.Namespace, prefix: str = "") -> AnswerOptions:
    values = {
        name.removeprefix(prefix): value
        for name, value in vars(given).items()
        if name.startswith(prefix)
    }
    return AnswerOptions(
        stops=_stops(values.get("stop", []), are_escaped=values.get("escapes", False)),
        max_tokens=values.get("max_tokens"),
        temperature=values.get("temperature"),
        seed=values.get("seed"),
        system=_text("--system", values.get("system", "")),
        is_thinking=values.get("thinking", False),
        stop_options=arguments.stop_options_of(values),
        thinking_budget=values.get("thinking_budget"),
    )


def _stops(given: list[str], are_escaped: bool) -> tuple[str, ...]:
    try:
        return checked_strings([unescaped(s) for s in given] if are_escaped else given, "--stop")
    except ValueError as error:
        raise CommandError(f"--stop: {error}", exits.USAGE) from error
    except InvalidRequest as error:
        raise CommandError(str(error), exits.USAGE) from error


def _text(option: str, value: str) -> str:
    """Return the value if it is text; bytes that are not UTF-8 arrive as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CommandError(f"{option} is not valid UTF-8", exits.USAGE) from error
    return value
