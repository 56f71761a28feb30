// Threads
// =======

#pragma once
#include <atomic>
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

// Threads that wait for one another every now and then. They wait for microseconds, and so they keep
// asking; only when it takes long does a thread let others have its core.
struct Crew {
    std::atomic<Size> number{0}, waiting{0}, meetings{0};

    static void wait_while(const std::atomic<Size> &value, Size is) {
        for (int tries = 0; value == is;)
            if (++tries > 2000) std::this_thread::yield();
    }

    // Nobody goes on before all are here.
    void meet() {
        Size before = meetings;
        if (++waiting == number) {
            waiting = 0;
            meetings = before + 1;
        } else {
            wait_while(meetings, before);
        }
    }
};

// Call work(crew, 0), work(crew, 1), ..., in as many threads as there are, `number` at most.
template <class Work>
static void in_crew(Size number, Work work) {
    Crew crew;
    std::vector<std::thread> others;
    try {
        for (Size i = 1; i < number; i++)
            others.emplace_back([&, i] {
                crew.wait_while(crew.number, 0);
                work(crew, i);
            });
    } catch (const std::system_error &) {
    }
    crew.number = others.size() + 1;
    work(crew, 0);
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
