"""Look-alikes of Latin letters: which are folded, and which belong to their text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from string import ascii_letters

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hammingmark.attacks.spelling import Homoglyphs
from hammingmark.text.characters import clean, even_line_ends
from hammingmark.text.folding import added_length, fold
from hammingmark.text.look_alikes import DIGITS, FORMS, NEAR, PUNCTUATION, SAME, SIGNS
from hammingmark.text.structure import normalise

TEXT = (
    "The river rose in the night, and it didn't stop. By morning it had reached the old mill! "
    "Had anyone seen it come? I saw a boat; nobody answered. Dr. Hale wrote 3.5 feet in his TV "
    "guide, as so often. OK?"
)
TABLES = [FORMS, SIGNS, SAME, NEAR, DIGITS, PUNCTUATION]


def respelled(*tables: dict[str, str]) -> Callable[[str], str]:
    """Writes every letter, digit or mark by the last of its look-alikes in the tables."""
    others = {
        letter: other for table in tables for other, letter in table.items() if len(letter) == 1
    }
    return lambda text: "".join(others.get(character, character) for character in text)


def part(table: dict[str, str], first: int, last: int) -> dict[str, str]:
    return {other: letter for other, letter in table.items() if first <= ord(other) <= last}


WIDE = respelled(part(FORMS, 0xFF21, 0xFF5A), part(DIGITS, 0xFF10, 0xFF19), PUNCTUATION)
STYLES = {
    "full-width": lambda text: WIDE(text).replace(" ", "\u3000"),
    "bold": respelled(part(FORMS, 0x1D400, 0x1D433), part(DIGITS, 0x1D7CE, 0x1D7D7)),
    "sans-serif": respelled(part(FORMS, 0x1D5A0, 0x1D5D3)),
    "monospaced": respelled(part(FORMS, 0x1D670, 0x1D6A3), part(DIGITS, 0x1D7F6, 0x1D7FF)),
    "each word in another style": lambda text: " ".join(
        respelled(part(FORMS, 0x1D400 + 52 * (i % 13), 0x1D433 + 52 * (i % 13)))(word)
        for i, word in enumerate(text.split(" "))
    ),
}


@pytest.mark.parametrize("style", STYLES)
def test_a_text_in_another_style_has_the_sentences_of_the_original(style: str) -> None:
    attacked = STYLES[style](TEXT)
    assert attacked != TEXT
    assert normalise(attacked) == TEXT


@pytest.mark.parametrize("alphabet", ["cyrillic", "greek", "both"])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_the_attack_homoglyphs_changes_no_sentence(alphabet: str, share: float) -> None:
    attack = Homoglyphs(share=share, alphabet=alphabet)  # type: ignore[arg-type]
    attacked = attack.apply([TEXT] * 20, rng=np.random.default_rng(1))
    assert TEXT not in attacked
    assert {normalise(text) for text in attacked} == {TEXT}


@given(st.data())
def test_any_letter_of_a_word_may_be_respelled(data: st.DataObject) -> None:
    """By what the attack does not use, too; the first two letters remain."""
    word = data.draw(st.text(st.sampled_from(ascii_letters[:26]), min_size=3, max_size=9))
    for table in (FORMS, SIGNS, SAME, NEAR):
        spellings = [[letter, *(o for o in table if table[o] == letter)] for letter in word[2:]]
        attacked = word[:2] + "".join(data.draw(st.sampled_from(each)) for each in spellings)
        assert fold(f"the {attacked} rose") == f"the {word} rose"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ⓗⓔⓛⓛⓞ Ⓦorld, 🅷ello", "Hello World, Hello"),
        ("ᴛʜᴇ river", "the river"),
        ("Louis ⅩⅣ", "Louis XIV"),
        ("eﬀect, diﬃcult ﬁnd", "effect, difficult find"),
        ("naїve cafе\u0301", "naïve café"),
        ("The rivеr rose． Nobody slept！", "The river rose. Nobody slept!"),
        ("I've sеen it, І'vе", "I've seen it, I've"),
        ("in 𝟏𝟗𝟖𝟓 or １９８５, then", "in 1985 or 1985, then"),
        ("ri\u200bv\u0435\u200br", "river"),
    ],
)
def test_look_alikes_among_latin_letters_are_folded(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x² + y² = 1, ½ cup™ for 5 €, № 7, 10 Ω, 4 µm, 3 μg, 20 ℃",
        "x ∈ ℝ, ℓ = 5, ℎ, ⓒ 2024, Ⓜ, 🇺🇸 won 🅰",
        "NFκB and TNFα, IFNγ, αMSH, λmax, Hα, α-helix, β-carotene, ΔH, dα/dt, NPYη",
        "naïve façade, Ærø, œuvre, straße, kırmızı, Łódź, Đà Nẵng, ǅ, ƿynn, ɔ, ŋ",
        "The word Москва is Russian, and Ο Πλάτων is Greek: « а он ушел », Η Αθήνα.",
        "Он купил iPhone, а потом SMSки. У нас USB, Привeт! Всё это о Mac, и о PC.",
        "А я? О да. Он и она. Тот кот.",
        "сосо",
        "Ο Σωκράτης είναι άνθρωπος. Η νύχτα και ο ύπνος. ΤΟ ΝΕΟ.",
        "ＮＨＫは、今日１０時から。Ｔシャツ！",
        "我用 Python，Java，C++。我爱 Python！Java 也行。",
        "глава Ⅳ, том Ⅻ",
        "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ, ꓡꓲ-ꓢꓴ, Հայաստան",
        "مرحبا بالعالم، هنا. हिन्दी में। ไทย",
    ],
)
def test_real_texts_stay_as_they_are(text: str) -> None:
    assert normalise(text) == text


def test_a_word_of_either_script_follows_its_neighbours() -> None:
    assert normalise("The сор is here.") == "The cop is here."
    assert normalise("Слово сор здесь.") == "Слово сор здесь."
    assert normalise("He said: сор здесь.") == "He said: сор здесь."
    assert normalise("Здесь сор, he said.") == "Здесь сор, he said."
    assert normalise("І. А. Smith left.") == "I. A. Smith left."


@given(st.text(st.characters(max_codepoint=0x7F)))
def test_plain_text_is_not_touched(text: str) -> None:
    assert fold(text) == text


ODD = [
    *("а", "о ", "сосо ", "Тhe ", "rivеr ", "she ", "Он ", "Да. ", "привет ", "Bсе ", "SMSки "),
    *("Ｔｈｅ ", "ｒｏ", "．　", "！", "？ ", "！\n", "１９", "＃", "－ ", "｜", "＂", "＇", "「"),
    *("ⓐ ", "ⓗⓘ ", "ﬁ", "Ⅷ ", "ℝ ", "ᴛʜᴇ ", "𝐓𝐡𝐞 ", "𝟓", "µ", "ſ", "世", "界，", "Ｎ", "ＨＫ"),
    *("α", "κ", "TNF", "м", "т", "е\u0301", "Ѐ", "й", "'", "’", "\u0301", "\u200b", "．", "."),
    *("! ", "\n", "\n\n", "- ", "> ", "```\n", "1. ", "A. ", "А. ", "І ", "Ο ", "Πλάτων "),
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(ODD), max_size=16).map("".join))
@example("о Тhe Он ")
@example("а＇ⓐ Тhe ")
@example("ＨＫ\u0301Он ")
def test_folding_again_changes_nothing(text: str) -> None:
    once = clean(even_line_ends(text))
    assert clean(once) == once
    assert once.count("\n") == even_line_ends(text).count("\n")
    assert normalise(normalise(text)) == normalise(text)
    assert len(once) <= len(text) + added_length(text)


def test_the_tables_are_of_one_mind() -> None:
    keys = [character for table in TABLES for character in table]
    assert len(keys) == len(set(keys))
    for table in TABLES:
        for other, letters in table.items():
            assert unicodedata.is_normalized("NFC", other)
            assert not unicodedata.combining(other)
            assert not set(letters) & set(keys)
            compatible = unicodedata.normalize("NFKC", other)
            # Where Unicode knows a plain form, it is ours.
            assert not (compatible.isascii() and compatible != letters)
