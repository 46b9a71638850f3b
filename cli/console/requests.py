"""Requests that change something: whose page sent them, and the JSON object that they carry."""

import asyncio
import json
from typing import Any

from starlette.requests import Request

from ...core.protocol.errors import InvalidArgumentError, PermissionDeniedError

JSON = "application/json"
_BODY_BYTES_MAX = 4096
_BODY_S_MAX = 10.0
_SAME = "same-origin"


def is_json(request: Request) -> bool:
    """Return whether a request says that its body is JSON."""
    return request.headers.get("content-type", "").partition(";")[0].strip() == JSON


def check_own_page(request: Request) -> None:
    """Raise PermissionDeniedError if a page of another site may have sent a request (rule CON-6).

    A browser sends the certificate with each request, whichever page makes it. Before a page of
    another site may send JSON, the browser sends a preflight request, which the console does not
    grant; and the request would name the origin of that site.
    """
    own = request.headers.get("host", "")
    origin = request.headers.get("origin", f"://{own}").partition("://")[2]
    site = request.headers.get("sec-fetch-site", _SAME)
    if not is_json(request) or origin != own or site != _SAME:
        raise PermissionDeniedError("the request is not from a page of this console")


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request carries.

    Raises InvalidArgumentError, and TimeoutError if the body does not arrive in time.
    """
    data = b""
    async with asyncio.timeout(_BODY_S_MAX):
        async for part in request.stream():
            data += part
            if len(data) > _BODY_BYTES_MAX:
                raise InvalidArgumentError(f"the request is longer than {_BODY_BYTES_MAX} bytes")
    try:
        found = json.loads(data)
    except ValueError as error:
        raise InvalidArgumentError("the request is not JSON") from error
    if not isinstance(found, dict):
        raise InvalidArgumentError("the request is not a JSON object")
    return found
