"""A misspelt region is refused with a suggestion wherever it is named."""

from pathlib import Path

from rhumbline.tests.support.processes.process_cluster import refusal, succeeded


def test_a_cluster_with_declared_regions_has_no_others(tmp_path: Path) -> None:
    store = ("-u", f"sqlite://{tmp_path}/metadata.db")

    def format_in(region: str, name: str) -> tuple[str, ...]:
        data = str(tmp_path / name)
        return ("bookie", "format", data, "--name", name, "--region", region, *store)

    succeeded("cluster", "init", "--regions", "bonn, oslo,rome", *store)
    succeeded("cluster", "init", "--regions", "rome,oslo,bonn", *store)
    code, line = refusal("cluster", "init", "--regions", "bonn,oslo", *store)
    assert (code, "declares other regions: bonn, oslo, rome" in line) == (2, True)

    code, line = refusal(*format_in("bon", "b1"))
    assert code == 2
    assert line == (
        "rhumbline: bookie b1 names region bon, which the cluster does not have (did you mean "
        "bonn?); its regions are bonn, oslo, rome; add one with `rhumbline region add`"
    )
    assert not (tmp_path / "b1").exists()
    code, line = refusal("stream", "append", "s", "--region", "oslp", *store)
    assert (code, "did you mean oslo?" in line) == (2, True)
    code, line = refusal("namespace", "create", "n", "--regions", "bonn,romm", *store)
    assert (code, "did you mean rome?" in line) == (2, True)

    succeeded(*format_in("bonn", "b1"))
    code, line = refusal("region", "remove", "bonn", *store)
    assert (code, "region bonn has 1 formatted bookies" in line) == (2, True)
    succeeded("region", "remove", "rome", *store)
    succeeded("region", "add", "paris", *store)
    listed = succeeded("region", "ls", *store).decode()
    assert "down" in listed
    assert "no bookies" in listed
    assert "rome" not in listed
    assert " open" not in listed

    code, line = refusal("bookie", "run", str(tmp_path / "b1"), "--host", "0.0.0.0", *store)
    assert (code, "set the address for clients" in line) == (2, True)
    code, line = refusal("write-proxy", "--host", "0.0.0.0", "--region", "bonn", *store)
    assert (code, "set the address for clients with --advertise" in line) == (2, True)
