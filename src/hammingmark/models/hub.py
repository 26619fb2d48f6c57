"""The model hub: files of its repositories, and whether it can be reached."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from hammingmark.errors import HashMismatch, ModelUnavailable
from hammingmark.models.child import error_of, python_command, run_child
from hammingmark.models.sources import Remote, Source, Tick, Workbench, read_file

_ANSWER_SECONDS = 2.0
_STALL_SECONDS = 30.0
SWITCHED_OFF = "HF_HUB_OFFLINE is set"

_OFFLINE, _OTHER_HASH = 3, 4

# The hub's own client handles the endpoint, proxies, certificates and its offline switch. The child
# prints a line before it sends the request, so that a slow start does not count as a slow network.
# A refusal comes from a proxy, because the hub does not refuse its front page.
_PROBE = f"""
import sys
from huggingface_hub import constants
from huggingface_hub.utils import get_session
if constants.HF_HUB_OFFLINE:
    sys.exit({_OFFLINE})
print("asking", flush=True)
status = get_session().head(constants.ENDPOINT, timeout=float(sys.argv[1])).status_code
sys.exit(status in (403, 407, 451) or status >= 500)
"""
# The hub reports the SHA-256 of large files in advance, so that a wrong file is not downloaded.
# Without the client's protocol for parts of files, the file grows steadily, which shows progress.
_FETCH = f"""
import os, sys
os.environ["HF_HUB_DISABLE_XET"] = "1"
from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
repo, revision, path, sha256, folder = sys.argv[1:]
etag = get_hf_file_metadata(hf_hub_url(repo, path, revision=revision)).etag or ""
if len(etag) == len(sha256) and etag != sha256:
    sys.exit({_OTHER_HASH})
hf_hub_download(repo, path, revision=revision, local_dir=folder)
"""


class HubUnreachable(ModelUnavailable):
    """The hub did not respond, or stopped responding."""


@dataclass(frozen=True, slots=True)
class HubFile(Source, Remote):
    """A file in a repository of the model hub.

    Attributes:
        repo: the repository, ``owner/name``.
        revision: a commit or a branch; the hash is checked in either case.
        path: the file in the repository.
        sha256: the pinned hash.
        size: bytes.
    """

    repo: str
    revision: str
    path: str
    sha256: str
    size: int

    @property
    def label(self) -> str:
        """The repository."""
        return f"the hub's {self.repo}"

    @property
    def downloads(self) -> tuple[Remote, ...]:
        """The file itself."""
        return (self,)

    @property
    def streams(self) -> bool:
        """True: the download is the file itself and is not kept."""
        return True

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The content of the file."""
        path = workbench.fetch(self)
        yield from read_file(path)
        path.unlink()

    def fetch(self, folder: Path, tick: Tick) -> Path:
        """Download it with the hub's client.

        Raises:
            HubUnreachable: the hub does not respond.
            HashMismatch: the hub has a file with another hash.
        """
        arguments = [self.repo, self.revision, self.path, self.sha256, str(folder)]
        failure = run_child(
            [*python_command(_FETCH), *arguments],
            folder=folder,
            tick=tick,
            patience=_STALL_SECONDS,
        )
        if failure is None:
            return folder / self.path
        if failure.code == _OTHER_HASH:
            raise HashMismatch("the hub has a file with another SHA-256")
        error = error_of(failure, place="the hub")
        if failure.kind in ("unreachable", "stalled"):
            raise HubUnreachable(str(error), kind=failure.kind) from error
        raise error


def ask_hub() -> str | None:
    """Why the hub cannot be used, or None if it can; takes at most a few seconds.

    A child process requests the front page, and is killed if the network hangs.
    """
    with TemporaryDirectory() as folder:
        child = subprocess.Popen(
            [*python_command(_PROBE), str(_ANSWER_SECONDS)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with child:
            try:
                if child.stdout is not None:
                    child.stdout.readline()
                code = child.wait(timeout=_ANSWER_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                return f"no response within {_ANSWER_SECONDS:g} s"
            except BaseException:
                child.kill()
                raise
    if code == _OFFLINE:
        return SWITCHED_OFF
    return "no connection" if code else None


class Hub:
    """Whether the hub can be reached; checked once."""

    def __init__(self, ask: Callable[[], str | None] = ask_hub) -> None:
        self._ask = ask
        self._lock = Lock()
        self._checked = False
        self._reason: str | None = None

    def unreachable(self, warn: Callable[[str], None]) -> str | None:
        """Why the hub cannot be used, or None.

        Args:
            warn: called with the reason the first time, unless it is the user's offline switch.
        """
        with self._lock:
            if not self._checked:
                self._reason = self._ask()
                self._checked = True
                if self._reason is not None and self._reason != SWITCHED_OFF:
                    warn(self._reason)
            return self._reason

    def give_up(self, reason: str) -> None:
        """Do not use the hub again in this process."""
        with self._lock:
            self._checked, self._reason = True, reason


HUB = Hub()
"""The state of the hub in this process."""
