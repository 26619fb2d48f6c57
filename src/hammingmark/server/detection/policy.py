"""What clients may ask the detector, how often, and what they are told."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hammingmark.server.admission import RateLimiter
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.config import ServerConfig
from hammingmark.server.detection.disclosure import Detail, coarse_p_value, level_of
from hammingmark.server.detection.near_copies import NearCopies

_TEXTS_PER_MINUTE = 60.0
_TEXTS_PER_DAY = 1000.0
_DAY = 24 * 3600.0  # seconds
_NEAR_COPIES = 5
_STRICTER = 100.0  # the level over that of strangers


class DetectionPolicy:
    """The policy of detection: by default strict, unless only this machine reaches the service.

    The operator, who has an API key with the scope ``admin`` or is alone on this machine, is told
    everything and asks as often as he likes, unless the settings say otherwise.

    Args:
        config: the settings of the service.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self, config: ServerConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        is_public = not config.is_private
        self._detail: Detail = config.policy.detection or ("verdict" if is_public else "scores")
        self._level = config.level
        default = config.level / _STRICTER if is_public else config.level
        self._strangers_level = config.policy.detection_level or default
        limits = config.limits
        rate = limits.texts_per_minute or (_TEXTS_PER_MINUTE if is_public else None)
        self._rate = RateLimiter(rate, clock=clock)
        self._most = math.inf if rate is None else max(1, math.floor(rate))
        per_day = limits.texts_per_day or (_TEXTS_PER_DAY if is_public else None)
        self._daily_rate = RateLimiter(per_day, period=_DAY, clock=clock)
        self._most = min(self._most, math.inf if per_day is None else max(1, math.floor(per_day)))
        allowed = limits.near_copies or (_NEAR_COPIES if is_public else None)
        self._near_copies = None if allowed is None else NearCopies(allowed, clock=clock)

    def detail(self, client: Client) -> Detail:
        """What a client is told."""
        return "scores" if client.is_operator else self._detail

    def top(self, client: Client) -> float:
        """The largest p-value that a client is told where only the verdict is told."""
        return self._level if client.is_operator else self._strangers_level

    def level(self, client: Client, requested: float | None) -> float:
        """The level at which a client's texts are judged, at most the one requested.

        Where only the ladder is told, the level is of the ladder too; otherwise a client could read
        the p-value from the verdicts at many levels.
        """
        top = self.top(client)
        if requested is None:
            return top
        if self.detail(client) != "verdict":
            return requested
        return level_of(min(requested, top), top=top)

    def disclosed_p_value(self, client: Client, p_value: float | None) -> float | None:
        """What a client is told of the p-value of an answer that the service wrote for it.

        A model that writes what it is told to would otherwise be a detector without limits.
        """
        if p_value is None or self.detail(client) != "verdict":
            return p_value
        return coarse_p_value(p_value, self._level, self._level)

    def check_rate(self, client: Client, texts: Sequence[str]) -> None:
        """Count the texts of a request.

        Raises:
            APIError: there are too many.
        """
        if client.is_operator:
            return
        if len(texts) > self._most:
            raise APIError(
                413,
                f"A client may send {self._most:g} texts at once; send fewer.",
                param="texts",
            )
        wait = self._rate.take(client.name, count=len(texts))
        wait = wait or self._daily_rate.take(client.name, count=len(texts))
        if wait > 0:
            raise APIError(
                429,
                "Too many texts; send fewer per minute and day.",
                kind="rate_limit_error",
                retry_after=wait,
            )

    def check_copies(
        self, client: Client, texts: Sequence[str], options: Mapping[str, Any]
    ) -> None:
        """Remember the texts of a request; it takes some time for long ones.

        Args:
            client: the client.
            texts: the texts.
            options: everything else on which the answers depend.

        Raises:
            APIError: one of them is one near-copy too many.
        """
        if client.is_operator or self._near_copies is None:
            return
        form = json.dumps(options, sort_keys=True)
        for number, text in enumerate(texts, start=1):
            wait = self._near_copies.take(client.name, text, form)
            if wait > 0:
                raise APIError(
                    429,
                    f"Text {number} is nearly the same as texts that you have sent several times; "
                    "the number of near-copies is limited.",
                    kind="rate_limit_error",
                    code="near_copy",
                    param="texts",
                    retry_after=wait,
                )
