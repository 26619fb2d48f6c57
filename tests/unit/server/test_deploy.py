"""What deploy/ holds starts the service: its variables, options and times are those there are."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command import run_here
from tests.unit.server.harness import LoopThread, Served, key_of

from hammingmark.assembly.environment import CACHE, KEYRING, OFFLINE, read_environment
from hammingmark.keys.keyring import Keyring
from hammingmark.server.config import CONFIG_FILE, describe, read_config, variable_of
from hammingmark.server.service import Service
from hammingmark.server.settings import ServerConfig
from hammingmark.testing import FakeBackend, FakeEncoder

ROOT = Path(__file__).parents[3]
STATE = "/var/lib/hammingmark"
LAST_WORDS = 20  # seconds that ending takes beyond the grace, and more
GRACE = ServerConfig().limits.shutdown_grace


def lines_of(name: str) -> list[str]:
    """The lines of a file, those that a backslash continues as one."""
    text = (ROOT / "deploy" / name).read_text()
    return re.sub(r"\\\n#? *", "", text).splitlines()


def shown(name: str, program: str) -> list[list[str]]:
    """The commands in a file's head that call a program."""
    told = [shlex.split(line[1:]) for line in lines_of(name) if line.startswith("#   ")]
    return [words for words in told if words[0] == program]


def given(name: str) -> dict[str, str]:
    """The variables that a file sets."""
    settings = [line for line in lines_of(name) if line.startswith(("ENV ", "Environment="))]
    return dict(re.findall(r"\b(HAMMINGMARK_\w+)=(\S+)", "\n".join(settings)))


def unit() -> Iterator[tuple[str, str]]:
    """The settings of the unit of systemd."""
    for line in lines_of("hammingmark.service"):
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            yield name, value


@pytest.mark.parametrize("name", ["Dockerfile", "hammingmark.service"])
def test_every_variable_is_one_that_is_read(name: str) -> None:
    known = {CACHE, KEYRING, OFFLINE, CONFIG_FILE}
    known |= {variable_of(each.name) for each in describe(ServerConfig())}
    assert given(name)
    named = set(re.findall(r"HAMMINGMARK_\w+", (ROOT / "deploy" / name).read_text()))
    assert named <= known


def test_the_image_runs_as_its_head_says(tmp_path: Path, loop: LoopThread) -> None:
    variables = {
        each: value.replace(STATE, str(tmp_path)) for each, value in given("Dockerfile").items()
    }
    _, first, last = shown("Dockerfile", "docker")
    for words in (first, last):
        assert words[:2] == ["docker", "run"]
        assert words[words.index("-v") + 1] == f"hammingmark:{STATE}"
    made = run_here(*first[first.index("hammingmark") + 1 :], folder=tmp_path, variables=variables)
    assert made.returncode == 0, made.stderr
    assert last[-1] == "hammingmark"  # and so what CMD says
    (command,) = (line[len("CMD ") :] for line in lines_of("Dockerfile") if line[:4] == "CMD ")
    checked = run_here(*json.loads(command), "--check", folder=tmp_path, variables=variables)
    assert checked.returncode == 0, checked.stderr
    config = read_config(None, environ=variables, flags={})
    environment = read_environment(variables)
    Keyring(environment.keyring).add(key_of(), name=config.key)  # as the first start does
    service = Service(config, environment=environment, backend=FakeBackend(), encoder=FakeEncoder())
    served = Served(service, loop, token=made.stdout.decode().strip())
    try:
        assert served.get("/v1/models").status_code == 200
        assert served.get("/healthz").status_code == 200
    finally:
        served.close()
    assert config.audit.file is not None
    assert config.audit.file.exists()
    assert int(last[last.index("--stop-timeout") + 1]) >= GRACE + LAST_WORDS


def test_the_unit_starts_the_service_with_the_settings_that_are_shown(tmp_path: Path) -> None:
    (command,) = (value for name, value in unit() if name == "ExecStart")
    program, *arguments = shlex.split(command)
    place = arguments.index("--config") + 1
    assert arguments[place] == "/etc/hammingmark/serve.toml"
    (page,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "operate.md").read_text(), re.S)
    assert STATE in page
    settings = tmp_path / "serve.toml"
    settings.write_text(page.replace(STATE, str(tmp_path)))
    arguments[place] = str(settings)
    checked = run_here(*arguments, "--check", folder=tmp_path)
    assert checked.returncode == 0, checked.stderr
    (words,) = shown("hammingmark.service", "runuser")
    assert words[words.index("--file") + 1] in page
    made = run_here(
        *(each.replace(STATE, str(tmp_path)) for each in words[words.index(program) + 1 :]),
        folder=tmp_path,
    )
    assert made.returncode == 0, made.stderr


def test_what_the_unit_lets_the_service_write_is_where_it_writes() -> None:
    settings = dict(unit())
    variables = given("hammingmark.service")
    assert variables[KEYRING].startswith(f"/var/lib/{settings['StateDirectory']}/")
    assert variables[CACHE] == f"/var/cache/{settings['CacheDirectory']}"


def test_the_unit_gives_answers_under_way_their_time() -> None:
    assert int(dict(unit())["TimeoutStopSec"]) >= GRACE + LAST_WORDS
