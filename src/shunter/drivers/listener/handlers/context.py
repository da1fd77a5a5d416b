"""The context of a handler: the request that it answers, and access to the view, the core and the brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, NoReturn

from shunter.core.authorizer import Authorizer, NetworkAuthorizer, Requester, authorized_operations
from shunter.core.controller.events import Event, ReplyToken
from shunter.core.controller.ready import Reply
from shunter.core.controller.state import ClusterView
from shunter.core.mutation_quotas import Allowance
from shunter.drivers.brokers.connection import ApiRanges
from shunter.drivers.brokers.relay import Relay
from shunter.drivers.listener.callers import Callers
from shunter.drivers.listener.handlers.messages import filled
from shunter.drivers.listener.metadata_answers import MetadataAnswers
from shunter.drivers.listener.offered_versions import OfferedVersions
from shunter.drivers.listener.own_configs import OwnConfigs
from shunter.drivers.listener.server_stats import ServerStats
from shunter.drivers.listener.visible_topics import VisibleTopics
from shunter.drivers.zookeeper.feature_keeper import FeatureKeeper
from shunter.drivers.zookeeper.mutation_quotas import MutationQuotas
from shunter.drivers.zookeeper.user_configs import UserConfigs
from shunter.errors import DriverError, ErrorCode, InvariantViolation, RequestRejected
from shunter.model.partition import BrokerId
from shunter.model.security.acl import AclResource, Operation
from shunter.model.security.principal import ANONYMOUS, Principal
from shunter.wire.framing import SIZE_BYTES, request_frame_head
from shunter.wire.requests import ParsedRequest, decode_response, encode_message, response_entity


def _no_audit(_call: Call, _answer: Any, _failure: str | None, _seconds: float) -> None:
    pass


def _no_quotas() -> MutationQuotas:
    return MutationQuotas(lambda: None, lambda: 0.0, lambda: 1, lambda: 0.0)


@dataclass(frozen=True, slots=True)
class Node:
    """The parts of this node that handlers use, the same for all requests."""

    view: ClusterView
    callers: Callers
    relay: Relay
    api_ranges: Callable[[], Mapping[BrokerId, ApiRanges]]
    """Returns the API versions that each connected broker serves."""
    own_configs: OwnConfigs = field(default_factory=OwnConfigs)
    versions: OfferedVersions = field(default_factory=OfferedVersions)
    metadata: MetadataAnswers = field(default_factory=lambda: MetadataAnswers(count().__next__))
    """The default has a new moment at each call, so every answer looks at every topic."""
    user_configs: Callable[[], UserConfigs | None] = lambda: None
    """Users' configuration in ZooKeeper; None before there is a session."""
    features: Callable[[], FeatureKeeper | None] = lambda: None
    """Finalized features in ZooKeeper; None before there is a session."""
    quotas: MutationQuotas = field(default_factory=_no_quotas)
    audit: Callable[[Call, Any, str | None, float], None] = _no_audit
    """Called for each administrative request with its answer, or why there is none, and the seconds that it took."""
    authorizer: Authorizer = field(default_factory=NetworkAuthorizer)
    """Decides which principal may do what; without ACLs every client may do everything."""
    visible: VisibleTopics = field(default_factory=lambda: VisibleTopics(NetworkAuthorizer()))
    stats: ServerStats = field(default_factory=ServerStats)
    relays: bool = True
    """Whether clients' requests are relayed to brokers."""


class RawAnswer(NamedTuple):
    """A complete answer: size, header and body."""

    frame: bytes


class PiecedBody(NamedTuple):
    """A body in pieces. Other answers share `pieces`; `size` is the number of bytes in all of `pieces`."""

    head: bytes
    pieces: Sequence[bytes]
    tail: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `listener` is the name of the listener that it came by; `principal` is its sender."""

    node: Node
    parsed: ParsedRequest
    listener: str
    peer: str
    principal: Principal = ANONYMOUS
    host: str = "127.0.0.1"
    """The peer's address, as Kafka writes it."""
    authenticated: bool = False
    """Whether the listener authenticates its clients."""

    @property
    def view(self) -> ClusterView:
        """The cluster as it is now. Do not keep the view across an await."""
        return self.node.view

    @property
    def version(self) -> int:
        """The request's version."""
        return self.parsed.version

    @property
    def origin(self) -> str:
        """API and sender of the request, for people."""
        api = type(self.parsed.message).__name__
        who = "" if self.principal == ANONYMOUS else f"{self.principal} at "
        return f"{api} v{self.version} from {who}{self.peer}, client {self.parsed.client_id!r}"

    @property
    def requester(self) -> Requester:
        """The sender: principal and host."""
        return Requester(self.principal, self.host)

    @property
    def unlimited(self) -> bool:
        """Whether the client may do everything."""
        return self.node.authorizer.unlimited(self.requester)

    @property
    def guarded(self) -> bool:
        """Whether rights depend on the sender. Then brokers must not take Shunter's identity for the client's."""
        return self.authenticated or not isinstance(self.node.authorizer, NetworkAuthorizer)

    def allows(self, operation: Operation, resource: AclResource, *, told: bool = True) -> bool:
        """Whether the client may do an operation. If `told`, a refusal is counted and logged."""
        if self.node.authorizer.allows(self.requester, operation, resource):
            return True
        if told:
            self.deny(operation, resource)
        return False

    def deny(self, operation: Operation, resource: AclResource) -> None:
        """Count and log a refusal, with the text of Kafka's authorizer."""
        name = operation.name.title().replace("_", "")
        told = (
            f"Principal = {self.principal} is Denied Operation = {name} from host = {self.host}"
            f" on resource = {resource.type.value}:LITERAL:{resource.name}"
            f" for request = {type(self.parsed.message).__name__ if self.parsed.message else self.parsed.api_key}"
        )
        self.node.stats.deny(name, told)

    def operations(self, resource: AclResource) -> int:
        """Return the operations that the client may do on a resource, as Kafka's bits."""
        return authorized_operations(self.node.authorizer, self.requester, resource)

    def answer(self, **values: Any) -> Any:
        """Make the response in the request's version; see `messages.filled`."""
        return filled(response_entity(self.parsed), values)

    async def allowance(self, strict_since: int) -> Allowance:
        """Return what the request may change by its quota. Requests of older versions are throttled, never refused."""
        if not self.view.active:
            return Allowance()  # The request will be refused, and ZooKeeper need not be asked.
        return await self.node.quotas.allowance(
            self.principal, self.parsed.client_id, strict=self.version >= strict_since
        )

    async def submit(self, make_event: Callable[[ReplyToken], Event], timeout_ms: int) -> Reply:
        """Ask the core.

        Raises:
            RequestRejected: this node is not the controller, or the core did not answer in time.
        """
        if not self.view.active:
            self.refuse_as_standby()
        return await self.node.callers.submit(make_event, timeout_ms, self.origin)

    def refuse_as_standby(self) -> NoReturn:
        """Refuse: this node is not the controller.

        Raises:
            RequestRejected: always.
        """
        told = f"node {self.view.controller_id} is not the controller now; ask the cluster's metadata who is"
        raise RequestRejected(ErrorCode.NOT_CONTROLLER, told)

    async def pass_on(self, to: BrokerId | None = None) -> RawAnswer:
        """Have a live broker answer this request: broker `to`, if it is live.

        Raises:
            DriverError: no broker is connected, the broker did not answer, or requests are not relayed.
        """
        return RawAnswer(await self.relayed(self.parsed.frame, to=to))

    async def ask_broker(self, message: Any, to: BrokerId | None = None) -> Any:
        """Have a live broker (`to`, if it is live) answer a message of this API and version, and decode its answer.

        Raises:
            DriverError: no broker is connected, the broker did not answer, or requests are not relayed.
        """
        parsed = self.parsed
        body = encode_message(message)
        head = request_frame_head(parsed.api_key, parsed.version, parsed.correlation_id, parsed.client_id, len(body))
        return decode_response(parsed, await self.relayed((head + body)[SIZE_BYTES:], anywhere=True, to=to))

    async def relayed(self, frame: bytes, *, anywhere: bool = False, to: BrokerId | None = None) -> bytes:
        """Have a live broker answer a frame: this request, or a request that Shunter makes in place of it.

        Args:
            frame: without its size.
            anywhere: ask by any listener, also if the addresses in the answer are those of another listener.
            to: the only broker that may be asked, if it is live; None: any.

        Raises:
            DriverError: no broker is connected, the broker did not answer, or requests are not relayed.
        """
        if not self.node.relays:
            told = f"API {self.parsed.api_key}: nothing is passed on (relay=none): ask a broker"
            raise DriverError(told, retriable=False)
        listener = None if anywhere else self.listener
        return await self.node.relay.pass_on(frame, listener, sender=f"{self.principal} {self.host}", to=to)


def unexpected(reply: Reply, wanted: type) -> InvariantViolation:
    """Build the error for a reply of a kind that does not fit its request."""
    return InvariantViolation("a reply is of its request's kind", wanted=wanted.__name__, reply=repr(reply)[:200])
