"""The sockets that the service listens on, bound before anything else starts.

sockets = bound("127.0.0.1", 8000)      CannotListen: port 8000 is taken; --port 0 takes a free one
url_of("127.0.0.1", sockets)            "http://127.0.0.1:8000"
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress


class CannotListen(Exception):
    """There is no such address, or its port is taken or forbidden. Its text says which."""


def bound(host: str, port: int) -> list[socket.socket]:
    """Returns a socket for every address of a host, all of one port; 0: a free one. Raises
    CannotListen.
    """
    found: list[socket.socket] = []
    for family, address in _addresses(host, port):
        if found and port == 0:
            address = (address[0], found[0].getsockname()[1], *address[2:])
        try:
            found.append(_listening(family, address))
        except OSError as error:
            if found and error.errno != errno.EADDRINUSE:
                continue  # a name may have addresses that this machine has not
            for made in found:
                made.close()
            raise CannotListen(_reason(error, host, port)) from None
    return found


def _listening(family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    # Said to be TCP: asyncio switches Nagle's algorithm off, which costs 40 ms, only where it is.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(2048)
    except OSError:
        made.close()
        raise
    return made


def url_of(host: str, sockets: list[socket.socket]) -> str:
    """Returns the address for a browser."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{sockets[0].getsockname()[1]}"


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    with suppress(OSError, UnicodeError):
        rows = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return list(dict.fromkeys((family, address) for family, *_, address in rows))  # type: ignore[misc]
    raise CannotListen(f"there is no address {host!r}; --host 127.0.0.1 is this machine alone")


def _reason(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is taken; --port 0 takes a free one"
        case errno.EACCES:
            return f"port {port} needs more rights than you have; --port 0 takes a free one"
        case errno.EADDRNOTAVAIL:
            return f"this machine has no address {host!r}; --host 127.0.0.1 is this machine alone"
        case _:
            return f"{host!r} port {port}: {error.strerror}"
