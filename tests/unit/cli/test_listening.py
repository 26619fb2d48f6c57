"""The addresses at which the service listens."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from tests.command import run_here
from tests.errors import raises_naming
from tests.unit.server.harness import key_of

from hammingmark.cli.serve import listening, url_of
from hammingmark.errors import InputError
from hammingmark.keys.keyring import Keyring
from hammingmark.server.marking.sentence_record import SentenceRecord


def test_who_comes_early_waits() -> None:
    with listening("127.0.0.1", 0) as sockets:
        (made,) = sockets
        port = made.getsockname()[1]
        assert url_of("127.0.0.1", sockets) == f"http://127.0.0.1:{port}"
        assert url_of("::1", sockets) == f"http://[::1]:{port}"
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_name_is_every_address_of_it() -> None:
    with listening("localhost", 0) as sockets:
        assert {each.getsockname()[0] for each in sockets} <= {"127.0.0.1", "::1"}
        assert sockets


def test_addresses_that_this_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several is skipped; if there is no other, an error names it."""
    kind = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
    addresses = [(*kind, ("192.0.2.1", 0)), (*kind, ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **options: addresses)
    with listening("here", 0) as sockets:
        assert [each.getsockname()[0] for each in sockets] == ["127.0.0.1"]
    del addresses[1]
    with raises_naming(InputError, "here", 0, "--host"):
        listening("here", 0).__enter__()


def test_what_cannot_be_is_said_before_anything_is_made(tmp_path: Path) -> None:
    ring = {"HAMMINGMARK_KEYRING": str(tmp_path / "keys")}
    with listening("127.0.0.1", 0) as sockets:
        port = str(sockets[0].getsockname()[1])
        taken = run_here("serve", "--port", port, folder=tmp_path, variables=ring)
    assert taken.returncode == 1
    assert f"port {port}: address already in use" in taken.stderr.decode()
    shut = run_here("serve", "--api-keys", "none", folder=tmp_path, variables=ring)
    assert shut.returncode == 1
    assert "api-keys new" in shut.stderr.decode()
    assert b"Serving" not in taken.stderr + shut.stderr
    assert not (tmp_path / "keys").exists()


def test_a_key_that_is_misspelt_is_not_made(tmp_path: Path) -> None:
    Keyring(tmp_path / "keys").add(key_of(), name="blog")
    ring = {"HAMMINGMARK_KEYRING": str(tmp_path / "keys")}
    for check in ([], ["--check"]):
        done = run_here("serve", "--key", "bolg", *check, folder=tmp_path, variables=ring)
        assert done.returncode == 1
        assert "No key 'bolg'" in done.stderr.decode()
    assert [file.name for file in (tmp_path / "keys").glob("*.json")] == ["blog.json"]
    assert run_here("serve", "--check", folder=tmp_path, variables=ring).returncode == 0


@pytest.mark.parametrize("every", ["never", "month", "request"])
def test_the_check_says_which_key_marks(tmp_path: Path, every: str) -> None:
    ring = {"HAMMINGMARK_KEYRING": str(tmp_path / "keys")}
    settings = ("serve", "--check", "--set", f"rotation.every={every}", "--audit-log", "audit")
    before = run_here(*settings, folder=tmp_path, variables=ring)
    assert before.returncode == 0
    assert b"hm-" not in before.stdout  # the key is made at the first start
    Keyring(tmp_path / "keys").add(key_of(), name="default")
    record = SentenceRecord(tmp_path / "keys" / "marked")
    record.add(key_of().id, "", 1204)
    record.write()
    lines = run_here(*settings, folder=tmp_path, variables=ring).stdout.decode().splitlines()
    (said,) = [line for line in lines if line.startswith(f"{key_of().id} marks")]
    label = re.search(r" of the label (\S+) \(UTC\)", said)
    assert (label is None) == (every != "month")
    if label:
        assert key_of().derive(label[1]).id in said
    assert ("for each request" in said) == (every == "request")
    assert (lines[-1] == said) == (every == "request")
    assert lines[-1].startswith("1,204 sentences") == (every == "never")
