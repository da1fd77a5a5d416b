"""Answers that are views, each rendered once for all equal requests, and the models that the OpenAPI document shows."""

from __future__ import annotations

import inspect
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.requests import Request
from starlette.responses import Response

from shunter.views.service import render

KEPT = 256
"""The number of answers that are kept rendered."""


class RenderedAnswers:
    """Answers of one version of the service's view, by question. Many open pages ask the same question."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(4)  # Versions start again with every run of the service.
        self._kept: OrderedDict[tuple[object, ...], tuple[int, bytes]] = OrderedDict()

    def answer(
        self, request: Request, question: tuple[object, ...], version: int, make: Callable[[], object]
    ) -> Response:
        """The answer to a question, rendered again only if the version changed; 304 if the caller has this version."""
        tag = f'"{self._run}-{version}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        kept = self._kept.get(question)
        if kept is None or kept[0] != version:
            kept = (version, render(make()))
            self._kept[question] = kept
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(question)
        return Response(
            kept[1], media_type="application/json", headers={"etag": tag, "cache-control": "private, no-cache"}
        )


# ---- views in the OpenAPI document

_MODELS: dict[type, type[BaseModel]] = {}


def model_of(view: type) -> type[BaseModel]:
    """The pydantic model with a view's fields and descriptions; the JSON that `render` makes of the view fits it."""
    if view not in _MODELS:
        hints = get_type_hints(view)
        words = _words_of_fields(view)
        names = [field.name for field in fields(view)] if is_dataclass(view) else list(cast("Any", view)._fields)
        shapes: dict[str, Any] = {
            name: (_shape(hints[name]), Field(description=words.get(name) or name.replace("_", " "))) for name in names
        }
        about = inspect.cleandoc(view.__doc__ or "").replace("`", "")
        # Extra fields are an error: a test compares answers with the document, and fails if an answer has more fields.
        _MODELS[view] = create_model(view.__name__, __config__=ConfigDict(extra="forbid"), __doc__=about, **shapes)
    return _MODELS[view]


def _shape(hint: Any) -> Any:
    """The type that the value has in JSON: a view becomes a model, a tuple a list."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(_shape(each) for each in arguments)]  # noqa: UP007 - made from a list
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return list[_shape(arguments[0])]  # type: ignore[misc]
    if origin in (dict, Mapping) or getattr(origin, "__name__", "") == "Mapping":
        return dict[str, _shape(arguments[1])]  # type: ignore[misc]
    if isinstance(hint, type) and not issubclass(hint, Enum) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return model_of(hint)
    return hint


_FIELD = re.compile(r'^    (\w+): [^\n]*\n(?:    """(.*?)"""\n)?', re.DOTALL | re.MULTILINE)


def _words_of_fields(view: type) -> dict[str, str]:
    """Each field's docstring, from the view's source."""
    found = _FIELD.findall(inspect.getsource(view))
    return {name: " ".join(words.replace("`", "").split()) for name, words in found if words}
