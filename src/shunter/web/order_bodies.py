"""The bodies of orders: each has the fields of its verb. `about` and `value` say the same in one form for all verbs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, model_validator

from shunter.model.limits import MOST_RATE

MOST_KEYS = 20


def _number(given: object) -> object:
    """Accept only numbers: pydantic would make 1 of `true` and 5 of `"5"`."""
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool)):
        return given
    raise ValueError("must be a number or null")


Name = Annotated[str, Field(max_length=300)]
"""A partition's name is a topic's, which has at most 249 characters, and a number."""
Broker = Annotated[int, BeforeValidator(_number), Field(ge=0, le=2**31 - 1)]
Number = Annotated[int, BeforeValidator(_number), Field(ge=1, le=2**31 - 1)]
Bound = Annotated[int, BeforeValidator(_number), Field(ge=0, le=2**31 - 1)]
_ABOUT = "The order's objects in one form for all verbs; instead of the fields of this verb."


class OrderBody(BaseModel):
    """The body of an order; the verb is in the path."""

    model_config = ConfigDict(extra="forbid")
    most_bytes: ClassVar[int] = 128 * 1024
    """The most bytes that it may have as JSON; what the fields allow fits, however its characters are written."""
    about: Annotated[list[Name], FailFast()] = Field(default_factory=list[str], max_length=20, description=_ABOUT)
    value: Annotated[int | None, BeforeValidator(_number)] = Field(
        default=None, ge=0, le=MOST_RATE, description="The order's number in one form for all verbs."
    )
    comment: str = Field(default="", max_length=2_000, description="The reason; kept with the order.")

    @model_validator(mode="before")
    @classmethod
    def _few_keys(cls, given: object) -> object:
        """Refuse a flood of unknown keys at once: pydantic would make an error of each."""
        if isinstance(given, dict) and len(given) > MOST_KEYS:
            raise ValueError(f"{len(given)} keys: {', '.join(cls.model_fields)} are the only ones")
        return given

    @model_validator(mode="after")
    def _once(self) -> Self:
        own = sorted(self.model_fields_set - {"about", "value", "comment"})
        if own and self.model_fields_set & {"about", "value"}:
            raise ValueError(f"{own[0]}: it is said by about or value, too: leave one of them out")
        return self

    def words(self) -> Iterable[str]:
        """The order's objects, by the fields of its verb."""
        return ()

    def number(self) -> int | None:
        """The order's number, by the fields of its verb."""
        return None

    @property
    def asked(self) -> tuple[tuple[str, ...], int | None]:
        """The order's `about` and `value`, whichever way they were given."""
        number = self.number()
        return (*self.about, *self.words()), self.value if number is None else number


class FleetBody(OrderBody):
    """The body of an order that is about a cluster or the fleet as a whole."""


class ProposalBody(OrderBody):
    """The body of a decision about a proposal."""

    proposal: Annotated[str, Field(max_length=200)] | None = Field(default=None, description="The proposal's id.")

    def words(self) -> Iterable[str]:
        """See `OrderBody`."""
        return () if self.proposal is None else (self.proposal,)


class BrokerBody(OrderBody):
    """The body of an order about one broker."""

    broker: Broker | None = Field(default=None, description="The broker's id.")

    def words(self) -> Iterable[str]:
        """See `OrderBody`."""
        return () if self.broker is None else (str(self.broker),)


class ReplaceBody(BrokerBody):
    """The body of an order that lets one broker take another one's place."""

    by: Broker | None = Field(default=None, description="The broker that takes its place.")

    def number(self) -> int | None:
        """See `OrderBody`."""
        return self.by


class TopicBody(OrderBody):
    """The body of an order about a topic."""

    topic: Name | None = Field(default=None, description="The topic's name, or a pattern with * and ?.")

    def words(self) -> Iterable[str]:
        """See `OrderBody`."""
        return () if self.topic is None else (self.topic,)


class ReplicationBody(TopicBody):
    """The body of an order about a topic's replication factor."""

    replicas: Number | None = Field(default=None, description="So many from now on; null: as the policy file says.")

    def number(self) -> int | None:
        """See `OrderBody`."""
        return self.replicas


class ScopeBody(OrderBody):
    """The body of an order about a scope of plans."""

    scope: Annotated[str, Field(max_length=40)] | None = Field(default=None, description="As `drain` or `rebalance`.")

    def words(self) -> Iterable[str]:
        """See `OrderBody`."""
        return () if self.scope is None else (self.scope,)


class LimitBody(OrderBody):
    """The body of an order that changes the throttle."""

    bytes_per_s: Annotated[int | None, BeforeValidator(_number)] = Field(
        default=None, ge=0, le=MOST_RATE, description="Bytes per second of each broker; null lifts the throttle."
    )

    def number(self) -> int | None:
        """See `OrderBody`."""
        return self.bytes_per_s


class BoundBody(OrderBody):
    """The body of an order that changes how many copies run at a time."""

    max_in: Bound | None = Field(default=None, description="The most copies that one broker receives.")
    max_out: Bound | None = Field(default=None, description="The most copies that one broker sends.")
    max_concurrent: Bound | None = Field(default=None, description="The most copies in the whole cluster.")

    def words(self) -> Iterable[str]:
        """See `OrderBody`."""
        bounds = {"max-in": self.max_in, "max-out": self.max_out, "max-concurrent": self.max_concurrent}
        return [f"{name}={most}" for name, most in bounds.items() if most is not None]


class PartitionsBody(OrderBody):
    """The body of an order to moves, perhaps to all of a large plan."""

    most_bytes: ClassVar[int] = 8 * 1024 * 1024
    about: Annotated[list[Name], FailFast()] = Field(default_factory=list[str], max_length=100_000, description=_ABOUT)
    partitions: Annotated[list[Name], FailFast()] = Field(
        default_factory=list[str], max_length=100_000, description="As `orders-3`; none: all open moves."
    )

    def words(self) -> Iterable[str]:
        """See `OrderBody`."""
        return self.partitions


class PlanBody(ScopeBody):
    """The body of an order that plans: a scope, what it is about, and rules."""

    most_bytes: ClassVar[int] = 1024 * 1024
    about: Annotated[list[Name], FailFast()] = Field(default_factory=list[str], max_length=2_000, description=_ABOUT)
    brokers: list[Broker] = Field(default_factory=list[int], max_length=1_000, description="For fill, drain, demote.")
    replacements: dict[Annotated[str, Field(max_length=10)], Broker] = Field(
        default_factory=dict[str, int], max_length=1_000, description="For replace: the new broker of each old one."
    )
    topics: Annotated[list[Name], FailFast()] = Field(
        default_factory=list[str], max_length=2_000, description="For topics: those that get `replicas`."
    )
    replicas: Number | None = Field(default=None, description="For topics: how many replicas they shall have.")
    band_percent: Annotated[float, Field(gt=0, lt=100)] | None = Field(default=None, description="A narrower band.")
    most_moves: Number | None = Field(default=None, description="The most replicas that are copied.")
    most_gigabytes: Annotated[float, Field(gt=0, le=1e9)] | None = Field(default=None, description="The most data.")
    without_brokers: list[Broker] = Field(
        default_factory=list[int], max_length=1_000, description="Nothing comes to these or leaves them."
    )
    without_topics: Annotated[list[Name], FailFast()] = Field(
        default_factory=list[str], max_length=1_000, description="Names, or patterns with * and ?: they stay."
    )

    def words(self) -> Iterable[str]:
        """See `OrderBody`."""
        rules: dict[str, Any] = {
            "band": self.band_percent,
            "most-moves": self.most_moves,
            "most-gigabytes": self.most_gigabytes,
            "without-brokers": ",".join(map(str, self.without_brokers)) or None,
            "without-topics": ",".join(self.without_topics) or None,
        }
        pairs = (f"{old}={new}" for old, new in self.replacements.items())
        said = (f"{name}={value}" for name, value in rules.items() if value is not None)
        return (*super().words(), *map(str, self.brokers), *pairs, *self.topics, *said)

    def number(self) -> int | None:
        """See `OrderBody`."""
        return self.replicas
