"""The detection functions of ``import hammingmark``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hammingmark.assembly.keys import load_key, method_of, splitter_of
from hammingmark.assembly.readers import ReaderFactory
from hammingmark.detection.detector import REFERENCES, Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.search import EveryKey, KeySearch, RankedKeys
from hammingmark.detection.thresholds import fit_calibration
from hammingmark.errors import CalibrationError, InputError
from hammingmark.keys.config import EMBEDDING, PARTS, MethodConfig, TokenizerId
from hammingmark.keys.key import WatermarkKey, as_label
from hammingmark.models.catalogue import CATALOGUE
from hammingmark.models.entries import EncoderCard
from hammingmark.protocols import (
    Backend,
    Encoder,
    Splitter,
    Tokenizer,
    Watermark,
)
from hammingmark.records import ExcludedKey, ExclusionReason, TopicName, Verdict
from hammingmark.stats.calibration import Calibration

MOST_TESTED = 8
"""More keys than this are ranked first if their method can rank, and only the best are tested."""

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
    encoders: Callable[[str], Encoder] | None = None,
    tokenizers: Callable[[TokenizerId], Tokenizer] | None = None,
) -> Detector | DetectorGroup:
    """A detector for keys of any methods, each with its own components.

    If the keys are of several methods, those are excluded whose method needs a language model for
    detection or, with ``edits``, does not support edits. Keyless keys are excluded if there are
    others: their tests are not exact, so that the search would not keep the level. The attribute
    ``keys`` of the detector is the number of keys that it searches, ``excluded`` has the others.

    Args:
        keys: keys, or their names or files.
        labels: search the keys derived from the single key by these labels.
        encoder: an encoder or its specification; by default that of each key.
        tokenizer: a tokenizer or the specification of its model; by default that of each key.
        splitter: by default that of each key.
        backend: the language model that wrote the texts, or its specification, for a method that
            draws every sentence again.
        level: the false-positive rate to keep, over all keys together.
        statistic: the statistic that decides; by default the first of the method.
        topic: whether the test is conditioned on the topic of the text; by default it is if the
            method allows it.
        edits: whether sentences may have been joined, split or inserted.
        references: K, the minimum number of reference keys.
        options: further arguments of the method for detection, such as HammingMark's
            ``alternative``.
        calibration: thresholds that decide instead of the p-value.
        threshold: a fixed threshold that decides instead of the p-value.
        encoders: loads an encoder by the name in a key; by default `load_encoder`.
        tokenizers: loads the tokenizer of a key; by default `tokenizer_of`.

    Raises:
        KeyMismatch: a key was made for another encoder or tokenizer.
        InputError: a language model is missing or superfluous; an option needs keys of one method,
            and these are of several; or no key can be searched.
    """
    searched = _distinct(keys)
    if calibration:
        if labels or len(searched) > 1 or calibration.key_id != searched[0].id:
            raise CalibrationError(
                f"The calibration was fitted for key {calibration.key_id} and is valid only for it."
            )
        statistic, level = calibration.statistic, calibration.level
    if labels is not None:
        searched = _derived(searched, labels)
    check_options(
        searched,
        backend=backend,
        others=(statistic, topic, calibration, threshold, splitter, options),
    )
    if threshold is not None and len(searched) > 1:
        raise InputError(
            "A fixed threshold is not corrected for the number of keys. Give it with only one key."
        )
    groups: dict[MethodConfig, list[WatermarkKey]] = {}
    for key in searched:
        groups.setdefault(key.config, []).append(key)
    method_options = options or {}
    watermarks = {config: method_of(group[0], **method_options) for config, group in groups.items()}
    watermarks, reasons = _searchable(
        watermarks, edits=edits, have_one_kind=_have_one_kind(searched)
    )
    excluded = _excluded(groups, reasons)
    readers = ReaderFactory(encoder, tokenizer, splitter, backend, edits, encoders, tokenizers)
    detectors = tuple(
        Detector(
            reader=readers.reader(watermark),
            search=_search(watermark, groups[config], method_options),
            level=level,
            statistic=statistic,
            topic=topic,
            references=references,
            calibration=calibration,
            threshold=threshold,
            excluded=excluded,
            english_encoder=_english_encoder(config),
        )
        for config, watermark in watermarks.items()
    )
    return detectors[0] if len(detectors) == 1 else DetectorGroup(detectors, level, excluded)


def check_options(
    keys: Sequence[WatermarkKey], *, backend: object, others: Collection[object]
) -> None:
    """Refuse options that do not fit the keys, before anything is downloaded.

    Args:
        keys: the keys to search.
        backend: the language model that wrote the texts; None or empty if there is none.
        others: options that need keys of one method with the same components; None and empty
            values count as not set.

    Raises:
        InputError: an option is set for keys of several methods, or a language model is missing or
            superfluous.
    """
    if not _have_one_kind(keys):
        if any(option not in (None, "", {}) for option in (backend, *others)):
            raise InputError(
                "These keys are of several methods or encoders, and a statistic, topic, "
                "calibration, threshold, encoder, backend, splitter or language needs keys of one. "
                "Omit it, or name fewer keys."
            )
        return
    watermark = method_of(keys[0])
    if watermark.capabilities.samples and not backend:
        raise InputError(
            f"For detection the method {watermark.name!r} needs the language model that wrote the "
            "text, to draw every sentence again. Name it as the backend (--backend)."
        )
    if backend and not watermark.capabilities.samples:
        raise InputError(
            f"The method {watermark.name!r} needs no language model for detection. Omit the "
            "backend (--backend)."
        )


def have_exact_tests(keys: Sequence[WatermarkKey]) -> bool:
    """Whether the p-values of a search are exact: not if all keys are keyless (`detector`)."""
    configs = {key.config: key for key in keys}
    return any(not method_of(key).capabilities.keyless for key in configs.values())


def _english_encoder(config: MethodConfig) -> str:
    """The encoder of the catalogue that keys of a configuration use, if it reads English only."""
    name = config.encoder.name if isinstance(config, EMBEDDING) else ""
    card = CATALOGUE[name].card if name in CATALOGUE else None
    return name if isinstance(card, EncoderCard) and card.language == "en" else ""


def _have_one_kind(keys: Sequence[WatermarkKey]) -> bool:
    """Whether the keys have one method, and the same encoder or tokenizer."""
    kinds = {
        (
            key.config.method,
            *(getattr(getattr(key.config, part, None), "fingerprint", None) for part in PARTS),
        )
        for key in keys
    }
    return len(kinds) == 1


def _searchable(
    watermarks: Mapping[MethodConfig, Watermark], *, edits: bool, have_one_kind: bool
) -> tuple[dict[MethodConfig, Watermark], dict[MethodConfig, ExclusionReason]]:
    """The watermarks that can be searched together, and why the others cannot.

    Raises:
        InputError: there is none.
    """
    reasons: dict[MethodConfig, ExclusionReason] = {}
    if not have_one_kind:  # otherwise an error says what is missing
        for config, watermark in watermarks.items():
            if watermark.capabilities.samples is not None:
                reasons[config] = "needs-model"
            elif edits and watermark.capabilities.read_edited is None:
                reasons[config] = "no-edits"
    able = watermarks.keys() - reasons.keys()
    keyless = {config for config in able if watermarks[config].capabilities.keyless}
    if keyless != able:
        reasons |= dict.fromkeys(keyless, "keyless")
    if not able:
        ability = "supports edits" if edits else "needs no language model for detection"
        raise InputError(f"None of these keys has a method that {ability}.")
    searchable = {
        config: watermark for config, watermark in watermarks.items() if config not in reasons
    }
    return searchable, reasons


def _excluded(
    groups: Mapping[MethodConfig, Sequence[WatermarkKey]],
    reasons: Mapping[MethodConfig, ExclusionReason],
) -> tuple[ExcludedKey, ...]:
    """The keys that are not searched, each once; of derived keys, the key they come from."""
    keys = [
        ExcludedKey(key.parent or key.id, config.method, reasons[config])
        for config, group in groups.items()
        if config in reasons
        for key in group
    ]
    return tuple(dict.fromkeys(keys))


def _derived(keys: Sequence[WatermarkKey], labels: Sequence[str]) -> list[WatermarkKey]:
    """The keys derived from a single key by these labels."""
    if len(keys) > 1:
        raise InputError("Labels can be searched under only one key at a time.")
    if isinstance(labels, str):
        raise InputError("labels must be a list of labels, not one label. Write [label].")
    distinct = list(dict.fromkeys(as_label(label) for label in labels))
    if not distinct:
        raise InputError("At least one label is needed.")
    return [keys[0].derive(label) for label in distinct]


def _search(
    watermark: Watermark, keys: Sequence[WatermarkKey], options: Mapping[str, object]
) -> KeySearch:
    """The search among keys of one configuration; the watermark is that of the first key."""
    ranker = watermark.capabilities.ranking
    if ranker is None:
        return EveryKey([watermark, *(method_of(key, **options) for key in keys[1:])])
    if len(keys) > MOST_TESTED:
        return RankedKeys(watermark, keys)
    return EveryKey([watermark, *(ranker.like(key) for key in keys[1:])])


@dataclass(frozen=True)
class DetectorSpec:
    """A picklable description from which a worker process builds its own detector.

    Attributes:
        keys: names or files of keys, which the worker reads; the description has no secret.
        options: further arguments of `detector`, as plain data.
    """

    keys: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Detector | DetectorGroup:
        """Build the detector."""
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
    """Test one text for the watermark. For many texts, use ``judge_many`` of a `detector`.

    Args:
        text: the text.
        key: a key, or its name or file, or several. The verdict's ``keys`` is the number of those
            searched: of several methods, some may be excluded (see `detector`).
        level: the false-positive rate to keep.
        language: of the text; by default that of the key.
        topic: whether the test is conditioned on the topic of the text (``given``) or not
            (``free``); by default it is if the method allows it.
        edits: whether sentences may have been joined, split or inserted.
        backend: the language model that wrote the text, for a method that draws every sentence
            again.
    """
    keys = _distinct(key)
    splitter = None if language is None else splitter_of(keys[0], language=language)
    return detector(
        keys, level=level, splitter=splitter, topic=topic, edits=edits, backend=backend
    ).judge(text)


def _distinct(keys: KeyReference | Sequence[KeyReference]) -> list[WatermarkKey]:
    """Load the keys, each once."""
    references = [keys] if isinstance(keys, (WatermarkKey, str, Path)) else list(keys)
    if not references:
        raise InputError("At least one key is needed.")
    loaded = [key if isinstance(key, WatermarkKey) else load_key(key) for key in references]
    return list({(key.id, key.config): key for key in loaded}.values())


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
    """Fit thresholds for a key on texts known to be unmarked."""
    watermark = method_of(key)
    if watermark.capabilities.samples:
        raise InputError(
            f"Calibration does not support the method {watermark.name!r}, which draws every "
            "sentence again. Use the p-value."
        )
    reader = ReaderFactory(encoder, tokenizer, splitter).reader(watermark)
    return fit_calibration(
        texts,
        reader=reader,
        watermark=watermark,
        statistic=statistic or watermark.statistics[0],
        level=level,
        provenance=provenance,
    )
