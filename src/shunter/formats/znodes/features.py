"""Znode `/feature`: the finalized features (KIP-584). Source: Apache Kafka 3.9, `FeatureZNode`."""

from __future__ import annotations

from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.text import Document, read_document, read_integer, read_object, read_version, write_document
from shunter.model.features import FinalizedFeatures

_HIGHEST = "max_version_level"
_LOWEST = "min_version_level"
_INT16 = 32_767


def decode_features(data: bytes | None) -> FinalizedFeatures:
    """Read `/feature`, versions 1 and 2.

    Raises:
        FormatError: it can't be read.
    """
    document = read_document(data, znodes.FEATURE)
    layout = read_version(document, znodes.FEATURE, (1, 2))
    enabled = read_integer(document, "status", znodes.FEATURE, high=1) == 1
    features = read_object(document, "features", znodes.FEATURE)
    levels = {name: _level(read_object(features, name, znodes.FEATURE), name, layout) for name in sorted(features)}
    return FinalizedFeatures(layout, enabled, levels)


def encode_features(features: FinalizedFeatures) -> bytes:
    """Print `/feature`."""
    kept: Document = {
        name: {_HIGHEST: level, **({_LOWEST: level} if features.layout == 1 else {})}
        for name, level in sorted(features.levels.items())
    }
    return write_document({"version": features.layout, "status": int(features.enabled), "features": kept})


def _level(levels: Document, name: str, layout: int) -> int:
    highest = read_integer(levels, _HIGHEST, znodes.FEATURE, low=1, high=_INT16)
    if layout == 1 and read_integer(levels, _LOWEST, znodes.FEATURE, low=1) > highest:
        raise FormatError(znodes.FEATURE, f"{_LOWEST} of feature {name!r} is above its {_HIGHEST} {highest}")
    return highest
