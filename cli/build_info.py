"""The version of the program, and what is installed with it."""

import platform
import re
import ssl
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from ..core.protocol.installation import installed_form, installed_version

_FORMS = {
    "compiled": "compiled by mypyc",
    "source": "source; a C compiler at the installation gives the compiled form",
}
_EXTRAS_OF_DEVELOPERS = ('extra == "test"', 'extra == "docs"')


def version_lines(*, is_verbose: bool) -> Iterator[str]:
    """Yield the version; if ``is_verbose``, also what the program consists of and runs on."""
    yield f"rhumbline, version {installed_version()}"
    if not is_verbose:
        return
    yield f"form       {_FORMS[installed_form()]}"
    yield f"python     {platform.python_implementation()} {platform.python_version()}"
    yield f"           {sys.executable}"
    yield f"tls        {ssl.OPENSSL_VERSION}"
    yield f"platform   {platform.platform()}"
    label = "packages"
    for name, found in _packages().items():
        yield f"{label:<10} {name} {found}"
        label = ""


def _packages() -> dict[str, str]:
    """Return the versions of the dependencies, those of extras too if they are installed."""
    found = {}
    for requirement in requires("rhumbline") or ():
        wanted, _, marker = requirement.partition(";")
        (name,) = re.findall(r"^[\w.-]*\w", wanted)
        if any(extra in marker for extra in _EXTRAS_OF_DEVELOPERS):
            continue
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            if "extra ==" not in marker:
                found[name] = "MISSING"
    return dict(sorted(found.items()))
