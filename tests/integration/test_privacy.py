"""Nothing is written about a user, nothing is looked up, and offline means offline; ``-m slow``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hammingmark.assembly.environment import environment_now

pytestmark = pytest.mark.slow

TEXT = "One sentence stands here. Another follows it. A third one ends it."


def run(home: Path, script: str, *before: str, **variables: str) -> str:
    """Run Python with a home of its own and the models that are here; its output."""
    unset = {"ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    cache = str(environment_now().cache)
    done = subprocess.run(
        [*before, sys.executable, "-c", script],
        env={**environment, "HOME": str(home), "HAMMINGMARK_CACHE": cache, **variables},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


DETECT = f"""
import hammingmark
print(hammingmark.detect({TEXT!r}, key=hammingmark.new_key()).p_value)
"""


@pytest.mark.usefixtures("minilm_folder")
def test_embedding_writes_nothing_about_the_user_and_looks_nothing_up(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    home = tmp_path / "home"
    home.mkdir()
    trace = shutil.which("strace")
    before = [trace, "-f", "-qq", "-e", "trace=socket,connect", "-o", str(log)] if trace else []
    run(home, DETECT, *before)
    assert files(home) == set()
    if trace is None:
        pytest.skip("no file was written; without strace it cannot be seen what is looked up")
    families = set(re.findall(r"socket\((AF_\w+)", log.read_text()))
    assert families <= {"AF_UNIX", "AF_NETLINK"}, log.read_text()


IMPORTED = """
import sys
from hammingmark.cli import main
sys.argv = ["hammingmark", {words}]
try:
    main()
except SystemExit as stop:
    assert not stop.code
assert "onnxruntime" not in sys.modules, "the runtime was loaded"
"""


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("words", ['"keys", "new", "--name", "a"', '"keys", "list"'])
def test_making_a_key_does_not_load_the_runtime(tmp_path: Path, words: str) -> None:
    run(tmp_path, IMPORTED.format(words=words), HAMMINGMARK_KEYRING=str(tmp_path / "ring"))
    assert files(tmp_path) <= {"ring/a.json"}


OFFLINE = """
import socket
def refuse(*given, **more):
    raise SystemExit(f"the network was asked for {given}")
socket.getaddrinfo = socket.socket.connect = refuse
from hammingmark.assembly.parts import load_attack
from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.parts import load_splitter
from hammingmark.errors import HammingMarkError
import numpy as np

def attack():
    made = load_attack("parrot", splitter=load_splitter(), parameters={"model": "nobody/no-such"})
    made.apply(["One here. Two here."], rng=np.random.default_rng(0))

for use in (
    lambda: load_encoder("sbert:nobody/no-such-encoder").encode(["One."]),
    lambda: load_backend("transformers:nobody/no-such-model").open(),
    attack,
):
    try:
        use()
    except HammingMarkError as error:
        print("refused:", error)
    else:
        raise SystemExit("nothing was refused")
"""


def test_names_on_a_hub_are_not_looked_up_offline(tmp_path: Path) -> None:
    output = run(tmp_path, OFFLINE, HAMMINGMARK_OFFLINE="1")
    refusals = output.split("refused:")[1:]
    assert len(refusals) == 3
    names = ("nobody/no-such-encoder", "nobody/no-such-model", "nobody/no-such")
    assert all(name in refusal for name, refusal in zip(names, refusals, strict=True)), output
