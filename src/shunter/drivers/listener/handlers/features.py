"""UpdateFeatures (57)."""

from __future__ import annotations

import logging
from typing import Any

from shunter.core.features import FeatureUpdate, Upgrade
from shunter.drivers.listener.handlers.context import Call
from shunter.errors import DriverError, ErrorCode, FormatError, RequestRejected

_LOG = logging.getLogger(__name__)
_FAILED = "Unable to update finalized features due to an unexpected server error."


async def update_features(request: Any, call: Call) -> Any:
    """Answer UpdateFeatures: one result for each feature, or one error for all."""
    updates = {each.feature: _update(each) for each in reversed(request.feature_updates)}
    keeper = call.node.features()
    supported = [
        {name: (lowest, highest) for name, lowest, highest in broker.features}
        for broker in call.view.brokers.values()
        if broker.id != call.view.controller_id
    ]
    try:
        if keeper is None or not call.view.active:
            call.refuse_as_standby()
        only = getattr(request, "validate_only", False)
        results = await keeper.update(tuple(updates.values()), supported, validate_only=only)
    except RequestRejected as refused:
        return call.answer(error_code=refused.error_code, error_message=refused.message)
    except (DriverError, FormatError) as failure:
        _LOG.warning("features were not updated: %s", failure)
        told = RequestRejected(ErrorCode.FEATURE_UPDATE_FAILED, f"{_FAILED} {failure}")
        results = dict.fromkeys(updates, told)
    return call.answer(
        results=[
            {
                "feature": feature,
                "error_code": ErrorCode.NONE if why is None else why.error_code,
                "error_message": None if why is None else why.message,
            }
            for feature, why in sorted(results.items())
        ]
    )


def _update(asked: Any) -> FeatureUpdate:
    """Read an update of any version: the first one has a flag where later ones have a type."""
    if hasattr(asked, "upgrade_type"):
        known = {upgrade.value: upgrade for upgrade in Upgrade}
        upgrade = known.get(asked.upgrade_type, Upgrade.UNKNOWN)
    else:
        upgrade = Upgrade.SAFE_DOWNGRADE if asked.allow_downgrade else Upgrade.UPGRADE
    return FeatureUpdate(asked.feature, asked.max_version_level, upgrade)
