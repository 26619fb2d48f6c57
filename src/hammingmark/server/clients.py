"""The clients of the service: authentication by API key, scopes and rates."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from hammingmark.server.admission import RateLimiter
from hammingmark.server.api_error import APIError
from hammingmark.server.authorization import ApiKey, ApiKeys


@dataclass(frozen=True, slots=True)
class Client:
    """The client of one request.

    Attributes:
        request_id: the id of the request.
        address: the address of the client.
        api_key: its API key; None if the service requires none.
    """

    request_id: str
    address: str
    api_key: ApiKey | None

    @property
    def name(self) -> str:
        """The identity of the client: its API key or, without one, its address."""
        if self.api_key is not None:
            return f"key {self.api_key.name}"
        return f"address {client_network(self.address)}"

    @property
    def is_operator(self) -> bool:
        """Whether its API key is the operator's."""
        return self.api_key is not None and self.api_key.allows("admin")

    @property
    def api_key_name(self) -> str | None:
        """The name of its API key, for the audit log."""
        return self.api_key.name if self.api_key else None


class Authenticator:
    """Checks API keys, their scopes and the rate of requests.

    Args:
        api_keys: the accepted API keys; None accepts requests without one.
        requests_per_minute: the rate of each client; None for no limit.
    """

    def __init__(self, api_keys: ApiKeys | None, *, requests_per_minute: float | None) -> None:
        self._api_keys = api_keys
        self._limiter = RateLimiter(requests_per_minute)

    def authenticate(
        self, token: str | None, *, scope: str, address: str, request_id: str
    ) -> Client:
        """The client of a request.

        Args:
            token: the bearer token of the request; None if it has none.
            scope: the scope that the request needs.
            address: the address of the client.
            request_id: the id of the request.

        Raises:
            APIError: the API key is missing, unknown or lacks the scope, or the client sends too
                many requests.
        """
        api_key = self._find(token, scope) if self._api_keys is not None else None
        client = Client(request_id, address, api_key)
        wait = self._limiter.take(client.name, rate=api_key.rate if api_key else None)
        if wait > 0:
            raise APIError(
                429,
                "Too many requests; send fewer per minute.",
                kind="rate_limit_error",
                retry_after=wait,
            )
        return client

    def _find(self, token: str | None, scope: str) -> ApiKey:
        assert self._api_keys is not None
        api_key = self._api_keys.find(token) if token else None
        if api_key is None and self._api_keys.is_closed:
            raise APIError(
                503,
                "The service cannot read its API keys and refuses all requests; try again later.",
                kind="server_error",
            )
        if api_key is None:
            raise APIError(
                401,
                "Unknown API key."
                if token
                else "An API key is required: Authorization: Bearer hmk_…",
                kind="authentication_error",
                code="invalid_api_key",
            )
        if not api_key.allows(scope):
            raise APIError(
                403,
                f"The API key {api_key.name!r} lacks the scope {scope!r}.",
                kind="permission_error",
            )
        return api_key


def client_network(address: str) -> str:
    """The name of a client without an API key: its address, or the /64 network of an IPv6 address.

    A holder of one IPv6 address usually holds 2**64 of them.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
