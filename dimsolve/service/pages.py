"""The pages for people: the playground at ``/``, the reference at ``/docs``, and their parts.

Nothing of them comes from another host, and the headers hold browsers to that: no script, style or
picture but those that stand in ``static``, no requests to anybody else, no frame around a page.
"""

from __future__ import annotations

from mimetypes import add_type
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from .reference import reference

STATIC = Path(__file__).with_name("static")
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked for again each time, and answered "not modified"
}


def add_pages(app: FastAPI) -> None:
    """Adds the routes of the pages; they are no part of the API's description."""

    async def playground(request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    async def docs(request: Request) -> Response:
        base = f"{request.url.scheme}://{request.headers.get('host', '')}"
        text = await run_in_threadpool(reference, app.openapi(), base)
        return HTMLResponse(text, headers=HEADERS)

    add_type("text/javascript", ".js")  # some systems say text/plain, which no browser runs
    for path, page in (("/", playground), ("/docs", docs)):
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", Parts(directory=STATIC), name="static")


class Parts(StaticFiles):
    """Scripts and styles, with the headers of the pages."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Returns a file, or that it is not modified."""
        response = super().file_response(*args, **kwargs)
        response.headers.update(HEADERS)
        return response
