"""Any file is read without a failure, and quickly."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.sources import NotReadable, captures_of
from tests.api.conformance.captures.saved import stream
from tests.support.random_cases import cases

PIECES = [
    b"data: ", b"event: message_start\n", b"{", b"}", b"[", b"]", b'"log":', b'"entries":', b"\n",
    b"\r\n", b"HTTP/1.1 200 OK\n", b"HTTP/1.1 500 X\r\n\r\n", b"curl x -d '{}'\n", b"```\n", b"> ",
    b"    ", b"14:00:00 ", b"< HTTP/1.1 200\n",
    b"POST / HTTP/1.1\n\n", b"\xff\xfe", b"\x1f\x8b", b"\xe2\x82", b"\x00", stream().encode(),
]  # fmt: skip


@settings(max_examples=cases(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=8).map(b"".join))
def test_any_content_is_read_without_a_failure(content: bytes) -> None:
    for form in (content, content.decode("utf-8", "replace")):
        try:
            found = list(captures_of(form))
        except NotReadable:
            continue
        assert found
        assert all(isinstance(diagnose(one, ["stop"]), list) for one in found)
