"""Without the secret of its namespace nobody fences a writer, although its bookies answer."""

import asyncio
from pathlib import Path

from rhumbline.cli.servers.local_cluster import HOST, LocalCluster
from rhumbline.client.connect import Client
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire import v2
from rhumbline.core.wire.entry import master_key
from rhumbline.core.wire.frames import LENGTH
from rhumbline.security.ledger_passwords import ledger_password

REGION, NAMESPACE, STREAM = "oslo", "acme", "orders"
SECRET = "0123456789abcdef0123456789abcdef"


async def fence(port: int, ledger_id: int, password: bytes) -> int:
    """Send a fencing read to a bookie, as an attacker would; return the code of its response."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(v2.encode_read(ledger_id, 0, v2.FLAG_FENCE, master_key(password)))
    (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    response = v2.decode_response(await reader.readexactly(size))
    writer.close()
    assert isinstance(response, v2.ReadResponse)
    return response.code


async def test_nobody_fences_a_writer_without_the_secret_and_takeovers_work(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text(f"{NAMESPACE} {SECRET}\n")
    (tmp_path / "cluster").mkdir()
    cluster = LocalCluster(tmp_path / "cluster", [REGION], bookies_per_region=3, round_trips_ms={})
    async with asyncio.timeout(60), cluster:
        uri = cluster.metadata_uri
        with_secret = Client(uri, namespace=NAMESPACE, region=REGION, ledger_secrets=str(secrets))
        async with with_secret as client, Client(uri, namespace=NAMESPACE, region=REGION) as other:
            policy = StreamPolicy(Quorum(3, 3, 2))
            await create_namespace(client.store, client.runtime, NAMESPACE, policy)
            await client.namespace().create_stream(STREAM)
            async with client.writer(STREAM) as writer:
                await writer.append(b"first")
                (ledger_id,) = [
                    one.ledger_id for one in client.ledgers.writers() if one.last_add_pushed >= 0
                ]
                ports = [local.bookie.port for local in cluster.bookies if local.bookie is not None]
                for port in ports:
                    for guess in (b"", b"wrong", ledger_password(SECRET, ledger_id + 1)):
                        assert await fence(port, ledger_id, guess) == v2.Code.UNAUTHORIZED
                await writer.append(b"second")
            # Whoever reads the metadata store needs no file: readers, repair and takeovers.
            async with other.writer(STREAM) as successor:
                await successor.append(b"third")
            found = []
            async with other.reader(STREAM) as reader:
                async for record in reader:
                    found.append(bytes(record.payload))
                    if record.payload == b"third":
                        break
            assert found == [b"first", b"second", b"third"]
