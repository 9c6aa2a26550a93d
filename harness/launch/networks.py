"""Where a container and this machine find each other.

On the host's network both are on the loopback address. On a network of its own a container cannot reach this machine's
loopback address: what it is to reach listens on the network's gateway, where that is an address of this machine, and
has a name where the engine runs in a virtual machine.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from sendtwice.harness.errors import HarnessError
from sendtwice.harness.launch.engine import Engine
from sendtwice.harness.remote import is_loopback
from sendtwice.harness.target import Provider
from sendtwice.harness.target_running import Container

#: The name by which a container knows this machine.
HERE = "host.docker.internal"


class Network:
    """The network of a target's container."""

    def __init__(self, spec: Container, engine: Engine) -> None:
        """Nothing is known of it before :meth:`provider_place`."""
        self.spec, self.engine = spec, engine
        self._gateway: str | None = None

    @property
    def of_host(self) -> bool:
        """Whether it is this machine's own."""
        return self.spec.network == "host"

    @property
    def hosts(self) -> dict[str, str]:
        """Names that a container is given; the engine knows what the second one stands for."""
        return {HERE: self._gateway or "host-gateway"}

    async def provider_place(self, provider: Provider) -> tuple[str, str | None]:
        """Return where the fake provider listens, and what the target is told, unless that is its URL."""
        if self.of_host:
            return provider.bind, provider.advertise
        self._gateway = await self._find_gateway()
        if "bind" not in provider.model_fields_set:
            named = None if self._gateway is not None else f"{HERE}:{{port}}"
            return self._gateway or provider.bind, provider.advertise or named
        reached = provider.bind not in ("0.0.0.0", "::") and not is_loopback(f"http://{provider.bind}")  # noqa: S104
        return provider.bind, provider.advertise or (None if reached else f"{HERE}:{{port}}")

    @property
    def here(self) -> str:
        """Where on this machine the wires to the target's stores are; known after :meth:`provider_place`."""
        return self._gateway or "127.0.0.1"

    def seen(self, address: str) -> str:
        """Return what a container calls an address that something listens on :attr:`here`."""
        if self.of_host or self._gateway is not None:
            return address
        return f"{HERE}:{address.rpartition(':')[2]}"

    async def _find_gateway(self) -> str | None:
        """Return the address that the containers' network has on this machine; None when it has none."""
        name = self.spec.network
        networks = await self.engine.ask(
            lambda: self.engine.client.networks.list(names=[name]), "the engine's networks cannot be listed ({})"
        )
        found = next((one for one in networks if name in (one.name, one.id)), None)
        if found is None:
            if self.spec.compose is not None:
                return None  # compose makes a network of its own
            raise HarnessError(
                f"target.container.network: the engine has no network {name!r}; it has: "
                f"{', '.join(sorted(n.name for n in await self._networks()))}"
            )
        for config in (found.attrs.get("IPAM") or {}).get("Config") or []:
            address = config.get("Gateway") or _first_of(config.get("Subnet", ""))
            if address and ":" not in address and _is_own(address):
                return str(address)
        return None

    async def _networks(self) -> list[Any]:
        found: list[Any] = await self.engine.ask(self.engine.client.networks.list, "the networks cannot be listed ({})")
        return found


def _first_of(subnet: str) -> str | None:
    """Return the address that a network's gateway has when nothing else is said."""
    try:
        return str(next(ipaddress.ip_network(subnet).hosts()))
    except (ValueError, StopIteration):
        return None


def _is_own(address: str) -> bool:
    """Whether an address is one of this machine's."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
