"""The audit records of one request: one where each answer begins, and one where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from hammingmark.errors import AuditError
from hammingmark.keys.key import WatermarkKey
from hammingmark.serialization import cost_to_dict
from hammingmark.server.audit import AuditLog, AuditTimeout, wait_until_written
from hammingmark.server.clients import Client
from hammingmark.server.marking.marks import COUNTS, Mark


class Recorder:
    """Records the answers to one request; without an audit log it does nothing.

    Args:
        audit: the audit log, if there is one.
        client: the client.
        endpoint: the path of the request.
        model: the name of the model in the records.
    """

    def __init__(
        self, audit: AuditLog | None, client: Client, *, endpoint: str, model: str
    ) -> None:
        self._audit = audit
        self._client = client
        self._endpoint = endpoint
        self._model = model
        self._open: set[int] = set()  # answers that have begun and not ended

    async def pass_through(self, cause: str) -> None:
        """Record a pass-through request before it is sent to the upstream.

        Args:
            cause: why its answers are not marked, as a metric label.

        Raises:
            AuditError: it cannot be recorded.
        """
        if self._audit is None:
            return
        record = {
            "event": "passed",
            "request_id": self._client.request_id,
            "endpoint": self._endpoint,
            "model": self._model,
            "api_key": self._client.api_key_name,
            "status": "unmarked",
            "reason": cause,
        }
        await wait_until_written(self._audit.append(record))

    async def begin(self, index: int, key: WatermarkKey | None) -> None:
        """Record the beginning of an answer before any of it is sent.

        Raises:
            AuditError: it cannot be recorded.
        """
        if self._audit is None:
            return
        record = self._audit.begin(
            self._client.request_id,
            choice=index,
            endpoint=self._endpoint,
            model=self._model,
            api_key=self._client.api_key_name,
            key_id=key.id if key else None,
            label=key.label if key else None,
        )
        self._open.add(index)  # even if the client disconnects during the write
        try:
            await wait_until_written(record)
        except AuditTimeout:
            raise  # it may still be written later, and then needs an end
        except AuditError:
            self._open.discard(index)
            raise

    async def end(
        self, index: int, mark: Mark, text: str, *, error: str | None = None, sent: bool = True
    ) -> None:
        """Record how an answer ended, before the client learns of it.

        Args:
            index: number of the answer.
            mark: its watermark status.
            text: the text that was sent or is about to be sent.
            error: why it is incomplete.
            sent: whether the text has been sent already, as in a stream.

        Raises:
            AuditError: it cannot be recorded.
        """
        record = self._end(index, mark, text, _counts(mark), error, sent=sent)
        if record is not None:
            await wait_until_written(record)

    def interrupt(self, index: int, mark: Mark, text: str) -> None:
        """Record an interrupted answer, without waiting for the disk.

        Args:
            index: number of the answer.
            mark: its watermark status.
            text: the text that was sent.
        """
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
            self._client.request_id,
            choice=index,
            model=self._model,
            api_key=self._client.api_key_name,
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
