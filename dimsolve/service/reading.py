"""The body of a request, within limits of type, size and time.

Content-Type: application/json      anything else   415
at most so many bytes               more            413, and the connection is closed
within so many seconds              later           408, and the connection is closed
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from .pool import ClientGone
from .replies import Refusal

_CHARSETS = ("", "charset=utf-8", 'charset="utf-8"')


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Returns the bytes of the body. Raises Refusal, or ClientGone where the client went away."""
    _check_headers(request)
    if int(request.headers.get("content-length", "0")) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(seconds):
            body = await _received(request, most)
    except TimeoutError:
        raise Refusal(
            408, "too-slow", "the request is too slow", f"its body took more than {seconds:g} s"
        ) from None
    if body is None:
        raise _too_large(most)
    return body


async def wait_until_gone(request: Request) -> None:
    """Returns when the client has gone away; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _check_headers(request: Request) -> None:
    media, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    encoding = request.headers.get("content-encoding", "identity")
    title = "the body is no JSON in UTF-8"
    hint = "send the header Content-Type: application/json"
    if media.strip() != "application/json" or parameters.strip() not in _CHARSETS:
        reason = "the media type has to be application/json"
        raise Refusal(415, "not-json-type", title, reason, hint)
    if encoding.lower() != "identity":
        reason = "compressed bodies are not read"
        raise Refusal(415, "content-encoding", title, reason, "send it as it is")


async def _received(request: Request, most: int) -> bytes | None:
    """The body; None as soon as it is too large."""
    chunks: list[bytes] = []
    size = 0
    more = True
    while more and size <= most:
        chunk, more = await _chunk(request)
        chunks.append(chunk)
        size += len(chunk)
    if size > most:
        return None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _chunk(request: Request) -> tuple[bytes, bool]:
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def _too_large(most: int) -> Refusal:
    return Refusal(
        413,
        "too-large",
        "the body is too large",
        f"at most {most} bytes are read",
        "ask in smaller parts",
    )
