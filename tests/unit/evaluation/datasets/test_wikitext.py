"""Markup becomes prose."""

from __future__ import annotations

import pytest

from hammingmark.evaluation.datasets import wikitext


class TestWikitext:
    @pytest.mark.parametrize(
        ("markup", "text"),
        [
            ("'''Ants''' are ''small'' [[insect]]s.", "Ants are small insects."),
            ("The [[sans-culotte|''sans-culottes'']] rose.", "The sans-culottes rose."),
            ("It is in [[Washington (state)|]] now.", "It is in Washington now."),
            ("A fact.<ref name=x>[http://a.b c], p. 3</ref> More.", "A fact. More."),
            ('A fact<ref name="x" />. More.', "A fact. More."),
            ("See [http://a.b the report] and more[http://c.d].", "See the report and more."),
            ("[[Image:a.jpg|thumb|The [[big]] [[cat|cats]].]]Cats sleep.", "Cats sleep."),
            ("Cats sleep.[[Category:Cats]][[de:Katze]]", "Cats sleep."),
            ("Cats<!-- are\nthey? --> sleep.", "Cats sleep."),
            ("{{Infobox|a={{b|c}}|d}}\nCats sleep.", "Cats sleep."),
            ('{| class="x"\n| a || b\n|-\n{|\n| in\n|}\n|}\nCats sleep.', "Cats sleep."),
            ("Caf&eacute;s &amp; bars&nbsp;open.<br />Late.", "Cafés & bars open. Late."),
            ("Plato ({{lang|x}}, [[:ja:P]]) wrote.", f"Plato ({wikitext.HOLE}, ja:P) wrote."),
            ("Plato (<ref>a</ref>) wrote , often .", "Plato wrote, often."),
        ],
    )
    def test_markup_is_taken_off(self, markup: str, text: str) -> None:
        assert wikitext.sections(markup) == [text]

    def test_what_left_a_hole_is_marked_there(self) -> None:
        (text,) = wikitext.sections("Light travels <math>c^2</math> far. It is {{convert|3}} long.")
        assert text.count(wikitext.HOLE) == 2

    def test_headings_and_lists_part_sections_and_back_matter_goes(self) -> None:
        markup = (
            "First.\n\nSecond.\n== History ==\nThird.\n* an item\n: a quote\nFourth.\n"
            "==References==\nA book.\n=== Notes ===\nA note.\n== Use ==\nFifth."
        )
        assert wikitext.sections(markup) == ["First.\n\nSecond.", "Third.", "Fourth.", "Fifth."]

    def test_broken_markup_does_no_harm(self) -> None:
        deep = "{{" * 40 + "x" + "}}" * 40
        assert wikitext.sections(deep + "\nCats sleep.")[-1].endswith("Cats sleep.")
        assert wikitext.sections("An [[open link and {{an open template") != []


def test_pages_come_without_redirects_lists_and_other_name_spaces() -> None:
    export = """\
  <page>
    <title>Ants</title>
      <comment>&lt;text&gt; of it</comment>
      <text xml:space="preserve">'''Ants''' &amp;amp; bees.
Two lines.</text>
  </page>
    <title>Ant</title>
      <text xml:space="preserve">#REDIRECT [[Ants]]</text>
    <title>List of ants</title>
      <text xml:space="preserve">* one</text>
    <title>Image:Ant.jpg</title>
      <text xml:space="preserve">A picture.</text>
    <title>1984</title>
      <text xml:space="preserve">A year.</text>
    <title>Cut off</title>
      <text xml:space="preserve">This page has no end"""
    found = list(wikitext.pages(export.splitlines(keepends=True)))
    assert found == [("Ants", "'''Ants''' &amp; bees.\nTwo lines.")]
