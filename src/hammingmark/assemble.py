"""Names and files to wired objects: the only caller of the registry.

Also the home of the front door's functions. Everything here takes ``settings``; by default they
are read from the environment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import getdoc
from pathlib import Path
from typing import Any

from hammingmark import registry
from hammingmark.attacks.settings import (
    REQUIRED,
    Setting,
    known_settings,
    read_settings,
    takes_splitter,
)
from hammingmark.core.calibration import Calibration
from hammingmark.core.presets import PresetName, ball
from hammingmark.core.statistics import Alternative
from hammingmark.environment import Environment, read_environment
from hammingmark.errors import CalibrationError, EncoderError, InputError, KeyMismatch
from hammingmark.keyring import Keyring
from hammingmark.keys import Secret, WatermarkKey
from hammingmark.libraries import require_libraries
from hammingmark.pipeline.calibrate import fit_calibration
from hammingmark.pipeline.detect import REFERENCES, Detector
from hammingmark.pipeline.generate import PAPER, GenerationConfig, Writer
from hammingmark.prompts import Asked, as_prompt
from hammingmark.protocols import Attack, Backend, Encoder, Splitter
from hammingmark.records import (
    Generation,
    Sampling,
    StatisticName,
    TopicName,
    Verdict,
)
from hammingmark.store.catalogue import CATALOGUE, DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.store.models import EncoderCard, GeneratorCard
from hammingmark.store.store import ModelStore, Report

DEFAULT_SPLITTER = "sentencex"
PROCEDURES = {"default": GenerationConfig(), "paper": PAPER}


def environment_now() -> Environment:
    """What the environment says."""
    return read_environment(os.environ)


def model_store(
    environment: Environment | None = None, *, progress: Report | None = None
) -> ModelStore:
    """The store of model files on this machine."""
    environment = environment or environment_now()
    return ModelStore(environment.cache, offline=environment.offline, progress=progress)


def load_splitter(name: str = DEFAULT_SPLITTER, *, language: str = "en") -> Splitter:
    """A splitter by its registered name."""
    splitter: Splitter = registry.find("splitters", name)(language=language)
    return splitter


def load_encoder(spec: str = DEFAULT_ENCODER, *, store: ModelStore | None = None) -> Encoder:
    """An encoder by what a user types.

    Args:
        spec: a name of the catalogue (``minilm``), a folder with a model of one's own,
            ``sbert:NAME`` for sentence-transformers, or ``openai:MODEL@URL`` for an endpoint
            (its key is read from OPENAI_API_KEY).
        store: where catalogue models are kept.
    """
    check_encoder(spec)
    encoder: Encoder
    kind, colon, rest = spec.partition(":")
    if spec in CATALOGUE:
        return _catalogue_encoder(spec, store or model_store())
    if colon and kind == "sbert":
        _keep_offline(store)
        encoder = registry.find("encoders", "sbert")(rest)
        return encoder
    if colon and kind == "openai":
        model, at, url = rest.partition("@")
        if not at or not model:
            raise InputError(f"{spec!r} should look like openai:MODEL@URL.")
        encoder = registry.find("encoders", "openai")(
            url, model, api_key=os.environ.get("OPENAI_API_KEY")
        )
        return encoder
    folder = Path(spec).expanduser()
    if folder.is_dir():
        runtime = _runtime_of(folder)
        part = registry.find("encoders", runtime)
        encoder = part(str(folder)) if runtime == "sbert" else part(folder, name=spec)
        return encoder
    if colon or os.sep in spec:
        raise InputError(f"No folder and no kind of encoder fits {spec!r}.")
    known = ", ".join(name for name, model in CATALOGUE.items() if model.role == "encoder")
    raise InputError(
        f"No encoder called {spec!r}: name one of {known}, a folder, sbert:NAME or "
        "openai:MODEL@URL."
    )


def check_encoder(spec: str) -> None:
    """Refuse an encoder whose libraries are missing, before its files are fetched.

    Raises:
        EncoderError: saying what to install.
    """
    card = CATALOGUE[spec].card if spec in CATALOGUE else None
    if spec.startswith("sbert:") or (isinstance(card, EncoderCard) and card.runtime == "sbert"):
        require_libraries(
            ("torch", "sentence_transformers"),
            part=f"The encoder {spec!r}",
            get="hammingmark[torch]",
            error=EncoderError,
        )


def load_backend(
    spec: str = DEFAULT_GENERATOR,
    *,
    store: ModelStore | None = None,
    width: int | None = None,
    parallel: int | None = None,
    context: int | None = None,
) -> Backend:
    """A language model by what a user types.

    Args:
        spec: a name of the catalogue, a GGUF file, ``openai:MODEL@URL`` for an endpoint (its key
            is read from OPENAI_API_KEY; without MODEL, the only one that it offers), or
            ``transformers:MODEL`` for a name of the catalogue, a folder, a GGUF file or a hub
            name in that library.
        store: where catalogue models are kept.
        width: how many candidates of one text to draw at once; by default what suits the backend.
        parallel: how many of all texts together; likewise.
        context: tokens that a prompt and its continuation may have together; likewise, and at
            most what the model was trained for.
    """
    check_backend(spec)
    backend: Backend
    more = {
        name: _at_least_one(value)
        for name, value in (("width", width), ("parallel", parallel))
        if value is not None
    }
    if context is not None:
        more["context"] = context
    if spec in CATALOGUE:
        model = CATALOGUE[spec]
        if not isinstance(model.card, GeneratorCard):
            raise InputError(f"{spec!r} is a {model.role}, not a language model.")
        folder = (store or model_store()).ensure(spec)
        backend = registry.find("backends", "llamacpp")(folder / model.card.file, name=spec, **more)
        return backend
    kind, colon, rest = spec.partition(":")
    if colon and kind == "openai":
        name, at, url = rest.partition("@http")  # names of models may have an @ of their own
        if not at:
            raise InputError(f"{spec!r} should look like openai:MODEL@URL.")
        if context is not None:
            raise InputError("The context of an endpoint is set where its server runs.")
        backend = registry.find("backends", "openai")(
            "http" + url, name, api_key=os.environ.get("OPENAI_API_KEY") or None, **more
        )
        return backend
    if colon and kind == "transformers":
        _keep_offline(store)
        model_path: str | Path = rest
        if rest in CATALOGUE and isinstance(card := CATALOGUE[rest].card, GeneratorCard):
            model_path = (store or model_store()).ensure(rest) / card.file
        backend = registry.find("backends", "transformers")(model_path, name=spec, **more)
        return backend
    file = Path(spec).expanduser()
    if file.suffix == ".gguf":
        backend = registry.find("backends", "llamacpp")(file, name=spec, **more)
        return backend
    known = ", ".join(name for name, model in CATALOGUE.items() if model.role == "generator")
    raise InputError(
        f"No language model called {spec!r}: name one of {known}, a .gguf file, "
        "openai:MODEL@URL or transformers:MODEL."
    )


def _keep_offline(store: ModelStore | None) -> None:
    """Have the libraries that resolve names on a hub keep to the offline switch too.

    They have a switch of their own, read when they are imported; until it is set they ask the hub
    again and again before they look at what is here.
    """
    if not (store or model_store()).offline:
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    if constants := sys.modules.get("huggingface_hub.constants"):
        vars(constants)["HF_HUB_OFFLINE"] = True


def check_backend(spec: str) -> None:
    """Refuse a language model whose libraries are missing, before its file is fetched.

    Raises:
        BackendError: saying what to install.
    """
    kind, _, rest = spec.partition(":")
    part = f"The language model {spec!r}"
    if kind == "transformers":
        reader = ("gguf",) if rest in CATALOGUE or rest.endswith(".gguf") else ()
        require_libraries(("torch", "transformers", *reader), part=part, get="hammingmark[torch]")
    elif spec in CATALOGUE or spec.endswith(".gguf"):
        require_libraries(("xllamacpp",), part=part, get="")


def _at_least_one(count: int) -> int:
    if count < 1:
        raise InputError(f"At least 1 candidate is drawn at once, not {count}.")
    return count


def writer(
    key: WatermarkKey | str | Path | None,
    *,
    backend: Backend | str = DEFAULT_GENERATOR,
    encoder: Encoder | str | None = None,
    splitter: Splitter | None = None,
    config: GenerationConfig | None = None,
) -> Writer:
    """A writer of marked text; without a key, of unmarked text by the same means.

    Raises:
        KeyMismatch: the key was made for another encoder, or has been retired.
    """
    loaded = load_key(key) if isinstance(key, (str, Path)) else key
    if loaded and loaded.retired:
        raise KeyMismatch(
            f"Key {loaded.id} was retired on {loaded.retired:%Y-%m-%d} and no longer marks; "
            f"use its successor {loaded.successor}."
        )
    if encoder is None or isinstance(encoder, str):
        encoder = load_encoder(encoder or (loaded.encoder if loaded else DEFAULT_ENCODER))
    if loaded:
        require_fit(loaded, encoder)
    return Writer(
        backend=load_backend(backend) if isinstance(backend, str) else backend,
        splitter=splitter or load_splitter(),
        encoder=encoder,
        watermark=registry.find("sentence_watermarks", "hamming")(loaded) if loaded else None,
        config=config or GenerationConfig(),
    )


def generate(
    prompt: Asked,
    *,
    key: WatermarkKey | str | Path | None,
    max_tokens: int = 200,
    seed: int = 0,
    backend: Backend | str = DEFAULT_GENERATOR,
    sampling: Sampling | None = None,
) -> Generation:
    """Continue a text, or answer a chat, with marked text. For many, make one `writer`.

    Args:
        prompt: a text, or messages such as ``[{"role": "user", "content": "…"}]``.
        key: a key, its name or its file; None writes text without the watermark.
        max_tokens: tokens to write at most.
        seed: decides every draw.
        backend: the language model.
        sampling: how it draws; by default what suits a text or a chat.
    """
    config = GenerationConfig(max_tokens=max_tokens)
    if sampling is not None:
        config = config.with_sampling(sampling)
    return writer(key, backend=backend, config=config).write(as_prompt(prompt), seed=seed)


def new_key(
    encoder: Encoder | str = DEFAULT_ENCODER,
    *,
    preset: PresetName = "default",
    bits: int | None = None,
    threshold: float | None = None,
    softness: float | None = None,
    residual: bool | None = None,
    note: str = "",
) -> WatermarkKey:
    """A key for an encoder, by a preset; other arguments override it.

    Args:
        encoder: an encoder, or the name of one.
        preset: ``default``, ``economical`` (fewer candidates), ``robust`` (more evidence), or
            ``paper`` (8 bits, of which 6 must match, sentences compared whole).
        bits: m.
        threshold: T.
        softness: s.
        residual: whether the residual of the next sentence is compared, or the whole sentence.
        note: what the key is for.
    """
    fitted = load_encoder(encoder) if isinstance(encoder, str) else encoder
    demand = ball(preset, bits=bits, threshold=threshold, softness=softness, residual=residual)
    return WatermarkKey(
        secret=Secret.fresh(),
        encoder=fitted.name,
        fingerprint=fitted.fingerprint,
        dimension=fitted.dimension,
        bits=demand.bits,
        threshold=demand.threshold,
        softness=demand.softness,
        residual=demand.residual,
        note=note,
    )


def load_key(reference: str | Path, *, environment: Environment | None = None) -> WatermarkKey:
    """A key by its file, or by its name or id in the keyring."""
    return Keyring((environment or environment_now()).keyring).find(str(reference)).key


def require_fit(key: WatermarkKey, encoder: Encoder) -> None:
    """Refuse a key that was made for another encoder.

    Raises:
        KeyMismatch: naming the encoder the key wants.
    """
    if key.fingerprint != encoder.fingerprint:
        raise KeyMismatch(
            f"Key {key.id} was made for the encoder {key.encoder!r} (fingerprint "
            f"{key.fingerprint[:12]}); this one is {encoder.name!r} "
            f"({encoder.fingerprint[:12]}), and their hashes have nothing in common. "
            f"Use --encoder {key.encoder}, or a key made for this encoder."
        )


def detector(
    keys: WatermarkKey | str | Path | Sequence[WatermarkKey | str | Path],
    *,
    encoder: Encoder | str | None = None,
    splitter: Splitter | None = None,
    level: float = 0.01,
    statistic: StatisticName = "margin",
    topic: TopicName = "given",
    edits: bool = False,
    references: int = REFERENCES,
    alternative: Alternative | None = None,
    calibration: Calibration | None = None,
    threshold: float | None = None,
) -> Detector:
    """A detector for one key or several, with the encoder that the first of them wants.

    Raises:
        KeyMismatch: a key was made for another encoder.
    """
    given = [keys] if isinstance(keys, (WatermarkKey, str, Path)) else list(keys)
    loaded = [key if isinstance(key, WatermarkKey) else load_key(key) for key in given]
    if not loaded:
        raise InputError("At least one key is needed.")
    rules = {(key.id, key.bits, key.threshold, key.softness, key.residual): key for key in loaded}
    distinct = list(rules.values())
    if encoder is None or isinstance(encoder, str):
        encoder = load_encoder(encoder or distinct[0].encoder)
    for key in distinct:
        require_fit(key, encoder)
    if calibration:
        if len(distinct) > 1 or calibration.key_id != distinct[0].id:
            raise CalibrationError(
                f"The calibration was fitted under key {calibration.key_id} and holds for it alone."
            )
        statistic, level = calibration.statistic, calibration.level
    method = registry.find("sentence_watermarks", "hamming")
    return Detector(
        splitter=splitter or load_splitter(),
        encoder=encoder,
        watermarks=[method(key, alternative=alternative) for key in distinct],
        level=level,
        statistic=statistic,
        topic=topic,
        edits=edits,
        references=references,
        calibration=calibration,
        threshold=threshold,
    )


def detect(
    text: str,
    *,
    key: WatermarkKey | str | Path | Sequence[WatermarkKey | str | Path],
    level: float = 0.01,
    language: str = "en",
    topic: TopicName = "given",
    edits: bool = False,
) -> Verdict:
    """Judge one text. For many, make one `detector` and call its ``judge_many``.

    Args:
        text: what to judge.
        key: a key, its name or its file; several are searched.
        level: false-positive rate to keep.
        language: of the text.
        topic: whether the test is conditioned on the text's topic (``given``) or not (``free``).
        edits: whether sentences may have been joined, split or inserted.
    """
    splitter = load_splitter(language=language)
    return detector(key, level=level, splitter=splitter, topic=topic, edits=edits).judge(text)


def calibrate_key(
    texts: Sequence[str],
    *,
    key: WatermarkKey,
    encoder: Encoder,
    splitter: Splitter,
    statistic: StatisticName,
    level: float,
    provenance: Mapping[str, Any],
) -> Calibration:
    """Thresholds for one key on texts known to be unmarked."""
    require_fit(key, encoder)
    return fit_calibration(
        texts,
        splitter=splitter,
        encoder=encoder,
        watermark=registry.find("sentence_watermarks", "hamming")(key),
        statistic=statistic,
        level=level,
        provenance=provenance,
    )


def _runtime_of(folder: Path) -> str:
    """Which encoder reads the model in a folder of the user's own."""
    onnx = ("model.onnx", "model_optimized.onnx", "onnx/model.onnx")
    if any((folder / name).is_file() for name in onnx):
        return "onnx"
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        config = {}
    if isinstance(config, dict) and config.get("model_type") == "model2vec":
        return "static"
    return "sbert"


def _catalogue_encoder(name: str, store: ModelStore) -> Encoder:
    model = CATALOGUE[name]
    card = model.card
    if not isinstance(card, EncoderCard):
        raise InputError(f"{name!r} is a {model.role}, not an encoder.")
    folder = store.ensure(name)
    encoder: Encoder
    if card.runtime == "sbert":
        encoder = registry.find("encoders", "sbert")(str(folder), name=name)
        return encoder
    hashes = {file.name: file.sha256 for file in model.files}
    if card.runtime == "static":
        encoder = registry.find("encoders", "static")(
            folder, name=name, prefix=card.prefix, max_tokens=card.max_tokens, hashes=hashes
        )
        return encoder
    encoder = registry.find("encoders", "onnx")(
        folder,
        name=name,
        pooling=card.pooling,
        prefix=card.prefix,
        max_tokens=card.max_tokens,
        dimension=card.dimension,
        hashes=hashes,
    )
    return encoder


def load_attack(
    name: str,
    *,
    splitter: Splitter,
    settings: Mapping[str, object] | None = None,
    store: ModelStore | None = None,
) -> Attack:
    """An attack by its registered name.

    Args:
        name: the name.
        splitter: finds sentences, for attacks that need them.
        settings: what else its constructor takes, as values or as a user types them: a language
            model and an encoder by what `load_backend` and `load_encoder` take, another attack by
            its name and its own settings behind a dot (``inner`` and ``inner.share``), a folder by
            its path or by a name of the catalogue.
        store: where catalogue models are kept.

    Raises:
        InputError: a setting is unknown, missing, or of another kind.
        HammingMarkError: a library is missing; then nothing has been fetched.
    """
    check_attack(name, settings or {})
    return _load_attack(name, splitter, settings or {}, store)


def check_attack(name: str, settings: Mapping[str, object]) -> None:
    """Refuse an attack if it or a part it is given lacks libraries, before anything is fetched.

    Raises:
        HammingMarkError: saying what to install.
    """
    part = registry.find("attacks", name)
    ours = part.__module__.startswith("hammingmark.")
    require_libraries(
        getattr(part, "libraries", ()),
        part=f"The attack {name!r}",
        get="hammingmark[attacks]" if ours else "",
    )
    for key, setting in known_settings(part).items():
        needed = setting.default is REQUIRED and setting.wants(Backend)
        value = settings.get(key, DEFAULT_GENERATOR if needed else None)
        if not isinstance(value, str):
            continue
        if setting.wants(Backend):
            check_backend(value)
        elif setting.wants(Encoder):
            check_encoder(value)
        elif setting.wants(Attack):
            check_attack(value, _behind(key, settings))


def _load_attack(
    name: str,
    splitter: Splitter,
    settings: Mapping[str, object],
    store: ModelStore | None,
    *,
    within: str = "",
) -> Attack:
    """The same for an attack that is a setting of another, which stands before its settings."""
    _keep_offline(store)
    part = registry.find("attacks", name)
    known = known_settings(part)
    given = read_settings(attack_settings(name, settings), settings, attack=name)
    chosen = {**getattr(part, "needs", {}), **{k: v for k, v in given.items() if k in known}}
    for key, setting in known.items():
        if key not in chosen and setting.default is REQUIRED:
            if not setting.wants(Backend):
                raise InputError(
                    f"The attack {name!r} needs the setting {key!r}: {setting.words}. On the "
                    f"command line it is given with --set {within}{key}=…, or with a file: "
                    f"--set {within}{key}=@FILE."
                )
            chosen[key] = DEFAULT_GENERATOR
        value = chosen.get(key)
        if not isinstance(value, str):
            continue
        if setting.wants(Backend):
            chosen[key] = load_backend(value, store=store)
        elif setting.wants(Encoder):
            chosen[key] = load_encoder(value, store=store)
        elif setting.wants(Attack):
            own = _behind(key, given)
            chosen[key] = _load_attack(value, splitter, own, store, within=f"{within}{key}.")
        elif setting.wants(Path) and value in CATALOGUE:
            chosen[key] = (store or model_store()).ensure(value)
        elif setting.wants(Path) and not setting.wants(str):
            chosen[key] = Path(value).expanduser()
    if takes_splitter(part):
        chosen["splitter"] = splitter
    attack: Attack = part(**chosen)
    return attack


def attack_names() -> list[str]:
    """The name of every attack, ours and those of installed packages."""
    return registry.names("attacks")


def describe_attack(name: str) -> tuple[str, dict[str, Setting]]:
    """An attack in one sentence, and what it can be told."""
    part = registry.find("attacks", name)
    return (getdoc(part) or "").partition("\n")[0], known_settings(part)


def attack_settings(name: str, given: Mapping[str, object]) -> dict[str, Setting]:
    """What an attack can be told, and behind a dot what the attacks can that it is given by name.

    Args:
        name: the attack's name.
        given: settings, of which the names of other attacks matter here.
    """
    known = known_settings(registry.find("attacks", name))
    for key, setting in list(known.items()):
        value = given.get(key)
        if setting.wants(Attack) and isinstance(value, str):
            for other, its in attack_settings(value, _behind(key, given)).items():
                known[f"{key}.{other}"] = replace(its, name=f"{key}.{other}")
    return known


def _behind(key: str, given: Mapping[str, object]) -> dict[str, object]:
    """The settings of the attack that is the setting ``key``, under their own names."""
    dotted = f"{key}."
    return {k.removeprefix(dotted): v for k, v in given.items() if k.startswith(dotted)}
