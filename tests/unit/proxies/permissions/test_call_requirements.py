"""Each call needs a permission, on the resource that its request names."""

import pytest

from rhumbline.proxies.permissions.call_requirements import REQUIREMENTS, UNRESTRICTED
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb


def test_no_method_is_without_a_rule() -> None:
    assert set(methods.METHODS) == {*REQUIREMENTS, *UNRESTRICTED, methods.APPEND}


@pytest.mark.parametrize("method", REQUIREMENTS, ids=lambda method: method.name)
def test_the_resource_is_that_of_the_request(method: methods.Method) -> None:
    fields = method.request.DESCRIPTOR.fields_by_name
    values = {"namespace": "acme", "stream": "orders", "topic": "orders", "prefix": "or"}
    request = method.request(**{name: value for name, value in values.items() if name in fields})
    found = str(REQUIREMENTS[method].resource(request))
    if "stream" in fields:
        assert found == "stream:acme/orders"
    elif "topic" in fields:
        assert found == "stream:acme/orders.*"
    elif "prefix" in fields:
        assert found == "stream:acme/or*"
    elif "namespace" in fields and method is not methods.PROBE_PROXY:
        assert found == "namespace:acme"
    else:
        assert found == "cluster"


def test_a_policy_without_a_stream_is_that_of_the_namespace() -> None:
    request = pb.SetPolicyRequest(namespace="acme")
    assert str(REQUIREMENTS[methods.SET_POLICY].resource(request)) == "namespace:acme"
