"""The answers to a request in the audit log: a record where each begins, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from hammingmark.errors import AuditError
from hammingmark.keys.key import WatermarkKey
from hammingmark.serialization import cost_to_dict
from hammingmark.server.audit import AuditLog, AuditTimeout, wait_until_written
from hammingmark.server.marking.marks import COUNTS, Mark


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, for the audit log and the engine.

    Attributes:
        request_id: of the request.
        endpoint: that was called.
        model: what the service calls its model.
        api_key: name of the API key.
        client: by what clients are told apart, who take turns.
    """

    request_id: str
    endpoint: str
    model: str
    api_key: str | None
    client: str


class Recorder:
    """Records the answers to one request; without an audit log it does nothing.

    Args:
        audit: the audit log, if there is one.
        asker: who asks.
    """

    def __init__(self, audit: AuditLog | None, asker: Asker) -> None:
        self._audit = audit
        self._asker = asker
        self._open: set[int] = set()  # answers that have a beginning and no end

    async def begin(self, index: int, key: WatermarkKey | None) -> None:
        """Record an answer before anything of it is sent.

        Raises:
            AuditError: it cannot be recorded.
        """
        if self._audit is None:
            return
        begun = self._audit.begin(
            self._asker.request_id,
            choice=index,
            endpoint=self._asker.endpoint,
            model=self._asker.model,
            api_key=self._asker.api_key,
            key_id=key.id if key else None,
            label=key.label if key else None,
        )
        self._open.add(index)  # also if whoever asks leaves while it is being written
        try:
            await wait_until_written(begun)
        except AuditTimeout:
            raise  # it may yet come to the disk, and then it needs an end
        except AuditError:
            self._open.discard(index)
            raise

    async def end(
        self, index: int, mark: Mark, text: str, *, error: str | None = None, sent: bool = True
    ) -> None:
        """Record how an answer ended, before anybody is told.

        Args:
            index: which answer.
            mark: how far it is marked.
            text: what was sent, or is about to be.
            error: why it is not whole.
            sent: whether it has left, as one that is streamed has.

        Raises:
            AuditError: it cannot be recorded.
        """
        ended = self._end(index, mark, text, _counts(mark), error, sent=sent)
        if ended is not None:
            await wait_until_written(ended)

    def cut_short(self, index: int, mark: Mark, text: str) -> None:
        """Record an answer that nobody waits for, as far as it had come, without waiting."""
        self._end(index, mark, text, {}, "cut short")

    def _end(
        self,
        index: int,
        mark: Mark,
        text: str,
        counts: Mapping[str, float | None],
        error: str | None,
        *,
        sent: bool = True,
    ) -> Future[None] | None:
        if self._audit is None or index not in self._open:
            return None
        self._open.remove(index)
        return self._audit.end(
            self._asker.request_id,
            choice=index,
            model=self._asker.model,
            api_key=self._asker.api_key,
            key_id=mark.key_id,
            label=mark.label,
            status=mark.status,
            reason=mark.cause,
            text=text,
            counts=counts,
            error=error,
            sent=sent,
        )


def _counts(mark: Mark) -> Mapping[str, float | None]:
    cost = cost_to_dict(mark.cost)
    return {
        "sentences": mark.sentences,
        "accepted": mark.accepted,
        **{name: cost[name] for name in COUNTS},
        "p_value": mark.p_value,
    }
