"""The prompt of ``fullstop ask``: from the command line, standard input, files, or all of them."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import main
from app.commands import ask
from app.commands.ask import whole_prompt
from app.commands.replay import read_run
from app.exits import CommandError
from app.paths import demo_model
from app.settings.options import AskOptions
from engine.output.answer import DecodingSetting
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import to_json
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.request import PICTURE_MARK, GenerationRequest, Message, Picture
from tests.support.models.adapters import random_adapter
from tests.support.outside.documents import pdf, word
from tests.support.outside.manual import manual_pages

Piped = Callable[[bytes], None]


@pytest.mark.parametrize(
    ("given", "content", "prompt"),
    [
        ("Summarise", b"a long text\n", "a long text\n\nSummarise"),
        ("Summarise", b"", "Summarise"),
        ("Summarise", b"\n \n", "Summarise"),
        ("-", b"a long text\n", "a long text"),
    ],
)
def test_ask_piped_text_comes_before_prompt(
    piped: Piped, given: str, content: bytes, prompt: str
) -> None:
    piped(content)
    assert whole_prompt(given) == prompt


def test_ask_reads_stdin_file_and_no_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "report.txt"
    file.write_text("a report")
    with file.open(encoding="utf-8") as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert whole_prompt("Summarise") == "a report\n\nSummarise"
    parent, terminal = os.openpty()
    with os.fdopen(terminal, encoding="utf-8") as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert whole_prompt("Summarise") == "Summarise"
    os.close(parent)


@pytest.mark.parametrize(
    ("content", "encoding"), [("café".encode("latin-1"), "UTF-8"), (b"\xff\xfea", "UTF-16")]
)
def test_ask_refuses_binary_stdin(piped: Piped, content: bytes, encoding: str) -> None:
    piped(content)
    with pytest.raises(CommandError, match=f"standard input is not {encoding} .*iconv"):
        whole_prompt("Summarise")


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    sent: list[str] = []

    async def answered(_options: AskOptions, request: GenerationRequest, *_: object) -> int:
        turn = request.messages[-1]
        sent.extend(picture.data.decode("latin-1") for picture in turn.pictures)
        sent.append(turn.content)
        return 0

    monkeypatch.setattr(ask, "_ask", answered)
    monkeypatch.setattr(sys, "stdin", None)
    return sent


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (b"BM1234\0\0\0\0", "a.bmp", "is an image of an unknown kind"),
        (b"", "a.txt", "is empty"),
        (b"%PDF-1.4 nonsense", "a.pdf", "is damaged"),
    ],
)
def test_ask_unreadable_file_is_named(
    prompts: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    name: str,
    reason: str,
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["ask", "Why?", "--file", str(tmp_path / name)]) == 1
    message = capsys.readouterr().err
    assert name in message
    assert reason in message
    assert prompts == []


def test_ask_sends_pictures_before_the_prompt(prompts: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n1")
    assert main(["ask", "Why?", "--file", str(tmp_path / "a.png")]) == 0
    assert prompts == ["\x89PNG\r\n\x1a\n1", f"{PICTURE_MARK}Why?"]


def test_ask_answers_about_a_picture(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlx_vlm")
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (160, 120), "white")
    ImageDraw.Draw(image).ellipse((30, 20, 110, 100), fill="red")
    image.save(tmp_path / "a.png")
    words = ("What shape is it?", "--model", "seeing-model", "--file", str(tmp_path / "a.png"))
    assert main(["ask", *words]) == 0
    assert capfd.readouterr().out.strip() == "A red circle."


def test_ask_reads_pdf_and_docx(prompts: list[str], tmp_path: Path) -> None:
    files = pdf(tmp_path / "a.pdf", ["Sales rose."]), word(tmp_path / "b.docx")
    assert main(["ask", "Why?", "--file", str(files[0]), "--file", str(files[1])]) == 0
    [sent] = prompts
    assert "a.pdf (page 1 of 1):" in sent
    assert "Sales rose." in sent
    assert "b.docx:\n```\n" in sent
    assert "Count the stops." in sent


@pytest.mark.parametrize("has_model", [False, True])
def test_ask_answers_with_an_adapter(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], demo_model_path: Path, has_model: bool
) -> None:
    stated = "some/other-model" if has_model else "demo-model"
    folder = random_adapter(demo_model_path, tmp_path / "poems", 1, stated=stated)
    words = ["ask", "Count from 1 to 9.", "--temperature", "0", "--max-tokens", "12"]
    assert main(words) == 0
    plain = capfd.readouterr().out
    words += ["--adapter", str(folder)]
    words += ["--model", str(demo_model_path)] if has_model else []
    assert main(words) == 0
    assert capfd.readouterr().out != plain


@pytest.mark.parametrize(
    ("stated", "cause"),
    [
        ("some/other-model", "Its base some/other-model is not among the models"),
        ("", "names no base"),
        (None, "has no adapter_config.json"),
        ("demo-model", "poems: It was made with PEFT"),
    ],
)
def test_ask_names_what_an_adapter_lacks(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], stated: str | None, cause: str
) -> None:
    folder = tmp_path / "poems"
    if stated is not None:
        random_adapter(demo_model(), folder, 1, stated=stated)
    if "PEFT" in cause:
        (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    assert main(["ask", "Hi", "--adapter", str(folder)]) != 0
    error = capfd.readouterr().err
    assert cause in error
    assert ("--model gives its base" in error) is ("base" in cause)


def test_saved_run_with_large_pictures_is_read_again(tmp_path: Path) -> None:
    pictures = tuple(Picture(bytes([number]) * (9 << 20)) for number in range(2))
    turn = Message("user", PICTURE_MARK * 2, pictures=pictures)
    file = tmp_path / "run.json"
    run = RunTrace(DecodingSetting(), StopRules(), request=GenerationRequest(messages=(turn,)))
    run.stop = StopInfo(StopKind.EOS)
    file.write_text(to_json(run))
    [read] = [] if (again := read_run(file)[0].request) is None else again.messages
    assert [one.data for one in read.pictures] == [one.data for one in pictures]


@pytest.mark.parametrize(
    ("is_long", "more"),
    [(True, ()), (False, ()), (True, ("--times", "2")), (False, ("--times", "2"))],
)
def test_ask_reads_passages_of_long_file_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], is_long: bool, more: tuple[str, ...]
) -> None:
    model = shutil.copytree(demo_model(), tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    config["max_position_embeddings"] = 2048
    (model / "config.json").write_text(json.dumps(config))
    file = tmp_path / "m.txt"
    file.write_text("\n\n".join(manual_pages()) if is_long else "A short text.")
    words = ("ask", "What is a list?", "--file", f"{file}", "--model", f"{model}")
    assert main([*words, "--max-tokens", "2", *more]) == 0
    printed = capfd.readouterr().err
    assert bool(re.search(r"^m\.txt: \d of 2\d\d passages$", printed, re.MULTILINE)) == is_long
