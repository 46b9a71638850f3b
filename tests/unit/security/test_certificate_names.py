import pytest

from rhumbline.security.certificate_names import CertificateNames, principal_of_certificate
from rhumbline.security.principal import ANONYMOUS, Principal, Role

CLIENT = frozenset({Role.CLIENT})


def test_the_spiffe_id_is_the_name_else_the_common_name() -> None:
    names = CertificateNames(("app",), (), ("https://x", "spiffe://acme/app"))
    assert principal_of_certificate(names) == Principal("spiffe://acme/app", CLIENT)
    assert principal_of_certificate(CertificateNames(("app",))) == Principal("app", CLIENT)


def test_a_certificate_without_a_name_or_with_two_ids_is_nobodys() -> None:
    assert principal_of_certificate(CertificateNames()) is ANONYMOUS
    two = CertificateNames(("app",), (), ("spiffe://a/1", "spiffe://a/2"))
    assert principal_of_certificate(two) is ANONYMOUS
    assert ANONYMOUS.is_anonymous
    assert str(ANONYMOUS) == "anonymous"


@pytest.mark.parametrize(
    ("units", "roles"),
    [
        (("0:bookie",), {Role.BOOKIE}),
        (("0:proxy, repair", "Storage"), {Role.PROXY, Role.REPAIR}),
        (("admin",), {Role.CLIENT}),
        (("0:emperor",), {Role.CLIENT}),
    ],
)
def test_roles_are_in_units_of_bookkeepers_form(units: tuple[str, ...], roles: set[Role]) -> None:
    found = principal_of_certificate(CertificateNames(("b",), units))
    assert found.roles == roles


def test_roles_in_the_settings_replace_those_of_the_certificate() -> None:
    names = CertificateNames(("b",), ("0:admin",))
    assert principal_of_certificate(names, {"b": "client"}).roles == {Role.CLIENT}
    assert principal_of_certificate(names, {"b": "proxy,repair"}).roles == {
        Role.PROXY,
        Role.REPAIR,
    }
