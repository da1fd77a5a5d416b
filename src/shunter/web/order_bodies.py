"""The bodies of orders: each kind has some of the fields of `ServiceOrder`, under the same names."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, create_model, model_validator

from shunter.formats.service_records import decode_body
from shunter.model.limits import MOST_RATE
from shunter.model.service import IntentKind, OrderKind, ServiceOrder

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
Rate = Annotated[int, BeforeValidator(_number), Field(ge=0, le=MOST_RATE)]
Percent = Annotated[float, BeforeValidator(_number), Field(gt=0, lt=100)]
Gigabytes = Annotated[float, BeforeValidator(_number), Field(gt=0, le=1e9)]
Brokers = Annotated[list[Broker], FailFast(), Field(max_length=1_000)]
Topics = Annotated[list[Name], FailFast(), Field(max_length=2_000)]
_SOME, _MORE = 4 * 1024 * 1024, 8 * 1024 * 1024


class OrderBody(BaseModel):
    """The body of an order; its kind is in the path. Fields that are left out are as `ServiceOrder` has them."""

    model_config = ConfigDict(extra="forbid")
    most_bytes: ClassVar[int] = 128 * 1024
    """The most bytes that it may have as JSON; what the fields allow fits, however its characters are written."""
    comment: str = Field(default="", max_length=2_000, description="The reason; kept with the order.")

    @model_validator(mode="before")
    @classmethod
    def _few_keys(cls, given: object) -> object:
        """Refuse a flood of unknown keys at once: pydantic would make an error of each."""
        if isinstance(given, dict) and len(given) > MOST_KEYS:
            raise ValueError(f"{len(given)} keys: {', '.join(cls.model_fields)} are the only ones")
        return given

    def order(self, kind: OrderKind, cluster: str) -> ServiceOrder:
        """The order that this is the body of."""
        return decode_body(kind, cluster, self.model_dump(exclude={"comment"}, exclude_unset=True, exclude_none=True))


class PreviewBody(BaseModel):
    """An order to moves that is not given yet. `partitions`: as `orders-3`; none: all open moves, or the kill switch."""

    model_config = ConfigDict(extra="forbid")
    most_bytes: ClassVar[int] = _MORE
    verb: Literal["pause", "resume", "stop", "rollback"]
    partitions: Annotated[list[Name], FailFast(), Field(max_length=100_000)] = []


class FleetPreviewBody(BaseModel):
    """The kill switch of the fleet, or its end."""

    model_config = ConfigDict(extra="forbid")
    verb: Literal["pause", "resume"]


_FIELDS: dict[str, tuple[Any, Any, str]] = {
    "intent": (IntentKind | None, None, "What is to hold from now on."),
    "proposal": (Annotated[str, Field(max_length=200)], "", "The proposal's id."),
    "scope": (Annotated[str, Field(max_length=40)], "", "As `drain` or `rebalance`."),
    "partitions": (
        Annotated[list[Name], FailFast(), Field(max_length=100_000)],
        [],
        "As `orders-3`. None: all open moves, and for pause and resume the cluster as a whole. For move: topics, too.",
    ),
    "brokers": (Brokers, [], "The brokers that it is about."),
    "replacements": (
        Annotated[dict[Annotated[str, Field(pattern=r"^\d{1,10}$")], Broker], Field(max_length=1_000)],
        {},
        "For replace: the new broker of each old one.",
    ),
    "topics": (Topics, [], "The topics that it is about; to freeze them also patterns with * and ?."),
    "replicas": (Number | None, None, "How many replicas each of `topics` shall have."),
    "bytes_per_s": (Rate | None, None, "The throttle of each broker in bytes per second; 0: none."),
    "max_in": (Bound | None, None, "The most copies that one broker receives; 0: no bound."),
    "max_out": (Bound | None, None, "The most copies that one broker sends; 0: no bound."),
    "max_concurrent": (Bound | None, None, "The most copies in the whole cluster; 0: no bound."),
    "max_per_rack": (Bound | None, None, "The most copies that one rack receives; 0: no bound."),
    "max_per_log_dir": (Bound | None, None, "The most copies into one log dir; 0: no bound."),
    "to": (Brokers, [], "For move: the brokers that may hold `partitions`."),
    "band_percent": (Percent | None, None, "A narrower band."),
    "most_moves": (Number | None, None, "The most replicas that are copied."),
    "most_gigabytes": (Gigabytes | None, None, "The most data."),
    "without_brokers": (Brokers, [], "Nothing comes to these or leaves them."),
    "without_topics": (Topics, [], "Names, or patterns with * and ?: they stay."),
}
"""Type, default and meaning of each field."""


def _body(name: str, told: str, *fields: str, most_bytes: int = OrderBody.most_bytes) -> type[OrderBody]:
    """A body with some of the fields."""
    made: dict[str, Any] = {
        each: (kind, Field(default=default, description=about))
        for each, (kind, default, about) in _FIELDS.items()
        if each in fields
    }
    if "partitions" in made and "scope" in made:  # A plan is not about all moves of a large one.
        made["partitions"] = (Topics, made["partitions"][1])
    body: type[OrderBody] = create_model(name, __base__=OrderBody, __doc__=told, **made)
    body.most_bytes = most_bytes
    return body


_NAMED = ("brokers", "replacements", "topics", "replicas")
_PLAN = (
    "scope", *_NAMED, "partitions", "to",
    "band_percent", "most_moves", "most_gigabytes", "without_brokers", "without_topics",
)  # fmt: skip
_BOUNDS = ("max_in", "max_out", "max_concurrent", "max_per_rack", "max_per_log_dir")

ClusterBody = _body("ClusterBody", "The body of an order about a cluster as a whole.")
ProposalBody = _body("ProposalBody", "The body of a decision about a proposal.", "proposal")
PartitionsBody = _body("PartitionsBody", "The body of an order to moves.", "partitions", most_bytes=_MORE)
LimitBody = _body("LimitBody", "The body of an order that limits copies.", "bytes_per_s", *_BOUNDS)
IntentBody = _body("IntentBody", "The body of an order about an intent.", "intent", *_NAMED, "scope", most_bytes=_SOME)
PlanBody = _body("PlanBody", "The body of an order that plans.", *_PLAN, most_bytes=_SOME)
SketchBody = _body("SketchBody", "A plan, or an intent that leads to one.", "intent", *_PLAN, most_bytes=_SOME)
