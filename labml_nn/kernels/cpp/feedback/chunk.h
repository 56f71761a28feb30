// Chunk
// =====
//
// A chunk is as many steps of the backward pass as fit into the cache with all their tables. The tables are
// overwritten by the next chunk; this structure computes the indices.

#pragma once
#include "layer.h"

struct Chunk {
    const Args &args;
    Size start, stop;

    Size steps() const { return stop - start; }
    // Slots that existed before its first step, and slots that any step of it attends to; both from `low` on.
    Size old() const { return args.before + start - args.low; }
    Size rows() const { return old() + steps() - 1; }

    Size step(Size t, Size b) const { return (t - start) * args.batch + b; }
    Size here(Size l, Size t, Size b) const { return l * steps() * args.batch + step(t, b); }
    // One head of one sequence: the first of its L * n rows, or any.
    Size pair(Size h, Size b) const { return args.pair(h, b) * args.layers * steps(); }
    Size row(Size h, Size b, Size l, Size t) const {
        return pair(h, b) + l * steps() + t - start;
    }
};
