"""Fetching for somebody else: only what everybody could fetch, unless the operator names the host.

A server that fetches what its clients say could be sent to its own machine, to its neighbours, or to where a cloud keeps
its secrets. So names are looked up once, and connections go to the public ones among the addresses that were found.
"""

from __future__ import annotations

import functools
import http.client
import ipaddress
import socket
import urllib.request
from collections.abc import Collection
from typing import Any, Optional, Union

from rknnlite.errors import ParamInvalid

__all__ = ["ANY_HOST", "is_public", "public_opener"]

ANY_HOST = "*"
"""In place of the names of hosts: all of them."""
Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def public_opener(
    hosts: Collection[str], *handlers: type[urllib.request.BaseHandler]
) -> urllib.request.OpenerDirector:
    """One for public addresses, and for ``hosts`` wherever they lie. It uses no proxy, as that would look names up by itself."""
    connect = functools.partial(_connect, frozenset(host.lower() for host in hosts))
    return urllib.request.build_opener(
        *handlers, urllib.request.ProxyHandler({}), _Http(connect), _Https(connect)
    )


def is_public(address: Address) -> bool:
    """Whether it is one of the Internet; one that carries another within is what that is."""
    if isinstance(address, ipaddress.IPv6Address):
        inner: Optional[Address] = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(address.packed[-4:])
        if address.teredo is not None:
            return False
        if inner is not None:
            return is_public(inner)
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_private)


def _connect(
    hosts: frozenset[str], address: tuple[str, int], timeout: float, source: Any = None
) -> socket.socket:
    """As ``socket.create_connection``. Raises ParamInvalid for a host that has no public address."""
    host, port = address
    failure: Optional[OSError] = None
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if host.lower() not in hosts:
        found = [info for info in found if is_public(ipaddress.ip_address(str(info[4][0]).partition("%")[0]))]
        if not found:
            raise ParamInvalid(
                f"{host[:200]} has no public address, and clients may not have this server fetch from others; --allow-pull HOST "
                "allows a host"
            )
    for family, kind, protocol, _, target in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(target)
            return connection
        except OSError as error:
            connection.close()
            failure = error
    raise failure or OSError("the host has no address")


class _HttpConnection(http.client.HTTPConnection):
    def __init__(self, *args: Any, connect: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._create_connection = connect


class _HttpsConnection(http.client.HTTPSConnection):
    def __init__(self, *args: Any, connect: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._create_connection = connect


class _Http(urllib.request.HTTPHandler):
    def __init__(self, connect: Any) -> None:
        super().__init__()
        self._connect = connect

    def http_open(self, req: Any) -> Any:
        return self.do_open(functools.partial(_HttpConnection, connect=self._connect), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, connect: Any) -> None:
        super().__init__()
        self._connect = connect

    def https_open(self, req: Any) -> Any:
        return self.do_open(functools.partial(_HttpsConnection, connect=self._connect), req)
