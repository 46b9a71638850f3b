"""A DNS server on loopback whose records a test changes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from dns import flags, message, rcode, rdatatype, rrset


class DnsServer(asyncio.DatagramProtocol):
    """Serves ``records``: (name, type) to the texts of the records."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Sequence[str]] = {}
        self.address = ""
        self.is_silent = False
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        host, port = transport.get_extra_info("sockname")
        self.address = f"{host}:{port}"

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self.is_silent:
            return
        query = message.from_wire(data)
        response = message.make_response(query)
        response.flags |= flags.AA | flags.RA
        (question,) = query.question
        kind = rdatatype.to_text(question.rdtype)
        texts = self.records.get((question.name.to_text(omit_final_dot=True), kind), ())
        if texts:
            response.answer.append(rrset.from_text_list(question.name, 1, "IN", kind, texts))
        else:
            response.set_rcode(rcode.NXDOMAIN)
        assert self._transport is not None
        self._transport.sendto(response.to_wire(), addr)


@asynccontextmanager
async def dns_server() -> AsyncIterator[DnsServer]:
    """Run a server without records on a free port."""
    server = DnsServer()
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: server, local_addr=("127.0.0.1", 0)
    )
    try:
        yield server
    finally:
        transport.close()
