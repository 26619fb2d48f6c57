"""The addresses at which the service can be reached."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hammingmark.errors import InputError

_BACKLOG = 2048  # clients who wait to be let in
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # such as ::1 of localhost, without IPv6


@contextmanager
def listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Sockets at every address of a host; who connects waits until the service has started.

    Args:
        host: a name or an address.
        port: 0 lets the system choose.

    Raises:
        InputError: there is no such host here, or another program has the port.
    """
    with ExitStack() as opened:
        sockets: list[socket.socket] = []
        trouble: OSError | None = None
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            for family, address in dict.fromkeys((each[0], each[4]) for each in found):
                try:
                    made = socket.create_server(address, family=family, backlog=_BACKLOG)
                except OSError as error:
                    if error.errno not in _NOT_HERE:
                        raise
                    trouble = error
                else:
                    sockets.append(opened.enter_context(made))
            if trouble and not sockets:
                raise trouble
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise InputError(
                f"Cannot listen at {host}, port {port}: {words}. Choose another with --host or "
                "--port, or stop what listens there."
            ) from None
        yield sockets


def url_of(host: str, sockets: list[socket.socket]) -> str:
    """Where a browser finds what listens."""
    return f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}"
