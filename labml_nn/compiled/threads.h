// Threads
// =======

#pragma once
#include <system_error>
#include <thread>
#include <vector>

#include "vectors.h"

// Call work(0), work(1), ..., each in a thread of its own, and wait for all. Where the system has
// no thread to give, this one does the work of two.
template <class Work>
static void in_threads(Size number, Work work) {
    std::vector<std::thread> others;
    for (Size i = 1; i < number; i++) {
        try {
            others.emplace_back(work, i);
        } catch (const std::system_error &) {
            work(i);
        }
    }
    work(0);
    for (auto &other : others) other.join();
}

// Some of a number of things: `count` from `first` on.
struct Part {
    Size first, count;
};

// The part of one thread of several. Parts differ in size by one at most.
static inline Part part_of(Size things, Size threads, Size thread) {
    Size first = things * thread / threads;
    return {first, things * (thread + 1) / threads - first};
}
