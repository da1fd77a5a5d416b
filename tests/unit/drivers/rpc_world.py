"""A server with a state that tests fill, a core that answers events, and a client that sends raw frames."""

import asyncio
import socket
import struct
from contextlib import asynccontextmanager
from uuid import UUID

from fake_broker import encoded
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from shunter.core.authorizer import NetworkAuthorizer
from shunter.core.controller.state import ControllerState, TopicState
from shunter.drivers.brokers.relay import Relay
from shunter.drivers.listener.callers import Callers
from shunter.drivers.listener.handlers.context import Node
from shunter.drivers.listener.handlers.messages import filled
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.drivers.listener.visible_topics import VisibleTopics
from shunter.drivers.zookeeper.mutation_quotas import MutationQuotas
from shunter.drivers.zookeeper.requests import Znode
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment
from shunter.wire.framing import read_response_head, request_frame_head, response_header_version

OUR_ID = 9


class FakeCore:
    """Answers each event as the test says; an event without an answer waits."""

    def __init__(self):
        self.events = []
        self.answers = {}
        self.callers = Callers(self.post)
        self.posted = asyncio.Event()

    async def until_asked(self, count):
        async with asyncio.timeout(40):
            while len(self.events) < count:
                self.posted.clear()
                await self.posted.wait()

    def post(self, event, cause=None):
        self.events.append(event)
        self.posted.set()
        answer = self.answers.get(type(event))
        if answer is not None:
            asyncio.get_running_loop().call_soon(self.callers.resolve, event.reply_to, answer(event))


class ConfigZnodes(dict):
    """A fake ZooKeeper to read quotas from: configurations by path, or a failure."""

    failure = None

    async def get_many(self, paths):
        if self.failure is not None:
            raise self.failure
        found = [self.get(path) for path in paths]
        return [None if data is None else Znode(data, 1, 1, 0, 0, 0, 0) for data in found], 1


def partition(replicas, leader, isr=None, epoch=3, adding=(), removing=()):
    return PartitionState(
        ReplicaAssignment(tuple(replicas), tuple(adding), tuple(removing)),
        LeaderAndIsr(leader, epoch, tuple(isr if isr is not None else replicas), 6, 5),
    )


def topic(name, number, *partitions):
    return TopicState(name, UUID(int=number), 0, dict(enumerate(partitions)))


class RpcWorld:
    def __init__(self, limits=None, authorizer=None):
        self.core = FakeCore()
        self.state = ControllerState(OUR_ID, 5, active=True, cluster_id="cluster")
        self.fakes = []
        self.ranges = {}
        self.relay = Relay(lambda: tuple(fake.broker for fake in self.fakes))
        self.configs = ConfigZnodes()
        self.now_s = 1_000.0
        quotas = MutationQuotas(lambda: self.configs, lambda: 10.0, lambda: 4, lambda: self.now_s)
        self.audited = []
        rules = NetworkAuthorizer() if authorizer is None else authorizer
        self.node = Node(
            self.state,
            self.core.callers,
            self.relay,
            lambda: self.ranges,
            quotas=quotas,
            audit=lambda *told: self.audited.append(told),
            authorizer=rules,
            visible=VisibleTopics(rules),
        )
        self.server = RpcServer(self.node, limits)
        self.clients = []

    async def start(self):
        self.listeners = await self.server.listen(
            [parse_listener("PLAINTEXT://127.0.0.1:0"), parse_listener("INTERNAL://127.0.0.1:0")]
        )
        self.port = self.listeners[0].port
        endpoints = tuple(Endpoint(each.name, "PLAINTEXT", each.host, each.port) for each in self.listeners)
        self.state.brokers[OUR_ID] = Broker(OUR_ID, 90, endpoints)

    def add_broker(self, number, port=1, rack=None):
        endpoints = (
            Endpoint("PLAINTEXT", "PLAINTEXT", f"host-{number}", port),
            Endpoint("INTERNAL", "PLAINTEXT", f"internal-{number}", port + 1),
        )
        self.state.brokers[number] = Broker(number, number, endpoints, rack)

    def add_topic(self, made):
        self.state.topics[made.name] = made
        self.state.topic_names[made.topic_id] = made.name

    async def client(self, listener=0, source=None, receive=None):
        """Connect from an address of the loopback, with a receive buffer of so many bytes."""
        made = socket.socket()
        if receive is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        if source is not None:
            made.bind((source, 0))
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.listeners[listener].port))
        reader, writer = await asyncio.open_connection(sock=made, limit=1 << 16 if receive is None else receive)
        made = RawClient(reader, writer)
        self.clients.append(made)
        return made

    async def ask(self, api_key, version, listener=0, **values):
        client = await self.client(listener)
        return await client.ask(api_key, version, **values)

    async def close(self):
        for client in self.clients:
            client.writer.close()
        await self.server.close()
        await self.relay.close()
        for fake in self.fakes:
            await fake.stop()


class RawClient:
    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.last = 0
        self.client_id = "test"

    def send(self, api_key, version, **values):
        self.last += 1
        body = encoded(filled(load_request_schema(api_key, version), values))
        self.writer.write(request_frame_head(api_key, version, self.last, self.client_id, len(body)) + body)
        return self.last

    async def receive_frame(self):
        size = struct.unpack(">i", await self.reader.readexactly(4))[0]
        return await self.reader.readexactly(size)

    async def receive(self, api_key, version):
        payload = await self.receive_frame()
        correlation_id, offset = read_response_head(payload, response_header_version(api_key, version))
        message, size = entity_reader(load_response_schema(api_key, version))(payload, offset)
        assert offset + size == len(payload)
        return correlation_id, message

    async def ask(self, api_key, version, **values):
        sent = self.send(api_key, version, **values)
        async with asyncio.timeout(40):
            correlation_id, message = await self.receive(api_key, version)
        assert correlation_id == sent
        return message

    async def closed(self):
        async with asyncio.timeout(40):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True


@asynccontextmanager
async def rpc_world(limits=None, authorizer=None):
    made = RpcWorld(limits, authorizer)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
