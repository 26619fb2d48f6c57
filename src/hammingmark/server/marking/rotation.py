"""The labels of derived keys: under which one answers are marked now, and which are searched."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone

from hammingmark.keys.key import WatermarkKey
from hammingmark.keys.periods import Period
from hammingmark.server.settings import MAX_DERIVED_KEYS, RotationConfig

_REQUEST_BYTES = 8  # of the random label of a request


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(timezone.utc)


class Rotation:
    """The labels by which keys are derived from the key that marks.

    The label of a period depends on its date alone, so that processes that share nothing but their
    keys mark under the same labels, and search them.

    Args:
        config: the settings.
        names: the labels that requests may name.
        used: gives the labels under which a key of this id is known to have marked, in the order
            of their first use.
        now: gives the current time, with its zone.
    """

    def __init__(
        self,
        config: RotationConfig,
        *,
        names: Sequence[str] = (),
        used: Callable[[str], Iterable[str]] = lambda key_id: (),
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._config = config
        self._names = tuple(dict.fromkeys(names))
        self._used = used
        self._now = now

    def label(self, name: str | None) -> str | None:
        """The label under which an answer is marked that begins now; None for the key itself.

        Args:
            name: the label that the request names.
        """
        if self._config.every == "request":
            return _joined(name, secrets.token_hex(_REQUEST_BYTES))
        period = self.period_label()
        return name if period is None else _joined(name, period)

    def period_label(self) -> str | None:
        """The label of the present period; None if keys do not change with the date."""
        period = self._period()
        return period.label if period else None

    def labels(self, key: WatermarkKey) -> list[str]:
        """The labels under which texts of a key are searched: of names, and of dates up to today.

        Those that are known to be used are among them as long as their date is recent: labels with
        numbers, of periods of another kind, and of a clock that was ahead.

        Args:
            key: a key that marks, or did before it was rotated.
        """
        periods = [period.label for period in self._periods(key)]
        dated = [_joined(name, period) for period in periods for name in (None, *self._names)]
        used = [label for label in self._used(key.id) if self._is_recent(label)]
        distinct = dict.fromkeys([*self._names, *dated, *reversed(used)])
        return list(distinct)[:MAX_DERIVED_KEYS]

    def label_in_use(self, key: WatermarkKey) -> str | None:
        """The label under which a key marks, as far as is known; None for the key itself."""
        label = self.period_label()
        numbered = [used for used in self._used(key.id) if _without_number(used) == label]
        return numbered[-1] if numbered else label

    def _period(self) -> Period | None:
        kind = self._config.period
        return Period.at(kind, self._now()) if kind else None

    def _is_recent(self, label: str) -> bool:
        """Whether the date of a label is within the horizon of periods of its kind."""
        period = Period.of_label(_without_number(label).rpartition("/")[2])
        if period is None:
            return False
        today = Period.at(period.kind, self._now())
        return period.number > today.number - self._config.searched(period.kind)

    def _periods(self, key: WatermarkKey) -> list[Period]:
        """The periods in which a key may have marked, the latest first."""
        today = self._period()
        if today is None:
            return []
        kind = today.kind
        created = Period.at(kind, key.created)
        retired = Period.at(kind, key.retired) if key.retired else today
        # Where another clock was ahead of this one, today is before the key was created.
        first = max(min(created, today).number, today.number - self._config.searched(kind) + 1)
        last = min(today, retired).number
        return [Period(kind, number) for number in range(last, first - 1, -1)]


def _joined(name: str | None, label: str) -> str:
    return label if name is None else f"{name}/{label}"


def _without_number(label: str) -> str:
    """A label without its number, such as ``2026-11-19`` of ``2026-11-19.2``."""
    return re.sub(r"\.[0-9]+$", "", label)
