"""TLS in front of a PostgreSQL server, for the server of the tests is built without it.

It answers a client's request for TLS as a server with `ssl=on` does, with a certificate of an authority of its own
for `localhost`, and refuses a client that does not ask:

    with TLSFront(server.url, tmp_path) as front:
        psycopg.connect(front.url + f"?sslmode=verify-full&sslrootcert={front.authority}")
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import trustme

SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
GSS_REQUEST = (8).to_bytes(4) + (80877104).to_bytes(4)
REFUSAL = b"SFATAL\0VFATAL\0C28000\0Mno pg_hba.conf entry: no encryption\0\0"


class TLSFront:
    """Listens from entering to leaving. `folder` gets the authority's certificate."""

    def __init__(self, server_url: str, folder: Path) -> None:
        self._server = urlsplit(server_url)
        self.authority = folder / "authority.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.authority)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(self._context)  # pyright: ignore[reportUnknownMemberType]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tls-front", daemon=True)

    @property
    def url(self) -> str:
        """The server's URL, but through TLS."""
        credentials = self._server.netloc.rpartition("@")[0]
        return self._server._replace(netloc=f"{credentials}@localhost:{self.port}").geturl()

    def __enter__(self) -> Self:
        self._thread.start()
        opening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._listening = asyncio.run_coroutine_threadsafe(opening, self._loop).result()
        self.port: int = self._listening.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._listening.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        request = await client.readexactly(8)
        if request == GSS_REQUEST:
            answers.write(b"N")
            request = await client.readexactly(8)
        if request != SSL_REQUEST:
            answers.write(b"E" + (len(REFUSAL) + 4).to_bytes(4) + REFUSAL)
            answers.close()
            return
        answers.write(b"S")
        await answers.drain()
        await answers.start_tls(self._context)
        server, questions = await asyncio.open_connection(self._server.hostname, self._server.port)
        try:
            await asyncio.gather(_pass_on(client, questions), _pass_on(server, answers))
        finally:
            answers.close()
            questions.close()


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()
