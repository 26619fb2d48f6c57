"""Clients of others, unchanged, against a service with the embedded model.

OpenAI's client for Python is always tried. `make clients` installs the others and names their
folder in ``CLIENTS``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving import Served, keep_key, serve

pytestmark = pytest.mark.slow

_SCRIPTS = Path(__file__).parents[1] / "clients"
_FOLDER = Path(os.environ["CLIENTS"]).absolute() if "CLIENTS" in os.environ else None
_TIMEOUT = 900  # seconds, after which a client hangs


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("clients")
    keep_key(folder)
    with serve(folder) as made:
        yield made


def run(command: list[str], served: Served) -> None:
    """Run a script, which fails where an assertion of it does."""
    env = {**os.environ, "BASE_URL": served.url, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=_TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_openai_for_python(served: Served) -> None:
    run([sys.executable, "-W", "error", str(_SCRIPTS / "with_openai.py")], served)


@pytest.mark.parametrize(
    "script", sorted(path.name for path in _SCRIPTS.iterdir() if path.name.startswith("with_"))
)
def test_other_clients(script: str, served: Served) -> None:
    if _FOLDER is None:
        pytest.skip("CLIENTS is not set; `make clients` installs the clients and runs this")
    if script.endswith(".py"):
        run([str(_FOLDER / "python" / "bin" / "python"), str(_SCRIPTS / script)], served)
    else:  # Node looks for packages beside the script
        copy = _FOLDER / "node" / script
        copy.write_bytes((_SCRIPTS / script).read_bytes())
        run(["node", str(copy)], served)
