"""What pip's and the hub client's last words are turned into."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from hammingmark.errors import ModelUnavailable
from hammingmark.store import download as module
from hammingmark.store.sources import HubFile, Wheel

NO_NETWORK = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'
ERROR: Could not find a version that satisfies the requirement toy==1 (from versions: none)
ERROR: No matching distribution found for toy==1
"""
NO_VERSION = """\
ERROR: Could not find a version that satisfies the requirement toy==1 (from versions: 2)
ERROR: No matching distribution found for toy==1
"""


def child(monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    """Put another program in the place of pip or of the hub's client."""
    monkeypatch.setattr(module, name, script)
    monkeypatch.setattr(module, "_WATCH_SECONDS", 0.02)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (NO_NETWORK, "the package index cannot be reached"),
        (NO_VERSION, "the package index does not have it"),
        ("python: No module named pip", "pip is not installed"),
        ("ImportError: No module named pip", "pip is not installed"),
        ("pip: ERROR\nERROR: THESE PACKAGES DO NOT MATCH", "THESE PACKAGES DO NOT MATCH"),
        ("", "no reason given"),
    ],
)
def test_last_words_become_a_phrase(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, said: str
) -> None:
    child(monkeypatch, "_PIP", f"import sys; sys.stderr.write({words!r}); sys.exit(1)")
    with pytest.raises(ModelUnavailable, match=said):
        module.download(Wheel("toy==1", 1), tmp_path, lambda done: None)


def test_a_full_disk_is_an_error_of_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child(monkeypatch, "_PIP", "import sys; sys.exit('[Errno 28] No space left on device')")
    with pytest.raises(OSError, match="space") as caught:
        module.download(Wheel("toy==1", 1), tmp_path, lambda done: None)
    assert caught.value.errno == errno.ENOSPC


def test_a_wheel_is_found_and_watched_as_it_grows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = (
        "import sys, time, pathlib; assert 'download' in sys.argv; "
        "assert sys.argv[-1] == 'toy==1' and '--no-deps' in sys.argv; "
        "folder = pathlib.Path(sys.argv[sys.argv.index('-d') + 1]); "
        "(folder / 'toy.whl').write_bytes(bytes(1000)); time.sleep(0.1)"
    )
    child(monkeypatch, "_PIP", script)
    seen: list[int] = []
    path = module.download(Wheel("toy==1", 1), tmp_path, seen.append)
    assert path == tmp_path / "toy.whl"
    assert max(seen) == 1000


def test_a_wheel_for_another_python_is_asked_for_by_its_tags(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child(monkeypatch, "_PIP", "import sys; sys.exit('ERROR ' + ' '.join(sys.argv[-5:]))")
    wheel = Wheel("toy==1", 1, python="3.13", platform="manylinux_2_28_x86_64")
    with pytest.raises(ModelUnavailable, match=r"version 3\.13 --platform manylinux\S+ toy==1"):
        module.download(wheel, tmp_path, lambda done: None)


def test_pip_that_gives_no_wheel_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child(monkeypatch, "_PIP", "pass")
    with pytest.raises(ModelUnavailable, match="pip gave no wheel"):
        module.download(Wheel("toy==1", 1), tmp_path, lambda done: None)


def test_a_hub_file_keeps_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; repo, revision, path, folder = sys.argv[1:]; "
        "assert (repo, revision) == ('org/toy', 'main'); "
        "target = pathlib.Path(folder, path); target.parent.mkdir(); target.write_text('hub')"
    )
    child(monkeypatch, "_HUB", script)
    path = module.download(HubFile("org/toy", "main", "sub/f.bin"), tmp_path, lambda done: None)
    assert path.read_text() == "hub"


def test_an_interrupt_ends_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = "import time, pathlib; time.sleep(1); pathlib.Path('late').write_text('x')"
    child(monkeypatch, "_PIP", script)

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        module.download(Wheel("toy==1", 1), tmp_path, interrupt)
    assert not (tmp_path / "late").exists()
