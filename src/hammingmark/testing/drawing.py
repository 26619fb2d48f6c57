"""Candidates of a backend, drawn to the end."""

from __future__ import annotations

from dataclasses import replace

from hammingmark.protocols import Backend
from hammingmark.records import Candidate, Request, Sampling


def draw(
    backend: Backend, *requests: Request, sampling: Sampling | None = None
) -> dict[int, Candidate]:
    """All the candidates, by their numbers; fails if one comes twice.

    Args:
        backend: draws them, in a session of their own.
        requests: asked for at once.
        sampling: instead of the requests' own.
    """
    session = backend.open()
    try:
        for request in requests:
            session.submit(replace(request, sampling=sampling) if sampling else request)
        found: dict[int, Candidate] = {}
        while len(found) < len(requests):
            for candidate in session.wait():
                assert candidate.number not in found, f"{candidate.number} came back twice"
                found[candidate.number] = candidate
        return found
    finally:
        session.close()
