"""Small files that a person chooses: read within their bounds, refused in words."""

import asyncio
from pathlib import Path

import pytest

from ui.kit.tasks import FileRefused, read_text


def test_a_file_that_does_not_end_is_refused_in_words() -> None:
    with pytest.raises(FileRefused, match="zero could not be read: it is not a regular file"):
        asyncio.run(read_text(Path("/dev/zero"), 1_000_000))


def test_line_ends_become_line_feeds(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a\r\nb\rc\n")
    assert asyncio.run(read_text(path, 100)) == "a\nb\nc\n"
