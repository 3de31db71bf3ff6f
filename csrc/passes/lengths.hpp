// Tasks of a block put in order of their number of votes.
//
// A loop over votes that always runs the same number of times costs nothing to leave; one whose length varies costs a
// wrong guess of the processor per task, which is as dear as adding ten votes.
#pragma once

#include <cstdint>

#include "pass.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

constexpr int kAhead = 32;       // tasks whose lines are fetched ahead of their use, in a block of several lengths
constexpr int kStream = 1024;    // votes between those in use and those fetched from memory: past the next page
constexpr int kLong = 32;        // this many votes and more share one group: their loops are long anyway

// Fetches what loops over votes read in a row from memory, a little with every task rather than a block's at once: IN the
// task_ptr and labels of the block, of which this is the t-th task, and its votes.
ADJUDGE_INLINE void fetch_streams(const int64_t* ptr, const uint32_t* row, const int32_t* labels, int64_t t) {
    __builtin_prefetch(row + kStream);
    __builtin_prefetch(ptr + t + kBlockTasks);
    __builtin_prefetch(labels + t);  // they are read once the scores of the block are known
}

// A block of tasks as runs of equal length.
struct Lengths {
    uint16_t order[kBlockTasks + kAhead];  // tasks of the block by length; the last repeated, to be fetched ahead
    int begin[kLong + 2];                       // where each length begins in order
    bool in_order;                              // all have one length, and order is 0, 1, 2...

    // IN ptr [tasks + 1], the task_ptr of the block; row: all votes.
    void sort(const int64_t* ptr, const uint32_t* row, int tasks) {
        const int64_t first = ptr[1] - ptr[0];
        int64_t other = 0;
        for (int t = 0; t < tasks; ++t) other |= (ptr[t + 1] - ptr[t]) ^ first;
        for (int& b : begin) b = 0;
        in_order = other == 0;
        if (in_order) {
            for (int t = 0; t < tasks; ++t) order[t] = uint16_t(t);
            for (int n = group(first) + 1; n < kLong + 2; ++n) begin[n] = tasks;
        } else {
            // Votes will be read out of order, which no prefetcher follows: bring those of the next block near.
            const int64_t end = ptr[tasks], votes = end - ptr[0];
            for (int64_t v = end; v < end + votes; v += 16) __builtin_prefetch(row + v, 0, 2);
            for (int t = 0; t < tasks; ++t) ++begin[group(ptr[t + 1] - ptr[t]) + 1];
            for (int n = 1; n < kLong + 2; ++n) begin[n] += begin[n - 1];
            int place[kLong + 1];
            for (int n = 0; n <= kLong; ++n) place[n] = begin[n];
            for (int t = 0; t < tasks; ++t) order[place[group(ptr[t + 1] - ptr[t])]++] = uint16_t(t);
        }
        for (int i = 0; i < kAhead; ++i) order[tasks + i] = order[tasks - 1];
    }

    // Fetches the task_ptr of the next block at once: for loops that do not fetch their streams with every task.
    static ADJUDGE_INLINE void fetch_next(const int64_t* ptr, int tasks) {
        for (int t = tasks; t < 2 * tasks; t += 8) __builtin_prefetch(ptr + t);
    }

    static int group(int64_t length) { return length < kLong ? int(length) : kLong; }

    // Calls visit.run<N>(order, tasks) for every run; N is the length when it is short, else 0: look it up.
    template <class Visit>
    ADJUDGE_INLINE void each(Visit&& visit) const {
        for (int n = 0; n <= kLong; ++n) {
            const int tasks = begin[n + 1] - begin[n];
            const uint16_t* some = order + begin[n];
            if (tasks == 0) continue;
            switch (n) {
                case 1: visit.template run<1>(some, tasks); break;
                case 2: visit.template run<2>(some, tasks); break;
                case 3: visit.template run<3>(some, tasks); break;
                case 4: visit.template run<4>(some, tasks); break;
                case 5: visit.template run<5>(some, tasks); break;
                case 6: visit.template run<6>(some, tasks); break;
                case 7: visit.template run<7>(some, tasks); break;
                case 8: visit.template run<8>(some, tasks); break;
                default: visit.template run<0>(some, tasks);
            }
        }
    }
};

// What a loop over the tasks of a run of length N fetches ahead. If the block is in order, these are the lines of the votes stored
// `votes` further on, even in the next block; otherwise those of a later task of the block.
template <int N>
struct Ahead {
    const uint32_t* const rows;
    const int64_t* const ptr;  // the task_ptr of the block
    const int64_t votes, last;
    const bool in_order;

    Ahead(const Pass& p, const Lengths& lengths, const int64_t* ptr_, int64_t votes_)
        : rows(p.row), ptr(ptr_), votes(votes_), last(p.task_ptr[p.tasks] - (N ? N : 1)), in_order(lengths.in_order) {}

    // Fetches lines of `bytes` bytes, by row, while the task at `order`, of n votes from `first` on, is in use. (No callable does
    // it: GCC takes one that only fetches for one without effects, and drops it.)
    ADJUDGE_INLINE void fetch(const uint16_t* order, int64_t first, int64_t n, const void* lines, int64_t bytes) const {
        const char* const line = static_cast<const char*>(lines);
        if constexpr (N > 0) {
            const int64_t further = first + votes;
            const uint32_t* row = rows + (!in_order ? ptr[order[kAhead]] : further < last ? further : last);
            for (int v = 0; v < N; ++v) __builtin_prefetch(line + row[v] * bytes);
        } else {
            for (int64_t v = first + votes; v < first + votes + n; ++v) __builtin_prefetch(line + rows[v < last ? v : last] * bytes);
        }
    }
};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
