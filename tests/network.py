"""Tests stay on this machine."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

_CALLS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname"}


class NetworkRefused(RuntimeError):
    """A test tried to reach another machine.

    No OSError: code that copes with a broken network must not cope with this.
    """


def refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse every connection that is neither to loopback nor to a Unix socket.

    An audit hook (`sys.addaudithook`): Python calls it before each lookup and each connection, in
    every thread, and it cannot be taken away. Processes that a test starts are beyond it. So the
    model store still fetches models, because each download is a process of its own.

    Raises:
        NetworkRefused: the host is another machine, or a name that would have to be looked up.
    """
    if event in _CALLS:
        caller, address = arguments
        if caller.family not in (socket.AF_INET, socket.AF_INET6) or address is None:
            return
        host = address[0]
    elif event in _LOOKUPS:
        host = arguments[0]
    else:
        return
    if not _is_this_machine(host):
        raise NetworkRefused(
            f"A test may not reach {host!r}, which is not this machine. Serve what it needs on "
            "127.0.0.1, or fetch models through the model store."
        )


def _is_this_machine(host: str | bytes | None) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        address = ip_address(str(name).partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
