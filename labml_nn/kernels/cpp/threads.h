// Threads
// =======
//
// PyTorch has a pool of OpenMP threads. For some milliseconds after their work they spin, waiting for
// more, and occupy the cores. So kernels run on these threads. The OpenMP library is loaded already,
// and is found by the name of one function, GOMP_parallel. Where that does not exist, threads are
// started for each call.

#pragma once
#include <dlfcn.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "vectors.h"

// The functions of the OpenMP library.
struct OpenMP {
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    int (*team)();
    int (*place)();

    OpenMP() {
        find(parallel, "GOMP_parallel");
        find(team, "omp_get_num_threads");
        find(place, "omp_get_thread_num");
    }

    bool is_here() const { return parallel && team && place; }

    template <class Function>
    static void find(Function &function, const char *name) {
        function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    }
};

// Calls work(i, n) in n threads, for each i < n, and waits for all. n is at most `number`; it is less
// if the system has no more threads, or if this is one thread of a team already.
template <class Work>
static void in_team(Size number, Work work) {
    static const OpenMP openmp;
    if (number > 1 && openmp.is_here()) {
        auto call = [](void *given) {
            (*static_cast<Work *>(given))(Size(openmp.place()), Size(openmp.team()));
        };
        return openmp.parallel(call, &work, unsigned(number), 0);
    }
    std::atomic<Size> team{0};
    std::vector<std::thread> others;
    try {
        for (Size i = 1; i < number; i++)
            others.emplace_back([&team, &work, i] {
                while (!team) std::this_thread::yield();
                work(i, team);
            });
    } catch (const std::system_error &) {
    }
    team = Size(others.size()) + 1;
    work(Size(0), Size(team));
    for (auto &other : others) other.join();
}

// Calls work(0), work(1), ..., in up to `number` threads, and waits for all.
template <class Work>
static void in_threads(Size number, Work work) {
    in_team(number, [=](Size thread, Size team) {
        for (Size i = thread; i < number; i += team) work(i);
    });
}

// Threads with a barrier. Waiting takes microseconds, so they spin, and yield the core only after
// many tries.
struct Crew {
    std::atomic<Size> number{0}, waiting{0}, meetings{0};

    static void wait_while(const std::atomic<Size> &value, Size is) {
        for (int tries = 0; value == is;)
            if (++tries > 2000) std::this_thread::yield();
    }

    // A barrier: returns when all threads have called it.
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

// Calls work(crew, 0), work(crew, 1), ..., in up to `number` threads at the same time.
template <class Work>
static void in_crew(Size number, Work work) {
    Crew crew;
    in_team(number, [&crew, &work](Size thread, Size team) {
        crew.number = team;  // the same in all threads
        work(crew, thread);
    });
}

// A range: `count` items from `first` on.
struct Part {
    Size first, count;
};

// The range of one thread. Ranges differ in size by at most one.
static inline Part part_of(Size things, Size threads, Size thread) {
    Size first = things * thread / threads;
    return {first, things * (thread + 1) / threads - first};
}
