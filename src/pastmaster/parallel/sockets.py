"""Which addresses the processes of this program listen on: a cluster that we start is for this machine alone."""

from __future__ import annotations

import importlib
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple


class Listening(NamedTuple):
    """A socket that waits for others; the host is empty where a process does not let us see."""

    process: int
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if not self.host:
            return False
        address = ip_address(self.host.partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return (mapped or address).is_loopback


def listening() -> set[Listening]:
    """All sockets on which this process and its descendants listen.

    psutil sees them. It is not among our own requirements: dask requires it, Ray brings it.
    """
    psutil = importlib.import_module("psutil")
    found, this = set(), psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            look = process.net_connections if hasattr(process, "net_connections") else process.connections  # psutil 5
            connections = look(kind="tcp")
        except psutil.AccessDenied:
            found.add(Listening(process.pid, "", 0))
        except psutil.NoSuchProcess:
            continue
        else:
            open_to = [one.laddr for one in connections if one.status == psutil.CONN_LISTEN]
            found |= {Listening(process.pid, address.ip, address.port) for address in open_to}
    return found
