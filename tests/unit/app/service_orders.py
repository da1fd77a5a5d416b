"""Orders to the service, by their kind and the words that say what they are about."""

from typing import Any

from shunter.model.service import IntentKind, OrderKind, ServiceOrder

OF_TOPICS = (IntentKind.FREEZE_TOPIC, IntentKind.REPLICATION)


def order(kind: OrderKind | IntentKind, *about: str, cluster: str = "yard", **more: Any) -> ServiceOrder:
    """`order(IntentKind.DRAIN, "3")` gives that intent; `order(OrderKind.WITHDRAW, "drain", "3")` takes it back."""
    if isinstance(kind, IntentKind):
        return ServiceOrder(OrderKind.INTEND, cluster, kind, **_intent(kind, about), **more)
    if kind is OrderKind.WITHDRAW:
        intent = IntentKind(about[0])
        return ServiceOrder(kind, cluster, intent, **_intent(intent, about[1:]), **more)
    if kind is OrderKind.PROPOSE:
        return ServiceOrder(kind, cluster, **plan(*about), **more)
    if kind in (OrderKind.APPROVE, OrderKind.DECLINE):
        return ServiceOrder(kind, cluster, proposal="".join(about), **more)
    return ServiceOrder(kind, cluster, partitions=about, **more)


def plan(scope: str, *items: str) -> dict[str, Any]:
    """The fields of a plan that is asked for."""
    if scope in ("topics", "move"):
        return {"scope": scope, "topics" if scope == "topics" else "partitions": items}
    if scope == "replace":
        pairs = (item.split("=") for item in items)
        return {"scope": scope, "replacements": tuple((int(old), int(new)) for old, new in pairs)}
    return {"scope": scope, "brokers": tuple(map(int, items))}


def _intent(kind: IntentKind, about: tuple[str, ...]) -> dict[str, Any]:
    if kind is IntentKind.HOLD:
        return {"scope": about[0]}
    if kind in OF_TOPICS:
        return {"topics": about}
    if any("=" in each for each in about):
        return {"replacements": plan("replace", *about)["replacements"]}
    return {"brokers": tuple(map(int, about))}
