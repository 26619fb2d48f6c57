"""What `import hammingmark` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

from tests.errors import raises_naming

import hammingmark

PUBLIC = [
    "Evidence",
    "Generation",
    "HammingMarkError",
    "Passage",
    "UnitScore",
    "Verdict",
    "WatermarkKey",
    "__version__",
    "detect",
    "detector",
    "generate",
    "load_encoder",
    "load_key",
    "load_splitter",
    "new_key",
    "writer",
]
HEAVY = ["click", "httpx", "numpy", "onnxruntime", "rich", "sentencex", "tokenizers", "torch"]


def imported_by(code: str) -> set[str]:
    """The modules a fresh interpreter holds after some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_public_names_are_these() -> None:
    assert sorted(hammingmark.__all__) == PUBLIC
    assert dir(hammingmark) == PUBLIC


def test_every_public_name_is_there() -> None:
    parts = {name: getattr(hammingmark, name) for name in PUBLIC}
    assert None not in parts.values()
    assert {name: getattr(part, "__name__", name) for name, part in parts.items()} == {
        name: name for name in PUBLIC
    }


def test_other_names_are_not() -> None:
    with raises_naming(AttributeError, "generote"):
        _ = hammingmark.generote  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_heavy() -> None:
    modules = imported_by("import hammingmark; hammingmark.__version__; dir(hammingmark)")
    assert "hammingmark" in modules
    assert modules.isdisjoint(HEAVY)


def test_a_detector_needs_neither_the_command_line_nor_torch() -> None:
    modules = imported_by("from hammingmark import detector, new_key, load_splitter")
    assert "hammingmark.assembly.detection" in modules
    assert modules.isdisjoint(["click", "rich", "torch", "onnxruntime"])


def test_help_is_quick_because_it_imports_little() -> None:
    modules = imported_by(
        "from hammingmark.cli import cli\n"
        "try: cli(['--help'], standalone_mode=False)\n"
        "except SystemExit: pass"
    )
    assert "click" in modules
    assert modules.isdisjoint(["numpy", "onnxruntime", "rich", "torch", "hammingmark.assembly"])
