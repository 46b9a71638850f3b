"""The Helm chart, rendered by helm: valid objects of Kubernetes that start commands that exist."""

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from rhumbline.cli.config_file import load_settings
from rhumbline.tests.support.servers.installs import helm_binary
from rhumbline.tests.support.tidy.source_tree import ROOT
from rhumbline.tests.support.tidy.started_commands import check_command

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # the first run builds helm

CHART = ROOT / "deploy/helm/rhumbline"
KUBERNETES = "1.31"
SMALL: dict[str, Any] = {"region": "eu", "metadata": "etcd://etcd:2379/"}
FULL: dict[str, Any] = {
    **SMALL,
    "tls": {"secretName": "rhumbline-tls"},
    "externalDomain": "eu.example.com",
    "settings": {"writer": {"outstanding_bytes_max": "32MiB"}},
    "bookies": {
        "zones": [{"name": "eu-a", "replicas": 1}, {"name": "eu-b", "replicas": 2}],
        "storageClassName": "fast",
    },
    "archive": {"enabled": True, "cold": "s3://acme/production"},
    "networkPolicy": {
        "bookieClients": ["10.1.0.0/16"],
        "proxyClients": ["10.0.0.0/8"],
        "operators": ["10.9.0.0/24"],
    },
}


def helm(folder: Path, values: dict[str, Any], verb: str = "template") -> str:
    """Run helm on the chart with ``values`` and return what it printed. Raises AssertionError."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    version = ["--kube-version", f"{KUBERNETES}.0"]
    name = ["rb"] if verb == "template" else []
    result = subprocess.run(
        [helm_binary(), verb, *name, CHART, *version, "--values", file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def rendered(folder: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a release."""
    return [found for found in yaml.safe_load_all(helm(folder, values)) if found]


def containers(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all containers, those that run first too."""
    pods = [item["spec"]["template"]["spec"] for item in objects if "template" in item["spec"]]
    return [each for pod in pods for each in (*pod.get("initContainers", ()), *pod["containers"])]


@pytest.mark.parametrize("values", [SMALL, FULL], ids=["small", "full"])
def test_objects_are_valid_and_hardened(tmp_path: Path, values: dict[str, Any]) -> None:
    helm(tmp_path, values, "lint")
    objects = rendered(tmp_path, values)
    for each in objects:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    for container in containers([each for each in objects if "spec" in each]):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        check_command(container["args"])
        hook = container.get("lifecycle", {}).get("preStop")
        if hook is not None:
            check_command(hook["exec"]["command"][1:])


@pytest.mark.parametrize("values", [SMALL, FULL], ids=["small", "full"])
def test_settings_are_valid(tmp_path: Path, values: dict[str, Any]) -> None:
    (settings,) = [each for each in rendered(tmp_path, values) if each["kind"] == "ConfigMap"]
    file = tmp_path / "rhumbline.toml"
    file.write_text(settings["data"]["rhumbline.toml"])
    loaded = load_settings(file, options={}).settings
    assert (loaded.cluster.region, loaded.cluster.metadata) == ("eu", "etcd://etcd:2379/")
    assert bool(loaded.tls.ca) == ("tls" in values)


def test_clients_do_not_reach_the_port_for_operators(tmp_path: Path) -> None:
    objects = rendered(tmp_path, FULL)
    policies = {
        each["metadata"]["name"]: each["spec"]["ingress"]
        for each in objects
        if each["kind"] == "NetworkPolicy"
    }
    for kind in ("write-proxy", "read-proxy"):
        callers = {
            rule["ports"][0]["port"]: [
                each["ipBlock"]["cidr"] for each in rule.get("from", ()) if "ipBlock" in each
            ]
            for rule in policies[f"rb-{kind}"]
        }
        assert callers == {"grpc": ["10.0.0.0/8"], "operators": ["10.9.0.0/24"], "status": []}
    proxies = [each for each in containers([o for o in objects if "spec" in o])
               if each["name"] == "proxy"]  # fmt: skip
    for proxy in proxies:
        environ = {each["name"]: each.get("value") for each in proxy["env"]}
        ports = {each["name"]: each["containerPort"] for each in proxy["ports"]}
        assert environ["RHUMBLINE_PROXY__OPERATOR_PORT"] == str(ports["operators"]) == "4291"
    assert len(proxies) == 2
    shared = str(rendered(tmp_path, {**FULL, "operatorPort": 0}))
    assert "operators" not in shared and "OPERATOR_PORT" not in shared


def test_servers_without_an_address_for_clients_publish_that_of_their_pod(tmp_path: Path) -> None:
    """`doctor` asked 0.0.0.0 for their state: there is no other name of such a pod."""
    found = {each["name"]: each["env"] for each in containers(
        [each for each in rendered(tmp_path, FULL) if "spec" in each]
    )}  # fmt: skip
    for kind in ("repair", "archive"):
        (host,) = [one for one in found[kind] if one["name"] == "RHUMBLINE_SERVE__STATUS_HOST"]
        assert host["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_each_zone_has_its_bookies_and_nothing_but_a_region_is_assumed(tmp_path: Path) -> None:
    objects = rendered(tmp_path, FULL)
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    assert {("StatefulSet", "rb-bookie-eu-a"), ("StatefulSet", "rb-bookie-eu-b")} <= names
    assert {("PodDisruptionBudget", f"rb-{kind}") for kind in ("bookie", "write-proxy")} <= names
    assert ("Deployment", "rb-archive") in names
    assert ("Deployment", "rb-archive") not in {
        (each["kind"], each["metadata"]["name"]) for each in rendered(tmp_path, SMALL)
    }
    with pytest.raises(AssertionError, match="region: the name of this region"):
        helm(tmp_path, {"metadata": "etcd://etcd:2379/"})
