"""Settings of ``serve``: command line before environment before file, and clear errors."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.exits import CommandError
from app.settings.serve import ServeOptions
from app.settings.serve_resolution import _example, resolve_serve_options
from engine.values.limits import Limits
from ui.preferences import declared

LIMITS = [
    one.name
    for one in declared(ServeOptions)
    # Switches have no value, and folders are not numbers.
    if one.section == "limits"
    and one.metavar not in ("", "FOLDER")
    and one.name != "prompt_cache_bits"  # 8 or none
]


@pytest.fixture(autouse=True)
def _no_settings_of_this_computer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(tmp_path / "config"))


def resolved(
    words: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    file: Path | None = None,
) -> ServeOptions:
    given = {**(words or {}), **({"settings": file} if file is not None else {})}
    return resolve_serve_options(given, environment or {})


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "mine.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_serve_settings_precedence(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 1\nmax_rows = 1\nstrict = true\nkeepalive_s = 1")
    options = resolved({"port": 3}, {"FULLSTOP_PORT": "2", "FULLSTOP_MAX_ROWS": "2"}, file)

    assert (options.port, options.max_rows, options.strict) == (3, 2, True)
    assert options.keepalive_s == 1
    assert options.max_waiting == Limits().max_waiting


def test_serve_settings_in_every_source(tmp_path: Path) -> None:
    example: dict[str, Any] = {
        "host": "127.0.0.2",
        "port": 5,
        "model": ["/m", "/n"],
        "models_folder": ["/f"],
        "one_model": True,
        "alias": ["haiku=m"],
        "pin": ["n"],
        "lora_modules": ["poems=/p"],
        "draft_model": "/d",
        "chat_template": "/t",
        "api_key": "secret",
        "allow_origin": ["https://a.org", "https://b.org"],
        "allow_host": ["here.local"],
        "tls_cert": "/c",
        "tls_key": "/k",
        "strict": True,
        "images": "note",
        "ignore_template_eos": True,
        "repetition_detection": "on",
        "verbose": True,
        "log": "json",
        "plain_decoding": True,
        "kept_responses_folder": "/r",
        "prompt_cache_bits": 8,
        **dict.fromkeys(LIMITS, 7),
    }
    # A key is given or its file, never both: see the tests of the file.
    assert example.keys() | {"api_key_file"} == {one.name for one in fields(ServeOptions)}
    # Texts, numbers, lists and truth are written in TOML as in JSON.
    lines = [f"{key} = {json.dumps(value)}" for key, value in example.items()]
    from_file = resolved(file=written(tmp_path, "\n".join(lines)))
    from_environment = resolved(
        environment={
            f"FULLSTOP_{key.upper()}": ",".join(value) if isinstance(value, list) else str(value)
            for key, value in example.items()
        }
    )

    assert from_file == from_environment == resolved(example)
    assert from_file.allow_host == ("here.local",)
    assert (from_file.tls_cert, from_file.tls_key) == (Path("/c"), Path("/k"))
    assert all(getattr(from_file, name) == 7 for name in LIMITS)


def test_serve_settings_default_file(tmp_path: Path) -> None:
    assert resolved().port == 8642
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "serve.toml").write_text("port = 9")

    assert resolved().port == 9
    assert resolved(environment={"FULLSTOP_SETTINGS": str(written(tmp_path, ""))}).port == 8642


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot = 1", ["prot", "Did you mean port?"]),
        ("port = 99999", ["port: ", "65535", "write it like port = 8642"]),
        ('allow_origin = "https://a.org"', ["allow_origin: ", '["https://example.org"]']),
        ("port = x\n", ["not valid TOML", "line 1", "port = 8642"]),
        (b"\xff\xfe", ["not UTF-8"]),
    ],
)
def test_serve_settings_file_errors(tmp_path: Path, text: str | bytes, named: list[str]) -> None:
    file = written(tmp_path, text)
    with pytest.raises(CommandError) as told:
        resolved(file=file)

    assert told.value.exit_code == 2
    assert str(told.value).startswith(str(file))
    assert all(part in str(told.value) for part in named)


def test_serve_settings_environment_error() -> None:
    with pytest.raises(CommandError, match=r"^FULLSTOP_MAX_ROWS \(environment\): .*integer"):
        resolved(environment={"FULLSTOP_MAX_ROWS": "many"})


def test_serve_settings_list_longer_than_a_file_name() -> None:
    names = tuple(f"model-{number}" for number in range(60))
    environment = {"FULLSTOP_ALLOW_HOST": ",".join(names), "FULLSTOP_MODEL": "~no-user"}
    options = resolve_serve_options({}, environment)
    assert (options.allow_host, options.model) == (names, ("~no-user",))


def test_serve_settings_errors_hide_api_key(tmp_path: Path) -> None:
    file = written(tmp_path, 'api_key = ["very-secret"]')
    with pytest.raises(CommandError) as told:
        resolved(file=file)

    assert "very-secret" not in str(told.value)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--port", "70000"], "70000 is not between 0 and 65535"),
        (["--port", "x"], "'x' is not a whole number"),
        (["--keepalive-s", "nan"], "nan is not greater than 0 and at most 86400"),
    ],
)
def test_serve_settings_bounds(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *words]) == 2
    assert f"{words[0]}: {reason}" in capsys.readouterr().err


def test_serve_settings_examples_are_valid(tmp_path: Path) -> None:
    # The key is in the file of settings or in a file of its own, never in both.
    names = [one.name for one in declared(ServeOptions) if one.name != "api_key_file"]
    assert resolved(file=written(tmp_path, "\n".join(map(_example, names)))).strict


def test_serve_settings_api_key_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("\ufeff  very-secret \t\r\nnot the key\n", encoding="utf-8")
    settings = written(tmp_path, f"api_key_file = '{file}'")

    assert resolved({"api_key_file": file}).api_key == "very-secret"
    assert resolved(environment={"FULLSTOP_API_KEY_FILE": str(file)}).api_key == "very-secret"
    assert resolved(file=settings).api_key == "very-secret"
    # As everywhere, the command line takes precedence over the environment, and that over the file.
    assert resolved({"api_key_file": file}, {"FULLSTOP_API_KEY": "other"}).api_key == "very-secret"
    assert resolved(environment={"FULLSTOP_API_KEY": "other"}, file=settings).api_key == "other"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: there is no such file or folder"),
        (b" \n very-secret", "has no key on its first line"),
        (b"very-secret\xff", "is not UTF-8 text"),
        (b"very-secret" * 10_000, "is too large for a key"),
    ],
)
def test_serve_settings_invalid_api_key_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, reason: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    assert main(["serve", "--api-key-file", str(file)]) == 2
    complaint = capsys.readouterr().err
    assert f"--api-key-file: {file} " in complaint
    assert reason in complaint
    assert "very-secret" not in complaint
