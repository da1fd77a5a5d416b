"""Finalized features (KIP-584): levels that hold for the whole cluster, and when they count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

SHUNTER_FEATURE: Final = "shunter"
"""The feature that Shunter's controller lists in its answer to ApiVersions. Shunter's tools recognize it by that: any
other controller would ignore the tagged fields of the tools' requests."""

Protocol: TypeAlias = tuple[int, int, int]
"""An `inter.broker.protocol.version`: 3.9-IV0 is (3, 9, 0); a name without a suffix ends in a large number."""


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The contents of `/feature`. `layout` is the znode's version: 1, or 2 from protocol 3.3 on."""

    layout: int
    enabled: bool
    levels: Mapping[str, int] = field(default_factory=dict[str, int])
