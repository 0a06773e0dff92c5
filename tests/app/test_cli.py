import argparse
import os
import sys
from pathlib import Path

import pytest

from app import __version__, exits, paths
from app.cli import main
from app.commands import ask, serve, window
from app.settings.commands import COMMANDS
from app.settings.options import AskOptions, ChatOptions, ModelOptions, number_parser
from app.settings.serve import ServeOptions
from ui.preferences import Declaration


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AskOptions]:
    """The options with which ``ask`` would run."""
    options: list[AskOptions] = []
    monkeypatch.setattr(ask, "run", lambda given: options.append(given) or 0)
    return options


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeOptions]:
    options: list[ServeOptions] = []
    monkeypatch.setattr(serve, "run", lambda given: options.append(given) or 0)
    monkeypatch.delenv("FULLSTOP_API_KEY", raising=False)
    return options


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fullstop {__version__}\n"


@pytest.mark.parametrize(
    "stop", [" ", "---", "--", "--json", "-", "a,b", r"\n", "\n", "=x", "--stop", "é́", ""]
)
def test_cli_stop_is_literal(stop: str, asked: list[AskOptions]) -> None:
    code = main(["ask", "hi", "--stop", stop])
    if stop:
        assert asked[0].answer.stops == (stop,)
        assert not asked[0].is_json
    else:
        assert (code, asked) == (2, [])


def test_cli_answer_options(asked: list[AskOptions]) -> None:
    words = [
        "--max-tokens",
        "7",
        "--temperature",
        "0.5",
        "--seed",
        "3",
        "--system",
        "Brief",
        "--thinking",
    ]
    main(["ask", "hi", *words])
    request = asked[0].answer.request(())
    assert request.max_tokens == 7
    assert (request.sampling.temperature, request.sampling.seed) == (0.5, 3)
    assert request.thinking is True
    assert [(m.role, m.content) for m in request.messages] == [("system", "Brief")]


def test_options_before_the_command_apply_to_it(asked: list[AskOptions]) -> None:
    main(["--stop", "x", "--model", "demo-model", "--draft-model=d", "ask", "hi", "--stop", "y"])
    assert asked[0].answer.stops == ("x", "y")
    assert (asked[0].model, asked[0].draft) == (paths.demo_model(), Path("d"))


def test_options_before_serve_apply_to_it(served: list[ServeOptions]) -> None:
    main(["--model", "X", "--draft-model", "D", "serve", "--model", "Y"])
    assert (served[0].model, served[0].draft_model) == (("X", "Y"), Path("D"))


def test_cli_prompt_after_two_dashes(asked: list[AskOptions]) -> None:
    main(["ask", "--", "--stop"])
    assert asked[0].prompt == "--stop"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["ask"], "PROMPT"),
        (["ask", "hi", "--stop", ""], "--stop[0]"),
        (["ask", "hi", "--stop", "a", "--stop", "\udc80"], "--stop[1]"),
        (["ask", "hi", "--stop", r"\q", "--escapes"], "--stop"),
        (["ask", "hi", "--temperature", "nan"], "--temperature"),
        (["ask", "hi", "--system", "\udc80"], "--system"),
        (["ask", "hi", "--frobnicate"], "--frobnicate"),
        (["--temperature", "0.5", "models"], "models has no option --temperature"),
        (["--temperature", "0.5", "models", "list"], "models list has no option --temperature"),
        (["--model", "x", "run", "demo-model", "hi"], "run has no option --model"),
        (["serve", "--host", "0.0.0.0"], "--api-key"),
        (["replay", "run.json", "--stop", "x", "--no-stop"], "use either --stop or --no-stop"),
    ],
)
def test_cli_usage_errors(
    words: list[str],
    named: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FULLSTOP_API_KEY", raising=False)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert named in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["aks", "hi"], "there is no command “aks”. Did you mean ask?"),
        (["models", "serch"], "models has no command “serch”. Did you mean search?"),
        (["ask", "hi", "--max-token=3"], "has no option --max-token. Did you mean --max-tokens?"),
        (["launch", "cluade"], "Did you mean claude?"),
        (["models", "remove", "demo-modle"], "Did you mean demo-model?"),
        (["show", "demo"], "fullstop models lists them"),
        (["What is a stop?"], "To ask a question: fullstop ask PROMPT."),
        (["ask", "hi", "there"], "“there” is too much"),
    ],
)
def test_cli_typo_suggestions(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) in (1, 2)
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ls", "list"), ("show", "show"), ("pull", "download"), ("rm", "remove")],
)
def test_cli_aliases_of_models(name: str, meant: str) -> None:
    alias = next(one for one in COMMANDS if one.name == name)
    models = next(one for one in COMMANDS if one.name == "models")
    action = next(one for one in models.actions if one.name == meant)
    assert (alias.work, alias.arguments) == (action.work, action.arguments)
    assert alias.alias_of == f"models {meant}"


def test_cli_run_with_prompt(asked: list[AskOptions]) -> None:
    main(["run", "demo-model", "Count", "to 3", "--stop", "2", "--max-tokens", "9"])
    assert asked[0].prompt == "Count to 3"
    assert asked[0].model == paths.demo_model()
    assert asked[0].answer.stops == ("2",)
    assert asked[0].answer.conversation.max_tokens == 9


def test_cli_run_without_prompt_chats(monkeypatch: pytest.MonkeyPatch) -> None:
    chats: list[tuple[ModelOptions, tuple[str, ...]]] = []
    monkeypatch.setattr("app.terminal.chat.chat", lambda *given: chats.append(given) or 0)
    parent, terminal = os.openpty()
    with os.fdopen(terminal, encoding="utf-8") as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        main(["run", "demo-model", "--file", "a.txt", "--stop", "x"])
    os.close(parent)
    [(options, files)] = chats
    assert options.model == paths.demo_model()
    assert (options.answer.stops, files) == (("x",), ("a.txt",))


def test_window_without_model_leaves_the_choice_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[ChatOptions] = []
    monkeypatch.setattr(window, "run", lambda given: opened.append(given) or 0)
    main([])
    main(["--model", "demo-model"])
    assert [options.model for options in opened] == [None, paths.demo_model()]


@pytest.mark.parametrize(
    ("limits", "typed", "refusal"),
    [
        (Declaration(minimum=1), "0", "0 is not at least 1"),
        (Declaration(maximum=2), "3", "3 is not at most 2"),
        (Declaration(minimum=0, exclusive_minimum=True), "0", "0 is not greater than 0"),
        (Declaration(minimum=0, maximum=2), "nan", "nan is not between 0 and 2"),
    ],
)
def test_number_is_checked_against_each_limit(
    limits: Declaration, typed: str, refusal: str
) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"^{refusal}$"):
        number_parser(float, limits)(typed)


def test_cli_api_key_from_environment(
    served: list[ServeOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FULLSTOP_API_KEY", "from-environment")
    main(["serve"])
    main(["serve", "--api-key", "given"])
    assert [options.api_key for options in served] == ["from-environment", "given"]


def test_cli_saved_run_argument_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options: list[ChatOptions] = []
    monkeypatch.setattr(window, "run", lambda given: options.append(given) or 0)
    file = tmp_path / "file.run"
    file.write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["file.run"]) == main(["--open", str(file)]) == 0
    assert [given.opened for given in options] == [file, file]
    assert main(["gone.fullstop-run"]) == 0
    assert options[-1].opened == tmp_path / "gone.fullstop-run", "the window says what is wrong"
    assert main(["gone.run"]) == exits.USAGE
    assert main([]) == 0
    assert options[-1].opened is None


def test_cli_interrupt_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: AskOptions) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(ask, "run", interrupted)
    assert main(["ask", "hi"]) == 130
