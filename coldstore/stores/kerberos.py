"""Kerberos for the requests of a cold store. Only this module imports gssapi and requests_gssapi.

The credentials are those that the libraries of MIT Kerberos find for the process: a ticket in its
cache (KRB5CCNAME), or a keytab with which they get one (KRB5_CLIENT_KTNAME).
"""

from typing import Any

import requests

from ...core.protocol.errors import ConfigurationError, UnauthorizedError, UnavailableError
from ...core.protocol.installation import needs_extra

_EXTRA = "kerberos"
_KDC_UNREACHABLE, _REALM_UNRESOLVED = -1765328228, -1765328164
"""Codes of MIT Kerberos for a KDC that cannot be contacted."""


class TicketAuth(requests.auth.AuthBase):
    """Answers a server that asks for Kerberos, each request by itself: threads share a session.

    No credentials are delegated to the server.
    """

    def __init__(self) -> None:
        """Raises ConfigurationError if Kerberos is not installed."""
        self._gssapi, self._requests_gssapi = _libraries()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Let a request answer the server.

        Raises UnauthorizedError without a valid ticket, UnavailableError if the KDC cannot be
        contacted.
        """
        negotiate = self._requests_gssapi.HTTPSPNEGOAuth(creds=self._credentials())
        authenticated: requests.PreparedRequest = negotiate(request)
        return authenticated

    def _credentials(self) -> Any:  # noqa: ANN401 - the package may be absent
        """Return credentials that are valid now; an expired ticket is replaced with the keytab."""
        errors = self._gssapi.exceptions
        try:
            found = self._gssapi.Credentials(usage="initiate")
            found.inquire()  # contacts the KDC if there is no ticket yet
        except errors.GSSError as error:
            code = error.min_code - 2**32 if error.min_code >= 2**31 else error.min_code
            may_come = code in (_KDC_UNREACHABLE, _REALM_UNRESOLVED)
            kind = UnavailableError if may_come else UnauthorizedError
            raise kind(f"no Kerberos ticket: {error.gen_message()}") from error
        return found


def _libraries() -> tuple[Any, Any]:
    with needs_extra("Kerberos", _EXTRA):
        try:
            import gssapi
            import requests_gssapi
        except ModuleNotFoundError:
            raise
        except ImportError as error:
            raise ConfigurationError(f"the libraries of Kerberos are missing: {error}") from error
    return gssapi, requests_gssapi
