"""Log records: JSON lines for programs, and lines that replace what a terminal shows."""

import json
import logging
from pathlib import Path

import pytest

from app.process.logs import log_as_json_lines, log_to_file, log_to_standard_error


def test_json_log_record_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_as_json_lines()
    log = logging.getLogger("api.server")
    log.info("line %d\nof two", 1, extra={"fields": {"status": 200, "path": "/grün"}})
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first["message"] == "line 1\nof two"
    assert (first["level"], first["logger"]) == ("info", "api.server")
    assert (first["status"], first["path"]) == (200, "/grün")
    assert first["time"].endswith("+00:00")
    assert "ValueError: broken" in second["traceback"]


def test_log_to_pipe_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_standard_error(is_verbose=True)
    logging.getLogger("api.server").info("hello")
    assert "\x1b" not in capsys.readouterr().err


def test_log_on_full_disk_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gone" / "fullstop.log"
    log_to_file(file)
    for number in range(3):
        logging.getLogger("app").warning("line %d", number)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("The log cannot be written: ")
    assert str(file) in line
