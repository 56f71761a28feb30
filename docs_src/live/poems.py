r"""Quatrains of the Tang as one text, to train the models of the Chinese pages on.

::

    pip install opencc-python-reimplemented==0.1.7
    python -m docs_src.live.poems tang.txt

downloads the package `chinese-poetry` of npm (MIT; 81 MB, so `npm` is needed) and writes 39,246
quatrains of five characters to a line and 16,386 of seven, in simplified characters, with a blank
line after each. A quatrain of seven begins with an ideographic space, so that a model knows before
the first line. Longer poems give one quatrain for every four lines. A quatrain with a character
that is not among the 2,600 most frequent ones is left out: a model has one embedding for each.

The poems are not part of this repository. `docs_src/live/weights` has what three models learned
from them: `tang.js`, `tang_lstm.js` and `tang_delta_net.js`, by these commands::

    labml-nn train autoregressive --text tang.txt --d-model 88 --n-layers 3 --steps 2400 \
        --seq-len 66 --batch-size 36 --seed 1 --out runs/tang
    labml-nn train lstm --text tang.txt --d-model 48 --d-hidden 100 --steps 2400 \
        --seq-len 66 --batch-size 36 --optimizer muon --muon-learning-rate 0.02 \
        --learning-rate 0.008 --final-learning-rate 0 --warmup-steps 20 --seed 1 --out runs/lstm
    labml-nn train delta_net --text tang.txt --d-model 72 --heads 4 --steps 2400 \
        --seq-len 66 --batch-size 36 --seed 1 --out runs/delta_net
    python -m docs_src.live.export runs/tang tang
    python -m docs_src.live.export runs/lstm tang_lstm
    python -m docs_src.live.export runs/delta_net tang_delta_net

The loss on the tenth of the text that was held back, in nats per character, with line breaks, and
on its poems of either width:

=====================  ==========  =====  =====  =====
model                  parameters  all    five   seven
=====================  ==========  =====  =====  =====
transformer            513,881     4.307  4.327  4.377
LSTM                   527,549     4.600  4.622  4.668
Gated DeltaNet         513,340     4.469  4.495  4.529
=====================  ==========  =====  =====  =====

Each takes five to seven minutes of one CPU core. A transformer of the same size that had read only
poems of five, with 1,500 updates, reached 4.361 on them. Seeds differ by little: with half as many
updates, seeds 1 and 2 gave 4.622 and 4.642 (Gated DeltaNet), and with 1,400 updates and 104 cells
4.730 and 4.734 (LSTM).

The same command writes `weights/verse.js`: which of these characters are level (平) and which are
oblique (仄) in verse, from the same package; the others may be either. And groups of characters
that rhyme (韵). Nobody has written these down: characters are linked where one ends the second line
of a quatrain and the other its fourth, and groups are what hangs together (Louvain's method).
"""

import argparse
import hashlib
import json
import random
import re
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PACKAGE = "chinese-poetry@2.0.1"
SHA256 = "25b549e46919c3a0569db6b68ddc96956b04a484ea4518ad2bbd4f137e307e86"
FILES = re.compile(r"package/dist/(quantangshi|strains/json)/poet\.tang\.(\d+)\.json")
VERSE = Path(__file__).parent / "weights" / "verse.js"
#: The models that ship, and their kinds.
MODELS = {"tang": "autoregressive", "tang_lstm": "lstm", "tang_delta_net": "delta_net"}
LINES = 4
#: A poem of seven characters to a line begins with it, so that a model knows before the first line.
SEVEN = "\u3000"
MOST_CHARACTERS = 2600


def download(folder: Path) -> Path:
    """The file of the package, through npm."""
    subprocess.run(
        ["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True
    )
    (file,) = folder.glob("*.tgz")
    if (found := hashlib.sha256(file.read_bytes()).hexdigest()) != SHA256:
        raise SystemExit(f"{file.name} has the SHA-256 {found}, not {SHA256}")
    return file


def read(package: Path) -> dict[str, dict[str, Any]]:
    """The poems, and their tones, by their names, in the order of the files."""
    texts: dict[tuple[str, int], bytes] = {}
    with tarfile.open(package) as archive:
        for member in archive:
            if (name := FILES.fullmatch(member.name)) and (file := archive.extractfile(member)):
                texts[name[1], int(name[2])] = file.read()
    found: dict[str, dict[str, Any]] = {}
    for key in sorted(texts):
        for poem in json.loads(texts[key]):
            found.setdefault(poem["id"], {}).update(poem)
    return found


def verses(poem: dict[str, Any]) -> list[str]:
    """The lines of a poem if all of them have five characters, or all of them seven."""
    text = "".join(poem.get("paragraphs", ()))
    lines = [line for line in re.split("[，。！？；：、]", text) if line]
    same = {len(line) for line in lines} in ({5}, {7})
    return lines if same and re.fullmatch("[\u4e00-\u9fff]+", "".join(lines)) else []


def prepare(poems: Iterable[dict[str, Any]], simplify: Callable[[str], str]) -> str:
    """All quatrains, each once. Poems are shuffled, those of one poem stay together."""
    seen: set[str] = set()
    whole: list[list[str]] = []
    for lines in filter(None, map(verses, poems)):
        simplified = simplify("\n".join(lines)).split("\n")
        starts = range(0, len(simplified) - LINES + 1, LINES)
        mark = SEVEN if len(lines[0]) == 7 else ""
        quatrains = [mark + "\n".join(simplified[start : start + LINES]) for start in starts]
        new = [quatrain for quatrain in dict.fromkeys(quatrains) if quatrain not in seen]
        seen.update(new)
        whole.append(new)
    random.Random(1).shuffle(whole)
    counts = Counter(sorted(character for poem in whole for character in "".join(poem)))
    del counts["\n"], counts[SEVEN]
    known = {character for character, _ in counts.most_common(MOST_CHARACTERS)} | {"\n", SEVEN}
    kept = [quatrain for poem in whole for quatrain in poem if known.issuperset(quatrain)]
    return "".join(f"{quatrain}\n\n" for quatrain in kept)


def tones(
    poems: Iterable[dict[str, Any]], simplify: Callable[[str], str], known: set[str]
) -> dict[str, str]:
    """The known characters that are level, and those that are oblique, nine times in ten."""
    level, all_tones = Counter[str](), Counter[str]()
    for poem in poems:
        text = simplify("".join(poem.get("paragraphs", ())))
        marks = "".join(poem.get("strains", ()))
        for character, mark in zip(text, marks, strict=False) if len(text) == len(marks) else ():
            if mark in "平仄" and character in known:
                level[character] += mark == "平"
                all_tones[character] += 1
    shares = {one: level[one] / number for one, number in sorted(all_tones.items())}
    return {
        "平": "".join(one for one, share in shares.items() if share > 0.9),
        "仄": "".join(one for one, share in shares.items() if share < 0.1),
    }


def rhymes(text: str) -> list[str]:
    """Groups of characters that rhyme in the quatrains of a text, the most frequent ones first."""
    from networkx import Graph
    from networkx.algorithms.community import louvain_communities

    quatrains = [quatrain.split("\n") for quatrain in text.split("\n\n") if quatrain]
    ends = Counter(tuple(sorted((lines[1][-1], lines[3][-1]))) for lines in quatrains)
    graph, often = Graph(), Counter[str]()
    for (one, other), number in sorted(ends.items()):
        if one != other:
            graph.add_edge(one, other, weight=number)
            often.update({one: number, other: number})
    groups = louvain_communities(graph, resolution=2.0, seed=1)
    found = ["".join(sorted(one, key=lambda c: (-often[c], c))) for one in groups if len(one) > 11]
    return sorted(found, key=lambda one: (-len(one), one))


def verse() -> dict[str, Any]:
    """What is delivered of verses: level and oblique characters, and groups that rhyme."""
    script = VERSE.read_text(encoding="utf-8")
    known: dict[str, Any] = json.loads(script[script.index("{") : script.rindex("}") + 1])
    return known


def main() -> None:
    """Writes the text, and what is to be known of verses."""
    from opencc import OpenCC

    parser = argparse.ArgumentParser(description="Quatrains of the Tang as one text.")
    parser.add_argument("text", type=Path, help="the file to write")
    parser.add_argument(
        "--package", type=Path, help="the file of the package, if it is here already"
    )
    arguments, simplify = parser.parse_args(), OpenCC("t2s").convert
    with tempfile.TemporaryDirectory() as folder:
        poems = [*read(arguments.package or download(Path(folder))).values()]
    text = prepare(poems, simplify)
    arguments.text.write_text(text, encoding="utf-8")
    known = {**tones(poems, simplify, {*text}), "韵": rhymes(text)}
    script = f"pylit.live.verse = {json.dumps(known, ensure_ascii=False)};\n"
    VERSE.write_text(script, encoding="utf-8")
    all_of_them, seven = text.count("\n\n"), text.count(SEVEN)
    print(f"{arguments.text}: {all_of_them - seven:,} quatrains of five characters to a line and")
    print(f"{seven:,} of seven, {len(set(text)):,} characters,", end=" ")
    print(hashlib.sha256(text.encode()).hexdigest())


if __name__ == "__main__":
    main()
