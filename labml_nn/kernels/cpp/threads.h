// Threads
// =======
//
// PyTorch keeps threads of its own, by OpenMP, and they do not go to sleep when they have nothing to
// do: for some milliseconds they turn in a circle and ask for work. Whoever starts other threads
// meanwhile finds the cores taken. So ours are those of PyTorch. Its library is in the process
// already, and known by the name of one function: GOMP_parallel. Where it is not to be found, threads
// are started and ended.

#pragma once
#include <dlfcn.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "vectors.h"

// What an OpenMP library has to have.
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

// Call work(i, n) in n threads, `number` at most, for each i < n, and wait for all. There may be fewer:
// the system has no more to give, or we are in one thread of several already.
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

// Call work(0), work(1), ..., as far as there are threads at the same time, and wait for all.
template <class Work>
static void in_threads(Size number, Work work) {
    in_team(number, [=](Size thread, Size team) {
        for (Size i = thread; i < number; i += team) work(i);
    });
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
    in_team(number, [&crew, &work](Size thread, Size team) {
        crew.number = team;  // all say the same
        work(crew, thread);
    });
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
