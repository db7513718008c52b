"""The PostgreSQL server of the tests: it is real, survives what tests do to it, and leaves nothing behind."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from tests import postgres_guard
from tests.postgres_server import PostgresServer, StopMode, fresh_database, with_database
from tests.postgres_tls import TLSFront

ROOT = Path(__file__).parents[2]
COMMITTED = 500


@pytest.fixture(scope="module")
def private() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as server:
        yield server


def test_it_has_pgvector_with_half_precision(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE EXTENSION vector")
        assert connection.execute("SELECT '[3,4]'::halfvec <-> '[0,0]'").fetchone() == (5.0,)


def test_databases_are_separate_and_dropped(postgres_server_url: str) -> None:
    with fresh_database(postgres_server_url) as one, fresh_database(postgres_server_url) as other:
        with psycopg.connect(one) as connection:
            connection.execute("CREATE TABLE mine (n int)")
        with psycopg.connect(other) as connection:
            assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(one)


def test_a_database_is_dropped_under_a_client(postgres_server_url: str) -> None:
    with fresh_database(postgres_server_url) as url:
        staying = psycopg.connect(url)
    with pytest.raises(psycopg.errors.AdminShutdown):
        staying.execute("SELECT 1")
    staying.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:p@h:1/postgres?sslmode=require", "postgresql://me:p@h:1/x?sslmode=require"),
        ("postgresql://h", "postgresql://h/x"),
        ("postgresql:///postgres?host=%2Ftmp", "postgresql:///x?host=%2Ftmp"),
    ],
)
def test_only_the_database_of_a_url_changes(url: str, expected: str) -> None:
    assert with_database(url, "x") == expected


def test_it_listens_on_a_socket_too(private: PostgresServer) -> None:
    with psycopg.connect(private.socket_url) as connection:
        assert connection.execute("SELECT inet_server_addr()").fetchone() == (None,)


def test_it_asks_for_the_password(private: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(private.url, password="wrong")


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate", None])
def test_what_is_committed_is_there_when_it_starts_again(private: PostgresServer, mode: StopMode | None) -> None:
    with fresh_database(private.url) as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT generate_series(1, %s) AS n", (COMMITTED,))
        if mode:
            private.stop(mode)
        else:
            private.kill()
        with pytest.raises(psycopg.OperationalError, match="Connection refused"):
            psycopg.connect(url)
        private.start()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (COMMITTED,)


def test_killing_it_ends_the_work_of_its_clients(private: PostgresServer) -> None:
    with psycopg.connect(private.url) as client:
        backend = psutil.Process(client.info.backend_pid)
        private.kill()
        assert postgres_guard.has_ended([backend], 0)
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    private.start()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = PostgresServer(settings={"no_such_setting": "1"})
    with pytest.raises(RuntimeError, match=r'unrecognized configuration parameter "no_such_setting"'):
        server.__enter__()
    assert not server.folder.exists()


def test_it_is_left_with_neither_process_nor_folder() -> None:
    with PostgresServer() as server:
        process = psutil.Process(server.pid)
        family = [process, *process.children(recursive=True)]
        server.kill()
    assert not server.folder.exists()
    assert postgres_guard.has_ended(family, 0)


@pytest.mark.parametrize("interruption", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_leaves_neither_process_nor_folder(interruption: signal.Signals) -> None:
    with _running_elsewhere() as (run, folder, server):
        family = [server, *server.children(recursive=True)]
        guards = [process for process in psutil.process_iter(["cmdline"]) if folder in (process.info["cmdline"] or [])]
        assert guards
        run.send_signal(interruption)
        run.wait(60)
        assert postgres_guard.has_ended([*family, *guards], 60)
        assert not Path(folder).exists()


def test_it_runs_as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can try this")
    with PostgresServer() as server:
        assert psutil.Process(server.pid).username() == "nobody"


def test_it_runs_as_an_ordinary_user() -> None:
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    if account and not _can_read(account):
        pytest.skip("an ordinary user cannot read this Python or these tests")
    with _running_elsewhere(account) as (run, _, server):
        assert server.username() == psutil.Process(run.pid).username() != "root"


@pytest.mark.parametrize("sslmode", ["require", "verify-full"])
def test_tls_can_be_put_in_front_of_it(postgres_url: str, tmp_path: Path, sslmode: str) -> None:
    text = "y" * 100_000  # more than one record of TLS, there and back
    with (
        TLSFront(postgres_url, tmp_path) as front,
        psycopg.connect(front.url, sslmode=sslmode, sslrootcert=str(front.authority)) as connection,
    ):
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT %s", (text,)).fetchone() == (text,)


def test_tls_with_another_authority_is_refused_and_so_is_plain_text(postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with TLSFront(postgres_url, tmp_path) as front, TLSFront(postgres_url, tmp_path / "other") as other:
        with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
            psycopg.connect(front.url, sslmode="verify-full", sslrootcert=str(other.authority))
        with pytest.raises(psycopg.OperationalError, match="no encryption"):
            psycopg.connect(front.url, sslmode="disable")


def _can_read(account: pwd.struct_passwd) -> bool:
    command = ["test", "-x", sys.executable, "-a", "-r", __file__]
    done = subprocess.run(command, user=account.pw_uid, group=account.pw_gid, extra_groups=[], check=False)
    return done.returncode == 0


@contextmanager
def _running_elsewhere(
    account: pwd.struct_passwd | None = None,
) -> Generator[tuple[subprocess.Popen[str], str, psutil.Process]]:
    """A server in a process of its own: that process, the server's folder, and the server."""
    script = "\n".join(
        [
            "import sys",
            "from tests.postgres_server import PostgresServer",
            "with PostgresServer() as server:",
            "    print(server.folder, server.pid, flush=True)",
            "    sys.stdin.read()",
        ]
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        user=account and account.pw_uid,
        group=account and account.pw_gid,
        extra_groups=account and [],
    ) as run:
        assert run.stdout
        folder, pid = run.stdout.readline().split()
        yield run, folder, psutil.Process(int(pid))
