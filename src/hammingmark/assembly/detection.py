"""The front door's functions that judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hammingmark.assembly.backends import load_tokenizer, shared_backend, tokenizer_of
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import (
    load_key,
    method_of,
    require_part,
    splitter_of,
)
from hammingmark.detection.calibrate import fit_calibration
from hammingmark.detection.detector import REFERENCES, Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.reader import (
    ContextReader,
    SentenceReader,
    TextReader,
    TokenReader,
)
from hammingmark.detection.resampling import SamplingReader
from hammingmark.detection.search import EveryKey, KeySearch, RankedKeys
from hammingmark.errors import CalibrationError, InputError, KeyMismatch
from hammingmark.keys.config import (
    EMBEDDING,
    ContextConfig,
    MethodConfig,
    SentenceConfig,
    TokenConfig,
    TokenizerId,
)
from hammingmark.keys.key import WatermarkKey, as_label
from hammingmark.protocols import (
    Backend,
    ContextRule,
    Encoder,
    Splitter,
    Tokenizer,
)
from hammingmark.records import TopicName, Verdict
from hammingmark.stats.calibration import Calibration

MOST_TESTED = 8
"""More keys than this are ranked first, where their method can, and only the best are tested."""

KeyReference = WatermarkKey | str | Path


def detector(
    keys: KeyReference | Sequence[KeyReference],
    *,
    labels: Sequence[str] | None = None,
    encoder: Encoder | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    splitter: Splitter | None = None,
    backend: Backend | str | None = None,
    level: float = 0.01,
    statistic: str = "",
    topic: TopicName | None = None,
    edits: bool = False,
    references: int = REFERENCES,
    options: Mapping[str, object] | None = None,
    calibration: Calibration | None = None,
    threshold: float | None = None,
) -> Detector:
    """A detector for one key or several of one method, with the parts that the first wants.

    Args:
        keys: keys, their names or their files.
        labels: search the keys that are derived from the one key by these labels.
        encoder: by default the one that the first key was made for.
        tokenizer: likewise, or what a user types to get the model whose it is.
        splitter: likewise.
        backend: the language model that wrote the texts, or what a user types to get it, for a
            method that draws every sentence again.
        level: false-positive rate to keep, over all keys together.
        statistic: which of the method's statistics decides; by default its first.
        topic: whether the test is conditioned on the text's topic; by default where it can be.
        edits: whether sentences may have been joined, split or inserted.
        references: K, the least number of reference keys.
        options: how the method is to judge, such as HammingMark's ``alternative``.
        calibration: thresholds to decide by instead of the p-value.
        threshold: one fixed threshold to decide by instead of the p-value.

    Raises:
        KeyMismatch: a key was made for another encoder or tokenizer, or is of another method.
        InputError: the method needs a language model and there is none, or the other way round.
    """
    distinct = list({(key.id, key.config): key for key in _loaded(keys)}.values())
    first = distinct[0]
    for key in distinct[1:]:
        if key.config.method != first.config.method:
            raise KeyMismatch(
                f"Key {first.id} is of the method {first.config.method!r} and {key.id} of "
                f"{key.config.method!r}; search the keys of one method at a time."
            )
    if calibration:
        if labels or len(distinct) > 1 or calibration.key_id != first.id:
            raise CalibrationError(
                f"The calibration was fitted under key {calibration.key_id} and holds for it alone."
            )
        statistic, level = calibration.statistic, calibration.level
    return Detector(
        reader=_reader(
            distinct,
            encoder=encoder,
            tokenizer=tokenizer,
            splitter=splitter,
            backend=backend,
            edits=edits,
        ),
        search=_search(distinct, labels, options or {}),
        level=level,
        statistic=statistic,
        topic=topic,
        references=references,
        calibration=calibration,
        threshold=threshold,
    )


def detector_of_all(
    keys: Sequence[WatermarkKey],
    *,
    level: float = 0.01,
    edits: bool = False,
    encoders: Callable[[str], Encoder] = load_encoder,
    tokenizers: Callable[[TokenizerId], Tokenizer] = tokenizer_of,
) -> Detector | DetectorGroup:
    """A detector for keys of any methods, each with the parts that it wants.

    Args:
        keys: the keys.
        level: false-positive rate to keep, over all keys together.
        edits: whether sentences may have been joined, split or inserted; keys of methods that do
            not allow for it are then left out.
        encoders: gives the encoder of a name.
        tokenizers: gives the tokenizer that a key was made for.

    Raises:
        InputError: there is no key, none whose method allows for edits, or only such as are judged
            with a language model.
    """
    groups: dict[MethodConfig, list[WatermarkKey]] = {}
    for key in keys:
        groups.setdefault(key.config, []).append(key)
    made = []
    for config, some in groups.items():
        capabilities = method_of(some[0]).capabilities
        if capabilities.samples or (edits and capabilities.read_edited is None):
            continue
        encoder = encoders(config.encoder.name) if isinstance(config, EMBEDDING) else None
        tokenizer = tokenizers(config.tokenizer) if isinstance(config, TokenConfig) else None
        made.append(detector(some, level=level, edits=edits, encoder=encoder, tokenizer=tokenizer))
    if not made:
        able = "allows for edits" if edits else "is judged without the model that wrote the text"
        raise InputError(f"None of these keys is of a method that {able}.")
    return made[0] if len(made) == 1 else DetectorGroup(tuple(made), level)


def _search(
    keys: list[WatermarkKey], labels: Sequence[str] | None, options: Mapping[str, object]
) -> KeySearch:
    watermark = method_of(keys[0], **options)
    if labels is not None:
        if len(keys) > 1:
            raise InputError("Labels are searched under one key at a time.")
        if isinstance(labels, str):
            raise InputError("labels is a list of labels, not one. Write [label].")
        wanted = list(dict.fromkeys(as_label(label) for label in labels))
        if not wanted:
            raise InputError("At least one label is needed.")
        keys = [keys[0].derive(label) for label in wanted]
    ranker = watermark.capabilities.ranking
    if ranker is None or len({key.config for key in keys}) > 1:
        return EveryKey([method_of(key, **options) for key in keys])
    if len(keys) > MOST_TESTED:
        return RankedKeys(watermark, keys)
    return EveryKey([ranker.like(key) for key in keys])


def _reader(
    keys: Sequence[WatermarkKey],
    *,
    encoder: Encoder | str | None,
    tokenizer: Tokenizer | str | None,
    splitter: Splitter | None,
    backend: Backend | str | None = None,
    edits: bool = False,
) -> TextReader:
    config = keys[0].config
    count = samples_wanted(keys, backend=backend)
    if isinstance(config, TokenConfig):
        if edits:
            raise InputError(f"The method {config.method!r} does not allow for edits.")
        if isinstance(tokenizer, str):
            tokenizer = load_tokenizer(tokenizer)
        tokenizer = tokenizer or tokenizer_of(config.tokenizer)
        for key in keys:
            require_part(key, "tokenizer", tokenizer)
        if not isinstance(config, ContextConfig):
            return TokenReader(tokenizer)
        return ContextReader(tokenizer, _encoder(keys, config, encoder), _contexts_of(keys))
    assert isinstance(config, SentenceConfig)
    if count is not None and edits:
        raise InputError(f"The method {config.method!r} does not allow for edits.")
    encoder = _encoder(keys, config, encoder)
    splitter = splitter or splitter_of(keys[0])
    if count is None or backend is None:
        return SentenceReader(splitter, encoder, edits=edits)
    model = shared_backend(backend) if isinstance(backend, str) else backend
    return SamplingReader(splitter, encoder, model, count)


def _encoder(
    keys: Sequence[WatermarkKey],
    config: SentenceConfig | ContextConfig,
    encoder: Encoder | str | None,
) -> Encoder:
    """The encoder that is given, or that of a configuration; it must be every key's."""
    if encoder is None or isinstance(encoder, str):
        encoder = load_encoder(encoder or config.encoder.name)
    for key in keys:
        require_part(key, "encoder", encoder)
    return encoder


def _contexts_of(keys: Sequence[WatermarkKey]) -> ContextRule:
    """What says where contexts change: the same for all keys.

    Raises:
        InputError: these keys have other parameters than those, on which it may depend.
    """
    mark = method_of(keys[0])
    rule = mark.capabilities.context
    assert rule is not None, f"{mark.name} declares no context"
    if len({key.config for key in keys}) > 1:
        raise InputError(
            f"These keys of the method {mark.name!r} differ in their parameters. Search those that "
            "have the same."
        )
    return rule


def samples_wanted(keys: Sequence[WatermarkKey], *, backend: Backend | str | None) -> int | None:
    """How many sentences to draw for each of a text; None where the method draws none.

    Raises:
        InputError: the method draws, and there is no model; or there is one for nothing.
    """
    mark = method_of(keys[0])
    scorer = mark.capabilities.samples
    if scorer is None:
        if backend is not None:
            raise InputError(
                f"The method {mark.name!r} is judged without a language model. Leave the backend "
                "out."
            )
        return None
    if backend is None:
        raise InputError(
            f"The method {keys[0].config.method!r} is judged with the language model that wrote "
            "the text, which draws every sentence again. Name it as the backend (--backend)."
        )
    others = (method_of(key).capabilities.samples for key in keys[1:])
    if any(other is None or other.samples != scorer.samples for other in others):
        raise InputError(
            "These keys differ in how many sentences are drawn. Search those of one number."
        )
    return scorer.samples


@dataclass(frozen=True)
class DetectorSpec:
    """What a worker process needs to build a detector of its own. It can be pickled.

    Attributes:
        keys: names or files of keys, which the worker reads for itself: no secret is in here.
        options: further arguments of `detector` that are plain data.
    """

    keys: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Detector:
        """The detector."""
        return detector(list(self.keys), **self.options)


def detect(
    text: str,
    *,
    key: KeyReference | Sequence[KeyReference],
    level: float = 0.01,
    language: str | None = None,
    topic: TopicName | None = None,
    edits: bool = False,
    backend: Backend | str | None = None,
) -> Verdict:
    """Judge one text. For many, make one `detector` and call its ``judge_many``.

    Args:
        text: what to judge.
        key: a key, its name or its file; several are searched.
        level: false-positive rate to keep.
        language: of the text; by default the one that the key was made for.
        topic: whether the test is conditioned on the text's topic (``given``) or not (``free``);
            by default where the method can be.
        edits: whether sentences may have been joined, split or inserted.
        backend: the language model that wrote the text, for a method that draws it again.
    """
    keys = _loaded(key)
    splitter = splitter_of(keys[0], language=language)
    made = detector(keys, level=level, splitter=splitter, topic=topic, edits=edits, backend=backend)
    return made.judge(text)


def _loaded(keys: KeyReference | Sequence[KeyReference]) -> list[WatermarkKey]:
    given = [keys] if isinstance(keys, (WatermarkKey, str, Path)) else list(keys)
    if not given:
        raise InputError("At least one key is needed.")
    return [key if isinstance(key, WatermarkKey) else load_key(key) for key in given]


def calibrate_key(
    texts: Sequence[str],
    *,
    key: WatermarkKey,
    encoder: Encoder | None = None,
    tokenizer: Tokenizer | None = None,
    splitter: Splitter | None = None,
    statistic: str = "",
    level: float,
    provenance: Mapping[str, Any],
) -> Calibration:
    """Thresholds for one key on texts known to be unmarked."""
    watermark = method_of(key)
    if watermark.capabilities.samples:
        raise InputError(
            f"Thresholds are not fitted for the method {watermark.name!r}, which draws every "
            "sentence again; decide by the p-value."
        )
    reader = _reader([key], encoder=encoder, tokenizer=tokenizer, splitter=splitter)
    return fit_calibration(
        texts,
        reader=reader,
        watermark=watermark,
        statistic=statistic or watermark.statistics[0],
        level=level,
        provenance=provenance,
    )
