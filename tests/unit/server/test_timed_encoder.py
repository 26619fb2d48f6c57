"""An encoder that hangs is told of, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.harness import HangingEncoder, Served, error_of, mark_of

Serve = Callable[..., Served]


@pytest.mark.parametrize("policy", ["refuse", "deliver"])
def test_answers_follow_the_policy_if_it_hangs(serve: Serve, policy: str) -> None:
    encoder = HangingEncoder()
    limits: dict[str, Any] = {"encoder_timeout": 0.05}
    served = serve(encoder=encoder, policy={"on_failure": policy}, limits=limits)
    answer = served.chat()
    encoder.go_on.set()
    if policy == "refuse":
        assert answer.status_code == 503
        assert error_of(answer)["code"] == "watermark_failed"
    else:
        assert mark_of(answer)["status"] == "unmarked"
        assert mark_of(answer)["reason"].startswith("Marking failed: The encoder failed")
