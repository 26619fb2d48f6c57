"""Plain text becomes sections of prose."""

from __future__ import annotations

from hammingmark.evaluation.datasets import prose


def test_an_article_is_cut_at_its_headings_and_formulas() -> None:
    text = "Opening.\n*: Origin - Early times.In Mali.\nMore.\n\t \n E\n  = m\nAfter.\n**: Empty - "
    assert prose.article_sections(text) == ["Opening.", "Early times. In Mali.\n\nMore.", "After."]


BOOK = (
    """\
The Project Gutenberg EBook of Toads

*** START OF THIS PROJECT GUTENBERG EBOOK TOADS ***

CONTENTS

Chapter 1. Mud ........ 3

To my dear friend, who likes toads very much indeed.

CHAPTER 1

Mud.

It was a _very_ wet morning in the month of March when the old toad
looked out of the window--and saw nothing but rain and mud.

     Oh the mud,
     The lovely mud,
     Says the toad.

"`Mud' is a fine thing," said the toad to the other toad, who only
nodded, since it was early.

CHAPTER 2

On the next day of that month there was no rain at all, and the toad
did not like it.
"""
    + "\n\n".join(["A long line of prose that only makes this book a little longer."] * 40)
    + """

End of the Project Gutenberg EBook of Toads

You may copy it, give it away or re-use it under the terms of the licence.
"""
)


def test_a_book_is_its_chapters_without_licence_contents_and_verse() -> None:
    one, two, three = prose.book_sections(BOOK.replace("\n", "\r\n"))
    assert one.startswith("It was a very wet morning")
    assert one.endswith("window—and saw nothing but rain and mud.")
    assert two.startswith("\"'Mud' is a fine thing,\"")
    assert three.startswith("On the next day")
    assert "licence" not in three
    assert "Gutenberg" not in three
