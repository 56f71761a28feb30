// A piece of the way back
// =======================
//
// Some steps, the most of them that fit into the cache with all that is known of them. Tables of a
// piece begin anew with each, and the places in them are here.

#pragma once
#include "layer.h"

struct Piece {
    const Task &task;
    Size start, stop;

    Size steps() const { return stop - start; }
    // Rows that were there before its first step, and rows that some step of it sees; both from
    // `low` on.
    Size old() const { return task.before + start - task.low; }
    Size rows() const { return old() + steps() - 1; }

    Size step(Size t, Size b) const { return (t - start) * task.batch + b; }
    Size here(Size l, Size t, Size b) const { return l * steps() * task.batch + step(t, b); }
    // Of a head of a text: the first of its L * n rows, or any.
    Size pair(Size h, Size b) const { return task.pair(h, b) * task.layers * steps(); }
    Size row(Size h, Size b, Size l, Size t) const {
        return pair(h, b) + l * steps() + t - start;
    }
};
