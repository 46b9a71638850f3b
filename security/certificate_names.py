"""The principal that a certificate names.

The name is the SPIFFE id among the URIs of the certificate, else its common name. The roles are in
an organisational unit of the form ``0:role,role``, as in the certificates of Apache BookKeeper, or
are given to the name in the settings.
"""

from collections.abc import Mapping
from typing import NamedTuple

from .principal import ANONYMOUS, Principal
from .token_claims import parse_roles

_SPIFFE = "spiffe://"
_UNIT_PREFIX = "0:"


class CertificateNames(NamedTuple):
    """The names in a certificate: of its subject, and its URIs."""

    common_names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


def principal_of_certificate(
    names: CertificateNames, roles_by_name: Mapping[str, str] | None = None
) -> Principal:
    """Return the principal of a verified certificate; anonymous if it names nobody.

    A certificate with several SPIFFE ids is invalid by SPIFFE, and names nobody either.
    ``roles_by_name`` has roles, separated by commas, which replace those of the certificate.
    """
    ids = [uri for uri in names.uris if uri.startswith(_SPIFFE)]
    if len(ids) > 1 or not (ids or names.common_names):
        return ANONYMOUS
    name = ids[0] if ids else names.common_names[0]
    given = (roles_by_name or {}).get(name)
    return Principal(name, parse_roles(given if given is not None else _roles(names.units)))


def _roles(units: tuple[str, ...]) -> str:
    return ",".join(unit.removeprefix(_UNIT_PREFIX) for unit in units if unit.startswith("0:"))
