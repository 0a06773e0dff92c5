"""Settings of ``serve``: command line before environment before file, and mistakes well told."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from api.transport.config import ServerConfig
from app.cli import main
from app.command_line.serve_arguments import LIMITS
from app.process.exits import CommandError
from app.settings.options import ServeLimits, ServeOptions
from app.settings.serve_settings import ServeSettings, resolve
from engine.scheduling.scheduler import Limits


@pytest.fixture(autouse=True)
def _no_settings_of_this_computer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(tmp_path / "config"))


def resolved(
    words: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    file: Path | None = None,
) -> ServeOptions:
    given = {**(words or {}), **({"settings": file} if file is not None else {})}
    return resolve(given, environment or {})


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "mine.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_the_command_line_counts_before_the_environment_before_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 1\nmax_rows = 1\nstrict = true\nkeepalive_s = 1")
    options = resolved({"port": 3}, {"FULLSTOP_PORT": "2", "FULLSTOP_MAX_ROWS": "2"}, file)

    assert (options.port, options.limits.max_rows, options.is_strict) == (3, 2, True)
    assert options.limits.keepalive_s == 1
    assert options.limits.max_waiting is None


def test_everything_can_be_said_in_every_place(tmp_path: Path) -> None:
    example: dict[str, Any] = {
        "host": "127.0.0.2",
        "port": 5,
        "model": "/m",
        "api_key": "secret",
        "allow_origin": ["https://a.org", "https://b.org"],
        "allow_host": ["here.local"],
        "tls_cert": "/c",
        "tls_key": "/k",
        "strict": True,
        "verbose": True,
        **{limit.option[2:].replace("-", "_"): 7 for limit in LIMITS},
    }
    assert example.keys() == ServeSettings.model_fields.keys()
    lines = [f"{key} = {str(value).replace('True', 'true')}" for key, value in example.items()]
    from_file = resolved(
        file=written(
            tmp_path,
            "\n".join(lines)
            .replace("= /m", "= '/m'")
            .replace("= /c", "= '/c'")
            .replace("= /k", "= '/k'")
            .replace("= 127.0.0.2", "= '127.0.0.2'")
            .replace("= secret", "= 'secret'"),
        )
    )
    from_environment = resolved(
        environment={
            f"FULLSTOP_{key.upper()}": ",".join(value) if isinstance(value, list) else str(value)
            for key, value in example.items()
        }
    )

    assert from_file == from_environment == resolved(example)
    assert from_file.allowed_hosts == ("here.local",)
    assert (from_file.tls_cert, from_file.tls_key) == (Path("/c"), Path("/k"))
    assert all(getattr(from_file.limits, one.name) == 7 for one in fields(ServeLimits))


def test_the_usual_file_is_read_if_it_is_there(tmp_path: Path) -> None:
    assert resolved().port == 8642
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "serve.toml").write_text("port = 9")

    assert resolved().port == 9
    assert resolved(environment={"FULLSTOP_SETTINGS": str(written(tmp_path, ""))}).port == 8642


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot = 1", ["prot", "did you mean port?"]),
        ("zzz = 1", ["zzz", "known are host, port"]),
        ("port = 99999", ["port: ", "65535", "write it like port = 8642"]),
        ('port = "8642"', ["port: ", "valid integer", "port = 8642"]),
        ("strict = 1", ["strict: ", "strict = true"]),
        ('allow_origin = "https://a.org"', ["allow_origin: ", '["https://example.org"]']),
        ("keepalive_s = inf", ["keepalive_s: "]),
        ("keepalive_s = -1", ["keepalive_s: ", "greater than 0"]),
        ("max_rows = 0", ["max_rows: "]),
        ("port = x\n", ["not valid TOML", "line 1", "port = 8642"]),
        (b"\xff\xfe", ["not UTF-8"]),
    ],
)
def test_a_mistake_in_the_file_is_told_with_file_key_and_remedy(
    tmp_path: Path, text: str | bytes, named: list[str]
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(CommandError) as told:
        resolved(file=file)

    assert told.value.exit_code == 2
    assert str(told.value).startswith(str(file))
    assert all(part in str(told.value) for part in named)


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nowhere\.toml does not exist"):
        resolved(file=tmp_path / "nowhere.toml")


def test_a_mistake_in_the_environment_names_the_variable() -> None:
    with pytest.raises(CommandError, match=r"^FULLSTOP_MAX_ROWS \(environment\): .*integer"):
        resolved(environment={"FULLSTOP_MAX_ROWS": "many"})


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert resolved(environment={"FULLSTOP_PORT": "", "FULLSTOP_API_KEY": ""}).port == 8642


def test_no_mistake_quotes_the_key(tmp_path: Path) -> None:
    file = written(tmp_path, 'api_key = ["very-secret"]')
    with pytest.raises(CommandError) as told:
        resolved(file=file)

    assert "very-secret" not in str(told.value)


def test_a_mistake_on_the_command_line_names_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--max-rows", "0"]) == 2
    assert "--max-rows: " in capsys.readouterr().err


def test_the_defaults_that_help_tells_are_the_true_ones() -> None:
    for limit in LIMITS:
        name = limit.option[2:].replace("-", "_")
        true = getattr(ServerConfig(), name, None) or getattr(Limits(), name, None)
        assert limit.default == true, name
