"""AlterUserScramCredentials (51). Its counterpart Describe… (50) is relayed: any broker answers it from ZooKeeper."""

from __future__ import annotations

import logging
from typing import Any

from shunter.core.user_credentials import CredentialChanges, Deletion, Upsertion, refused_users
from shunter.drivers.listener.handlers.context import Call
from shunter.drivers.zookeeper.user_configs import UserConfigs
from shunter.errors import DriverError, ErrorCode, FormatError, RequestRejected

_LOG = logging.getLogger(__name__)


async def alter_user_scram_credentials(request: Any, call: Call) -> Any:
    """Answer AlterUserScramCredentials: one result for each user, in the order in which Apache gives them."""
    changes = CredentialChanges(
        tuple(
            Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in request.upsertions
        ),
        tuple(Deletion(each.name, each.mechanism) for each in request.deletions),
    )
    configs = call.node.user_configs()
    if configs is None or not call.view.active:
        told = "This is not the correct controller for this cluster."
        refused = {user: RequestRejected(ErrorCode.NOT_CONTROLLER, told) for user in changes.users}
        return call.answer(results=[_result(user, why) for user, why in refused.items()])
    refused = refused_users(changes)
    outcome: dict[str, RequestRejected | None] = dict(refused)
    outcome |= {user: await _alter(configs, user, changes) for user in changes.users if user not in refused}
    return call.answer(results=[_result(user, why) for user, why in outcome.items()])


async def _alter(configs: UserConfigs, user: str, changes: CredentialChanges) -> RequestRejected | None:
    """Change the credentials of one user. Return the refusal if that is not possible."""
    try:
        await configs.alter_credentials(user, changes)
    except RequestRejected as refused:
        return refused
    except (DriverError, FormatError) as failure:
        _LOG.warning("credentials of user %r were not altered: %s", user, failure)
        return RequestRejected(ErrorCode.UNKNOWN_SERVER_ERROR, str(failure))
    return None


def _result(user: str, refused: RequestRejected | None) -> dict[str, Any]:
    return {
        "user": user,
        "error_code": ErrorCode.NONE if refused is None else refused.error_code,
        # An empty text instead of null, as in Apache's answer.
        "error_message": "" if refused is None else refused.message,
    }
