"""Errors in the form of RFC 9457 (`application/problem+json`): the request, the rule that it broke, the way out."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from pydantic import BaseModel, Field
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An error, for people and programs."""

    type: str = Field(default="about:blank", description="The kind of problem; a stable name after `urn:shunter:`.")
    title: str = Field(description="The kind in a few words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="The error: the wrong value, the rule and the way out.")
    instance: str = Field(default="", description="The path of the request.")


class HttpRefusal(Exception):
    """An answer that is an error. `kind` is a stable name, in words joined by `-`."""

    def __init__(self, status: HTTPStatus, kind: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = headers or {}


def problem_answer(refusal: HttpRefusal, path: str) -> Response:
    """The answer for a refusal."""
    problem = Problem(
        type=f"urn:shunter:{refusal.kind}",
        title=refusal.kind.replace("-", " "),
        status=int(refusal.status),
        detail=refusal.detail,
        instance=path,
    )
    return Response(orjson.dumps(problem.model_dump()), refusal.status, refusal.headers, MEDIA_TYPE)
