r"""
---
title: From a text to batches
summary: >
  Where the text comes from, which part of it is held back, how signs become numbers,
  and how a million of them become questions to a model.
---

Everything that a trained model knows was in its data. So it is worth a look at how the
data comes to it, and at each of the small decisions on the way, of which every one
changes the loss that is reported in the end.

```text
a file, a cache,                       65 numbers,            [T, B], [T, B]
the plays of a package,                one for each           what is read, and
a download                             character              what is asked for
       │                                    │                      │
       ▼                                    ▼                      ▼
    sources ────► corpus ────────────► vocabulary ────► windows, or replies
                  nine tenths to
                  learn from, one
                  to be judged by
```

| Page | Question |
|:--|:--|
| [Sources](sources.py) | Where is the text, and what if it is not there? |
| [Download](download.py), [plays](plays.py), [edits](edits.py) | Is it the right one? |
| [Corpus](corpus.py) | What may be learned from, and what not? |
| [Vocabulary](vocabulary.py) | Which number is which sign? |
| [Examples](examples.py) | What is one batch? |
| [Windows](windows.py) | Which pieces of a long text make it up? |
| [Replies](replies.py) | What was said, and what was the answer? |

All of it in one program:

```python
from labml_nn.experiments.data import Corpus, Windows

text = "But, soft! what light through yonder window breaks?\n" * 20
corpus = Corpus.of("one line", text)  # read_corpus() finds Tiny Shakespeare
windows = Windows(corpus.train, batch_size=4, seq_len=16, seed=1)
batch = windows.batch(0)
assert batch.tokens.shape == batch.targets.shape == (16, 4)  # [T, B]
read = corpus.vocabulary.decode(batch.tokens[:, 0])
asked = corpus.vocabulary.decode(batch.targets[:, 0])
assert read[1:] == asked[:-1]  # the same text, one later
```
"""

from labml_nn.experiments.data.corpus import Corpus
from labml_nn.experiments.data.examples import Examples
from labml_nn.experiments.data.replies import Replies, reply_pieces
from labml_nn.experiments.data.sources import read_corpus
from labml_nn.experiments.data.vocabulary import Vocabulary
from labml_nn.experiments.data.windows import Windows, pieces

__all__ = [
    "Corpus",
    "Examples",
    "Replies",
    "Vocabulary",
    "Windows",
    "pieces",
    "read_corpus",
    "reply_pieces",
]
