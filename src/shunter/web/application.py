"""The HTTP application: routes, guards, errors and the OpenAPI document, joined."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from shunter import __version__
from shunter.model.service import OrderRefused
from shunter.web import entrance, ordering, reading, sign_on_routes
from shunter.web.guards import Guards
from shunter.web.page_files import PageFiles
from shunter.web.problems import MEDIA_TYPE, HttpRefusal, Problem, problem_answer
from shunter.web.reception import Reception, reception_of, refusal_of

MODULES = (entrance, sign_on_routes, reading, ordering)
MOST_ERRORS = 10
"""Errors of a request that are named."""
_PROBLEM: dict[int | str, dict[str, Any]] = {
    each: {
        "description": "A problem: what was asked, which rule it broke, and the way out.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for each in ("4XX", "5XX")
}


def make_application(reception: Reception, hosts: Collection[str]) -> FastAPI:
    """The application. `hosts`: the host names that requests may have."""
    application = FastAPI(
        title="Shunter",
        version=__version__,
        summary="Moves Kafka partitions between brokers: stoppable, reversible, nothing lost",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=_PROBLEM,
        generate_unique_id_function=lambda route: route.name.replace("_", "-"),
    )
    application.state.reception = reception
    for module in MODULES:
        application.include_router(module.router)
    files = PageFiles()
    _add_page(application, files)
    _answer_errors(application, files)
    _describe(application)
    application.add_middleware(Guards, hosts=hosts)
    return application


def _add_page(application: FastAPI, files: PageFiles) -> None:
    async def page(request: Request) -> Response:
        return files.page(request)

    async def file(request: Request, digest: str, name: str) -> Response:
        found = files.file(digest, name, request.headers)
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return found

    for path in ("/", "/clusters/{rest:path}", "/timeline"):
        application.add_api_route(path, page, include_in_schema=False)
    application.add_api_route("/assets/{digest}/{name:path}", file, include_in_schema=False)


def _answer_errors(application: FastAPI, files: PageFiles) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpRefusal)
        return await reception_of(request).refused(request, error)

    async def refused_by_service(request: Request, error: Exception) -> Response:
        assert isinstance(error, OrderRefused)
        return await reception_of(request).refused(request, refusal_of(error))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        every = error.errors()
        named = [f"{'.'.join(map(str, each['loc']))[:200]}: {each['msg'][:200]}" for each in every[:MOST_ERRORS]]
        told = "; ".join([*named, *([f"and {len(every) - MOST_ERRORS} more"] if len(every) > MOST_ERRORS else [])])
        # 400: the request does not fit the OpenAPI document. A request that fits but can't be carried out gets 422.
        return await reception_of(request).refused(request, HttpRefusal(HTTPStatus.BAD_REQUEST, "invalid", told))

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error.__cause__, HttpRefusal):  # FastAPI was reading a body that is too large.
            return await reception_of(request).refused(request, error.__cause__)
        status = HTTPStatus(error.status_code)
        if status is HTTPStatus.NOT_FOUND and _is_for_people(request):
            return files.page(request, status)
        kind = status.phrase.lower().replace(" ", "-")
        told = f"{request.method} {request.url.path[:200]}: {error.detail}; /api/v1/openapi.json lists all requests"
        headers = dict(error.headers or {})
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = _methods_of(application, request)
        return await reception_of(request).refused(request, HttpRefusal(status, kind, told, headers))

    async def broken(request: Request, _error: Exception) -> Response:
        told = "this is a bug in Shunter, and the service's log says more; the request may have been carried out or not"
        return problem_answer(HttpRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", told), request.url.path)

    application.add_exception_handler(HttpRefusal, refused)
    application.add_exception_handler(OrderRefused, refused_by_service)
    application.add_exception_handler(RequestValidationError, invalid)
    application.add_exception_handler(HTTPException, failed)
    application.add_exception_handler(Exception, broken)


def _is_for_people(request: Request) -> bool:
    """Whether a browser asks for a page. The page says that there is no such page, and how to go on."""
    no_page = request.url.path.startswith(("/api/", "/assets/"))
    return request.method == "GET" and "text/html" in request.headers.get("accept", "") and not no_page


def _methods_of(application: FastAPI, request: Request) -> str:
    """All methods of a path. Each route has one method, and the framework names only the method of the first route."""
    routes = (*application.routes, *(route for module in MODULES for route in module.router.routes))
    fitting = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    methods = {method for route in fitting for method in getattr(route, "methods", None) or ()}
    return ", ".join(sorted(methods))


def _describe(application: FastAPI) -> None:
    """Add to the OpenAPI document what FastAPI does not know: problems, and authentication by token."""
    made = application.openapi

    def described() -> dict[str, Any]:
        document = made()
        components = document.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}, {}]
        return document

    rendering: list[asyncio.Task[bytes]] = []

    async def document() -> Response:
        # Made once, and not on the event loop: it takes half a second, and nobody has to show a token for it.
        if not rendering:
            rendering.append(asyncio.create_task(asyncio.to_thread(lambda: orjson.dumps(application.openapi()))))
        rendered = await asyncio.shield(rendering[0])
        return Response(rendered, headers={"cache-control": "no-cache"}, media_type="application/json")

    application.openapi = described  # type: ignore[method-assign]
    application.add_api_route("/api/v1/openapi.json", document, include_in_schema=False)
