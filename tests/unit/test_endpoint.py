"""One HTTP service: what reaches it, and what does not reach the logs."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from tests.unit.backends.openai_server import KEY, running, stall, status

from hammingmark.endpoint import Cancelled, CancelToken, Endpoint, Refused
from hammingmark.errors import BackendError, InputError


def endpoint(url: str, *, api_key: str | None = None, backoff: float = 0.01) -> Endpoint:
    return Endpoint(
        url, error=BackendError, api_key=api_key, timeout=60.0, retries=1, backoff=backoff
    )


def test_a_password_travels_in_a_header_and_a_query_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with running() as server:
        url = server.url.replace("//127", f"//user:{KEY}@127", 1) + "/?version=3"
        made = endpoint(url)
        assert made.url("/x") == f"{server.url}/x"
        assert repr(made) == f"Endpoint({server.url!r})"
        made.post("/completions", {"seed": 1, "max_tokens": 9})
        made.close()
        assert server.seen[0][0] == "/v1/completions?version=3"
        assert server.keys[0] is not None
        assert server.keys[0].startswith("Basic ")
    assert KEY not in caplog.text


def test_what_is_asked_too_much_is_refused_to_whoever_streams() -> None:
    with running() as server:
        made = endpoint(server.url, backoff=30.0)
        server.always = status(503, "full")
        with pytest.raises(Refused, match=r"answered 503: full\. See") as caught:
            made.stream(
                "/x", {}, len, token=CancelToken(), is_final=lambda reason: reason == "full"
            )
        assert (caught.value.status, caught.value.reason) == (503, "full")


@pytest.mark.parametrize("step", [stall, status(503)])
def test_another_thread_may_hang_up(step: object) -> None:
    with running() as server:
        server.always = step  # type: ignore[assignment]
        made, token = endpoint(server.url, backoff=30.0), CancelToken()

        def cancel() -> None:
            while not server.seen:
                time.sleep(0.005)
            token.cancel()

        threading.Thread(target=cancel).start()
        began = time.monotonic()
        for _ in range(2):
            with pytest.raises(Cancelled):
                made.stream("/x", {}, len, token=token)
        assert time.monotonic() - began < 20  # not the 30 seconds of the back-off
        assert len(server.seen) == 1


def test_threads_share_one_client() -> None:
    with running() as server:
        made = endpoint(server.url)
        threads = [
            threading.Thread(target=made.post, args=("/x", {"max_tokens": 9})) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made.close()
        made.close()
        assert len(server.seen) == 8


def test_a_base_url_must_be_one() -> None:
    for url in ("ftp://x", "nothing", "http://x:port"):
        with pytest.raises(InputError, match="base URL"):
            endpoint(url)
