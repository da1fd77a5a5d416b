"""What to install where a verb's package is missing."""

from __future__ import annotations

_OF_VERBS = {
    "controller": "controller",
    "pipeline": "pipeline",
    "serve": "service",
    "token": "service",
    "why": "controller",
}
_PACKAGES = {
    "deltalake",
    "fastapi",
    "jwt",
    "pandas",
    "py4j",
    "pyarrow",
    "pydantic",
    "pydantic_settings",
    "pyspark",
    "scipy",
    "sse_starlette",
    "starlette",
    "uvicorn",
}
"""The modules that extras bring."""


def way_out(missing: ModuleNotFoundError, verb: str | None) -> str | None:
    """Say what brings a module that is not installed; None: no extra has it.

    Args:
        verb: the first word of the command line. A verb without an extra needs a package for one option alone.
    """
    module = (missing.name or "").partition(".")[0]
    if module not in _PACKAGES:
        return None
    wanted = f"shunter[{_OF_VERBS[verb]}]" if verb in _OF_VERBS else module
    return f"{module} is not installed: pip install '{wanted}'"
