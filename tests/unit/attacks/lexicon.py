"""A small lexicon in the form of WordNet and the table of inflections."""

from __future__ import annotations

import gzip
from pathlib import Path

from hammingmark.attacks.lexicon import FORMS, SENSES

# lemma, part of speech (1 noun, 2 verb, 3 adjective), synset, number of the sense, uses
_WORDS = [
    ("big", 3, "01", 1, 100),
    ("large", 3, "01", 1, 90),
    ("car", 1, "02", 1, 70),
    ("automobile", 1, "02", 1, 15),
    ("machine", 1, "02", 3, 1),  # met too seldom
    ("start", 2, "03", 1, 150),
    ("begin", 2, "03", 1, 300),
    ("start", 1, "04", 1, 20),
    ("beginning", 1, "04", 1, 30),
    ("run", 2, "05", 1, 20),
    ("jog", 2, "05", 1, 5),
    ("run", 2, "06", 2, 80),  # its first sense has a fifth of its uses
    ("operate", 2, "06", 1, 9),
    ("light", 1, "07", 1, 50),
    ("light", 3, "08", 1, 50),  # as often the one as the other
    ("lamp", 1, "07", 1, 50),
    ("carry", 2, "09", 1, 60),
    ("transport", 2, "09", 1, 10),
    ("carry_out", 2, "10", 1, 60),
    ("install", 2, "11", 1, 20),
    ("instal", 2, "11", 1, 9),
    ("die", 2, "12", 1, 40),
    ("go", 2, "12", 3, 9),
]
_FORMS = """\
big,adj,bigger,biggest
large,adj,larger,largest
car,noun,cars
automobile,noun,automobiles
machine,noun,machines
start,verb,started,,starting,starts
start,noun,starts
begin,verb,began,begun,beginning,begins
beginning,noun,beginnings
run,verb,ran,run,running,runs
jog,verb,jogged,,jogging,jogs
operate,verb,operated,,operating,operates
light,noun,lights
light,adj,lighter,lightest
lamp,noun,lamps
carry,verb,carried,,carrying,carries
transport,verb,transported,,transporting,transports
install,verb,installed,,installing,installs
instal,verb,installed,,installing,instals
die,verb,died,,dying,dies
go,verb,went,gone,going,goes
"""


def write(folder: Path) -> Path:
    """The lexicon as files in a folder."""
    lines = [
        f"{lemma}%{part}:00:00:: {synset} {number} {met}\n"
        for lemma, part, synset, number, met in _WORDS
    ]
    (folder / SENSES).write_text("".join(lines), "utf-8")
    with gzip.open(folder / FORMS, "wt", encoding="utf-8") as file:
        file.write(_FORMS)
    return folder
