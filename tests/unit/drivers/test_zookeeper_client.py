"""Shunter's additions to kazoo: TLS sockets for its loop, DIGEST-MD5, a chroot, and messages about failures."""

import asyncio
import logging
import socket
import ssl
import threading
import time
from types import SimpleNamespace

import pytest
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from test_listener_security import certificate, pem

from lab.simulation.event_loop import ProcessLoop
from lab.simulation.network import Delays
from lab.simulation.scheduler import SECOND, Scheduler
from lab.simulation.zookeeper.session import SimulatedKazoo
from lab.simulation.zookeeper.tree import Transaction, ZooKeeperTree
from shunter.drivers.security.tls import TlsContexts
from shunter.drivers.zookeeper.access import ZooKeeperAccess, _Handler, trouble_of
from shunter.drivers.zookeeper.client import WatchEvent, WatchKind, ZooKeeperClient
from shunter.drivers.zookeeper.digest_md5 import DigestMd5
from shunter.drivers.zookeeper.requests import Create, Put
from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.model.security.listeners import KeyStore, Secret, TlsSettings, ZooKeeperLogin, ZooKeeperSecurity

SOON, NEVER = 20.0, 0.2
CHROOT = "/yards/east"
OURS, FOREIGN = b"ours", b"foreign"
CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


@pytest.fixture
def talk():
    """A TLS connection as kazoo gets it, its handler, and the server's end."""
    made = certificate("zookeeper")
    store = KeyStore("PEM", text=Secret(pem(made).decode()))
    contexts = TlsContexts(TlsSettings(store, store), "test")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepted = []

        def serve():
            plain, _ = listening.accept()
            accepted.append(contexts.server.wrap_socket(plain, server_side=True))

        serving = threading.Thread(target=serve)
        serving.start()
        handler = _Handler(contexts)
        connection = handler.create_connection(
            address=listening.getsockname(), hostname="127.0.0.1", timeout=SOON, use_ssl=False
        )
        serving.join(SOON)
        connection.setblocking(False)
        yield connection, handler, accepted[0]
        connection.close()
        accepted[0].close()


def test_what_came_in_one_piece_is_all_there(talk):
    """`select` by itself does not see bytes that TLS has decrypted: kazoo would wait for the next ping."""
    connection, handler, server = talk
    server.sendall(b"first" + b"second")
    assert handler.select([connection], [], [], SOON)[0] == [connection]
    assert connection.recv(5) == b"first"
    assert SequentialThreadingHandler().select([connection], [], [], NEVER)[0] == []
    assert handler.select([connection], [], [], NEVER)[0] == [connection]
    assert connection.recv(100) == b"second"


def test_tls_own_messages_are_not_taken_for_an_answer(talk):
    """Session tickets come unrequested; kazoo would begin to read an answer, and send nothing meanwhile."""
    connection, handler, _ = talk
    began = time.monotonic()
    assert handler.select([connection], [], [], NEVER)[0] == []
    assert time.monotonic() - began >= NEVER
    with pytest.raises(ssl.SSLWantReadError):
        connection.recv(1)


def test_the_end_is_seen(talk):
    connection, handler, server = talk
    server.sendall(b"last")
    server.close()
    assert handler.select([connection], [], [], SOON)[0] == [connection]
    assert connection.recv(4) == b"last"
    assert handler.select([connection], [], [], SOON)[0] == [connection]
    assert connection.recv(4) == b""


def test_other_sockets_are_waited_for_beside(talk):
    connection, handler, server = talk
    one, other = socket.socketpair()
    with one, other:
        other.send(b"x")
        assert handler.select([connection, one], [], [], SOON)[0] == [one]
        server.sendall(b"y")
        while connection not in handler.select([connection, one], [], [], SOON)[0]:
            pass
        assert handler.select([connection, one], [], [], SOON)[0] == [connection, one]


def test_plain_sockets_are_waited_for_as_select_does():
    handler = _Handler(None)
    one, other = socket.socketpair()
    with one, other:
        assert handler.select([one, other], [], [], NEVER) == ([], [], [])
        assert handler.select([one], [one], [], SOON) == ([], [one], [])
        other.send(b"x")
        assert handler.select([one, other], [other], [], None) == ([one], [other], [])
        with pytest.raises(ValueError, match="-1 s"):
            handler.select([one], [], [], -1)
        other.close()
        assert handler.select([one], [], [], SOON) == ([one], [], []), "the end counts as readable"
        with pytest.raises(TypeError):
            handler.select([one, other], [], [], SOON)


def tls_failure(reason):
    failure = ssl.SSLError(1, reason)
    failure.reason = reason
    return failure


@pytest.mark.parametrize(
    ("failure", "encrypted", "served", "told"),
    [
        (ConnectionDropped("socket connection broken"), False, False, "zookeeper.ssl.client.enable=true"),
        (ConnectionDropped("socket connection broken"), False, False, "its ensemble has no quorum"),
        (ConnectionDropped("socket connection broken"), False, True, "most likely its ensemble has no quorum now"),
        (ConnectionDropped("socket connection broken"), True, False, "a plaintext port"),
        (ConnectionDropped("socket connection broken"), True, True, "most likely its ensemble has no quorum now"),
        (ConnectionResetError("reset"), True, False, "a plaintext port"),
        (tls_failure("WRONG_VERSION_NUMBER"), True, True, "a plaintext port"),
        (ConnectionRefusedError("Connection refused"), True, True, "Connection refused"),
    ],
)
def test_failures_are_told_with_a_way_out(failure, encrypted, served, told):
    assert told in trouble_of(failure, encrypted=encrypted, served=served)


def test_a_server_that_served_before_and_hangs_up_now_is_no_foreign_port():
    client = ZooKeeperAccess().kazoo_client(hosts="127.0.0.1:1,127.0.0.1:2")
    client.connected_to("127.0.0.1:1")
    for address in ("127.0.0.1:1", "127.0.0.1:2"):
        client.failed(address, ConnectionDropped("socket connection broken"))
    first, second = (client.troubles[address] for address in ("127.0.0.1:1", "127.0.0.1:2"))
    assert "TLS" not in first
    assert "has served sessions before" in first
    assert "TLS" in second


def test_a_client_prints_no_password():
    login = ZooKeeperLogin("kafka", Secret("planted"))
    client = ZooKeeperAccess(ZooKeeperSecurity(sasl=login, digest=login)).kazoo_client(hosts="127.0.0.1:1")
    assert "planted" not in repr(vars(client).get("security"))
    assert not client.logger.isEnabledFor(10), "kazoo prints requests of the scheme digest at that level"
    client.close()


def test_an_outage_is_told_in_one_line_with_the_address_and_its_end_in_another(caplog):
    """kazoo logged two lines for each attempt, several times a second, without the address."""
    caplog.set_level(logging.INFO)
    client = ZooKeeperAccess().kazoo_client(hosts="127.0.0.1:1")
    tried = []
    client.on_trouble = lambda: tried.append(1)
    client.start_async()
    until = time.monotonic() + SOON
    while len(tried) < 3 and time.monotonic() < until:
        threading.Event().wait(0.01)
    client.stop()
    client.close()
    assert len(tried) >= 3
    client.connected_to("127.0.0.1:1")
    client.connected_to("127.0.0.1:1")
    told = "ZooKeeper at 127.0.0.1:1 can't be reached: Connection refused; it is tried again until it answers"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"{told}, without further lines"),
        ("INFO", "ZooKeeper at 127.0.0.1:1 is back"),
    ]


def test_a_session_is_counted_from_the_sending_of_the_last_request_that_was_answered(monkeypatch):
    """The server counts from the request too, and its answer may have waited on the way."""
    now_s, answers = [100.0], []
    monkeypatch.setattr("shunter.drivers.zookeeper.access.time.monotonic", lambda: now_s[0])
    monkeypatch.setattr(ConnectionHandler, "_submit", lambda *_: None)
    monkeypatch.setattr(ConnectionHandler, "_read_header", lambda *_: (SimpleNamespace(xid=answers.pop()), b"", 0))
    client = ZooKeeperAccess().kazoo_client(hosts="127.0.0.1:1")
    connection = client._connection

    def sent(xid, at_s):
        now_s[0] = at_s
        connection._submit(None, 1.0, xid)

    def heard(xid, at_s):
        now_s[0] = at_s
        answers.append(xid)
        connection._read_header(1.0)
        return client.heard_s

    sent(1, 101.0)
    sent(2, 102.0)
    assert heard(-1, 110.0) == 0.0, "a watch that fired answers nothing"
    assert heard(1, 111.0) == 101.0
    sent(-2, 112.0)
    assert heard(2, 113.0) == 102.0
    assert heard(-2, 119.0) == 112.0, "a ping counts too"


class Place:
    """A ZooKeeper with a foreign cluster at its root, and a client whose cluster is below the chroot."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(1)
        self.tree = ZooKeeperTree(lambda _: None)
        self.operator = self.tree.open_session()
        self.loop = ProcessLoop(self.scheduler, "client", self._failed)
        self.client = ZooKeeperClient(f"simulated{CHROOT}", kazoo_client=self._make_kazoo)
        self.act(Create("/controller", FOREIGN))
        self.run(self.client.start())
        self.run(self.client.create_if_absent("/controller", OURS))

    def _make_kazoo(self, **_: object) -> SimulatedKazoo:
        return SimulatedKazoo(
            self.scheduler, self.tree, self.loop, Delays(), 9 * SECOND, lambda _: None, lambda *_: None
        )

    def _failed(self, name, failure):
        raise AssertionError(name) from failure

    def act(self, *operations):
        assert isinstance(self.tree.commit(operations, self.operator), Transaction)

    def run(self, work):
        """Run a coroutine in the process until nothing more happens; return its result."""
        done = []

        async def hand_over():
            done.append(await work)

        self.loop.deliver(self.loop.create_task, hand_over())
        until = self.scheduler.now_us + 3 * SECOND
        while self.scheduler.step(until):
            pass
        return done[0]

    async def beside_ensure(self, act):
        """Call `act` in each turn of the loop until `ensure` is done; return all results."""
        ensuring = asyncio.get_running_loop().create_task(self.client.ensure(znodes.PERSISTENT))
        acting = []
        while not ensuring.done():
            acting.append(asyncio.get_running_loop().create_task(act()))
            await asyncio.wait((ensuring, acting[-1]), return_when=asyncio.FIRST_COMPLETED)
        return [await each for each in acting]


@pytest.fixture
def place():
    return Place()


def test_the_chroot_and_its_parents_are_created_and_nothing_else_at_the_root(place):
    assert set(place.tree.children("/")) == {"controller", "yards"}
    assert place.tree.children("/yards") == ("east",)
    assert place.tree.get(f"{CHROOT}/brokers/ids") is not None


def test_a_read_beside_ensure_stays_below_the_chroot(place):
    found = place.run(place.beside_ensure(lambda: place.client.get("/controller")))
    assert {each.data for each in found} == {OURS}


def test_a_write_beside_ensure_stays_below_the_chroot(place):
    place.run(place.beside_ensure(lambda: place.client.multi((Put("/controller", b"written"),))))
    assert place.tree.get("/controller").data == FOREIGN
    assert place.tree.get(f"{CHROOT}/controller").data == b"written"


def test_a_watch_that_fires_beside_ensure_has_the_path_below_the_chroot(place):
    heard = []
    place.client.listen(watches=heard.append)
    place.run(place.client.get("/controller", watch=True))

    async def change():
        if not heard:
            place.act(Put(f"{CHROOT}/controller", OURS))
        await place.client.sync()

    place.run(place.beside_ensure(change))
    assert heard == [WatchEvent(WatchKind.CHANGED, "/controller")]


def test_the_example_of_the_rfc():
    login = DigestMd5("chris", "secret", "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")
    said = login.response(CHALLENGE).decode()
    assert "response=d388dad90d4bbd760a152321f2143af7" in said
    assert 'username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001' in said
    assert login.server_proved(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")
    assert not login.server_proved(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")
    assert not login.server_proved(b"")


def test_a_server_can_prove_nothing_before_it_was_answered():
    assert not DigestMd5("chris", "secret").server_proved(b"rspauth=")


def test_a_name_with_quotes_is_escaped():
    assert b'username="o\\"b\\\\r"' in DigestMd5('o"b\\r', "x").response(CHALLENGE)


@pytest.mark.parametrize(
    "challenge",
    [b"", b"nonce=1", b'nonce="1",algorithm=md5', b'nonce="1",algorithm=md5-sess,qop="auth-int"'],
)
def test_another_mechanism_is_refused(challenge):
    with pytest.raises(FormatError):
        DigestMd5("chris", "secret").response(challenge)


def test_each_login_has_a_nonce_of_its_own():
    assert DigestMd5("a", "b").response(CHALLENGE) != DigestMd5("a", "b").response(CHALLENGE)
