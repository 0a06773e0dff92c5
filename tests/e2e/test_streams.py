"""Standard streams that are closed, full or not UTF-8."""

import subprocess

import pytest

from tests.e2e.conftest import PROGRAM, without_display


def shell(command: tuple[str, ...], redirections: str, **variables: str) -> tuple[int, str]:
    """Run a command; return its exit code and what it wrote to standard error, if that is open."""
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *PROGRAM, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=without_display() | variables,
        text=True,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("command", [("models",), ("completion", "zsh"), ("ask", "Hi")])
def test_full_standard_output_is_one_line_and_a_failure(command: tuple[str, ...]) -> None:
    code, error = shell(command, ">/dev/full")
    *_, last = error.splitlines()
    assert (code, last) == (1, "fullstop: the disk is full")
    assert "Traceback" not in error


def test_closed_standard_error_does_not_prevent_an_answer() -> None:
    assert shell(("ask", "Hi"), "2>&-")[0] == 0


def test_characters_missing_from_the_encoding_are_escaped() -> None:
    code, error = shell(("ask", "Hi"), "", PYTHONIOENCODING="ascii")
    assert code == 0
    assert r"\xb7" in error
