r"""
---
title: Compiled loops
summary: >
  When many small operations take turns, most of the time goes by between them. How this
  library compiles such a loop, for any processor, with no more than Python has.
---

PyTorch is quick at large operations. Each call costs some microseconds before anything
is computed, and next to a product of large matrices they do not count. A recurrence is
the opposite case: a thousand steps, each a dozen products of a few rows, and each has
to wait for the last. The products of a step would take two microseconds, the calls
around them take twenty.

So a loop that has to go step by step is written a second time, in C++, as **one**
function for all its steps. A module that has such a *kernel* stays what it was: the
form in PyTorch is the one to read and to change. The kernel computes the same, tests
hold the two equal, and where it cannot be had, nothing but time is lost.

**Vectors.** A processor adds and multiplies several numbers at a time: 16 with AVX-512,
8 with AVX2, 4 elsewhere. GCC and Clang make a type of any number of floats, and
`a + b * c` of that type is one instruction. `vectors.h` has that type and what is
needed of it, and names no instruction, so none is missing on another processor.

**Products of few rows.** Everything that takes time is $C = A B$ where $A$ has a row
for each text, and $B$ is a weight. A block of some rows and vectors of $C$ stays in the
processor's registers while the sum goes on, and each number that is loaded is used
several times:

```cpp
for (Size k = 0; k < steps; k++, left += a.step, right += b.step) {
    Vec numbers[V];
    for (int v = 0; v < V; v++) numbers[v] = load(right + v * LANES);
    for (int r = 0; r < R; r++) {
        Vec number = all(left[r * a.row]);
        for (int v = 0; v < V; v++) c[r][v] += number * numbers[v];
    }
}
```

This one loop, in `products.h`, is also what gathers the gradients of all weights: they
are $A^\top B$, and a transposed $A$ is one that is read with another stride.

**Weights in the order in which they are read.** They do not fit into the caches next to
the processor, and are read from beginning to end in each step. [Packed](call.py), they
lie in that order, and are asked for a little before they are needed.

**Nothing goes to memory to come back.** A bias, a ReLU, a mask of dropout, the sum with
$x$: each product is told what to do with a vector of results while it is still in a
register.

**Large pages.** Memory that is new is given page by page, each at its first touch, with
an interruption. [Asked for in large pages](call.py), it makes one in the place of five
hundred. And where a page lies has to be looked up. A [feedback
transformer](../transformers/feedback/kernel/index.html) of 6 layers with $C = 256$
reads its 16 megabytes of weights at each step: on small pages, forward took 1.2 times
as long (four texts of 256 steps, one thread of an AMD EPYC with AVX-512).

**Threads** share what has nothing to do with one another, as the texts of a batch, from
the first step to the last. So none waits for another but at the end. They are those
that PyTorch has anyway: its threads go on turning for some milliseconds when they have
nothing to do, and others would find the cores taken. Two threads of our own made a step
of the feedback transformer 1.2 times as fast as one. PyTorch's make it 1.65 times.

| Page | What it holds |
|:--|:--|
| [Building](build.py) | where a kernel comes from, and what may go wrong |
| [Calling](call.py) | what Python and C++ share; padding and packing |

| Kernel | What one call does |
|:--|:--|
| [Feedback](../transformers/feedback/kernel/__init__.py) | all steps, either way |
| [Elman layer](../recurrent/elman/kernel/__init__.py) | all steps, either way |
| [Decoders](../transformers/writing/compiled.py) | a token through all layers |
| [Feedback](../transformers/feedback/writing/__init__.py) | a token, and its memory |
| [Elman](../recurrent/elman/writing.py) | a token through all layers |
"""

from labml_nn.compiled.build import (
    BuildError,
    Kernel,
    Library,
    Source,
    is_switched_off,
    load,
)
from labml_nn.compiled.call import Call, fields, let_go, up_to

__all__ = [
    "BuildError",
    "Call",
    "Kernel",
    "Library",
    "Source",
    "fields",
    "is_switched_off",
    "let_go",
    "load",
    "up_to",
]

# ## Exercises
#
# **1.** Write a kernel that doubles numbers.
#
# <details><summary>Answer</summary>
#
# A structure, a function that is told of it, and two more that say how large vectors
# and the structure are.
#
# ```python
# import ctypes
# import tempfile
# from pathlib import Path
# import torch
# from labml_nn.compiled import BuildError, Call, Source, fields, load
#
# class Task(ctypes.Structure):
#     _fields_ = fields("count", "", "numbers")
#
# CODE = '''
# #include "vectors.h"
# struct Task { Size count; float *numbers; };
# extern "C" void twice_run(const Task *task) {
#     for (Size i = 0; i < task->count; i += LANES)
#         store(task->numbers + i, load(task->numbers + i) * 2.f);
# }
# extern "C" Size lanes() { return LANES; }
# extern "C" Size task_size() { return sizeof(Task); }
# '''
# with tempfile.TemporaryDirectory() as folder:
#     (Path(folder) / "twice.cpp").write_text(CODE)
#     try:
#         library = load(Source("twice", Path(folder), ("run",)))
#     except BuildError as error:
#         print(error)
#     else:
#         call = Call(library, Task(), torch.empty(0))
#         numbers = call.wide(torch.arange(5.0))
#         call.task.count = len(numbers)
#         call.point(numbers=numbers)
#         call.run("run")
#         assert call.tensors["numbers"][:5].tolist() == [0, 2, 4, 6, 8]
# ```
#
# </details>
#
# **2.** A block of $R$ rows and $V$ vectors loads $R + V$ times for $R V$ operations. A
# processor does two of either at a time, and has 32 registers, in which the sums, the
# $V$ vectors and one number must find room. How large should the block be?
#
# <details><summary>Answer</summary>
#
# As long as $R + V < R V$, loads hide behind arithmetic. But an operation takes four
# turns until its result can be used, so at least $2 \cdot 4$ sums have to be under way.
# Beyond that larger blocks mean that a weight, once loaded, serves more rows.
#
# ```python
# from itertools import product
#
# sizes = [(R, V) for R, V in product(range(1, 33), range(1, 5)) if R * V + V < 32]
# good = [(R, V) for R, V in sizes if R + V < R * V and R * V >= 8]
# assert (8, 2) in good and (14, 2) in good and (9, 3) in good
# assert (8, 1) not in good  # as many loads as operations, and one more
# assert (2, 3) not in good  # six sums: each waits for the one before
# ```
#
# </details>
#
# **3.** Somebody edits `products.h`. Which kernels are built anew, and who sees to it?
#
# <details><summary>Answer</summary>
#
# All: the name of each has a hash of its own files and of the shared headers in it, and
# under the new name there is no file yet.
#
# ```python
# import tempfile
# from pathlib import Path
# from labml_nn.compiled import Source
#
# with tempfile.TemporaryDirectory() as folder:
#     source = Source("some", Path(folder), ())
#     empty = source.file_name()
#     assert any(path.name == "products.h" for path in source.files())
#     (Path(folder) / "some.cpp").write_text("int number;")
#     assert source.file_name() != empty == Source("some", Path("/"), ()).file_name()
# ```
#
# </details>
