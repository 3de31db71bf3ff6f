// Majority vote of up to 16 labels and 255 votes per task: a byte per label, all of a task's in one number.
#pragma once

#include <algorithm>

#include "costs.hpp"
#include "recount.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

constexpr uint64_t kMostBallots = 255;

template <int L>
using BallotWord = std::conditional_t<
    L == 2, uint16_t, std::conditional_t<L == 4, uint32_t, std::conditional_t<L == 8, uint64_t, unsigned __int128>>>;

// A block of tasks, one run of equal length at a time.
template <int L>
struct BallotRun {
    using Word = BallotWord<L>;
    const Pass& p;
    const int64_t* ptr;        // IN the task_ptr of the block
    const bool in_order;       // the tasks of the block are one run, in their own order
    const uint8_t* row_label;  // IN [rows]
    const Word* one;           // IN [L] a ballot for each label
    Word* ballots;             // OUT [tasks]
    uint16_t* winners;         // OUT [tasks] labels with the most ballots, one bit each

    template <int N>
    ADJUDGE_INLINE void run(const uint16_t* order, int tasks) {
        if (N > 0 && in_order) some<N, true>(order, tasks);
        else some<N, false>(order, tasks);
    }

    template <int N, bool InOrder>
    void some(const uint16_t* order, int tasks) {
        const BallotRun mine = *this;  // a local: the compiler cannot know that writing leaves these pointers alone
        const uint32_t* const rows = p.row;
        for (int i = 0; i < tasks; ++i) {
            const int t = InOrder ? i : order[i];
            const uint32_t* row = InOrder ? rows + mine.ptr[0] + int64_t(i) * N : rows + mine.ptr[t];
            const int64_t n = N ? N : mine.ptr[t + 1] - mine.ptr[t];
            __builtin_prefetch(row + kStream);
            Word sum = 0;
            for (int64_t v = 0; v < n; ++v) sum = Word(sum + mine.one[mine.row_label[row[v]]]);
            mine.ballots[t] = sum;
            const Word missing = Word(~sum);  // byte by byte: what is left to 255, the smallest where the most ballots are
            uint8_t costs[sizeof missing];
            std::memcpy(costs, &missing, sizeof missing);
            const unsigned most = CostLine<uint8_t, L>::load(costs).closed().within(0);
            mine.winners[t] = uint16_t(N == 0 && n == 0 ? 1 : most);  // without votes: the first label
        }
    }
};

template <int L>
struct Ballots {
    using Word = BallotWord<L>;
    using V = Vec<double, L>;
    const Pass& p;
    Worker& w;
    Lengths lengths;
    Word one[L], ballots[kBlockTasks];
    uint16_t winners[kBlockTasks];

    Ballots(const Pass& p_, Worker& w_) : p(p_), w(w_) {
        for (int c = 0; c < L; ++c) one[c] = Word(Word(1) << (8 * c));
    }

    // At most kBlockTasks tasks.
    void run(const uint8_t* row_label, int64_t first, int tasks) {
        Lengths::fetch_next(p.task_ptr + first, tasks);
        lengths.sort(p.task_ptr + first, p.row, tasks);
        lengths.each(BallotRun<L>{p, p.task_ptr + first, lengths.in_order, row_label, one, ballots, winners});
        decide_all(first, tasks);
        if (p.confidence || p.posterior) record(first, tasks);
        if (p.recount == Pass::Recount::hard) recount_hard(p, w, lengths, first, tasks);
        if (p.recount == Pass::Recount::soft) count_shares(first, tasks);
    }

    ADJUDGE_INLINE double of(int t, int label) const { return double(uint8_t(ballots[t] >> (8 * label))); }

    // Whether a task ties is hard to guess: those that do are listed, and settled together.
    void decide_all(int64_t first, int tasks) {
        uint16_t ties[kBlockTasks];
        int number = 0;
        int32_t* const labels = p.labels + first;
        for (int t = 0; t < tasks; ++t) {
            const unsigned most = winners[t];
            labels[t] = __builtin_ctz(most);
            ties[number] = uint16_t(t);
            number += (most & (most - 1)) != 0;
        }
        if (p.tie) std::fill_n(p.tie + first, tasks, false);
        for (int i = 0; i < number; ++i) {
            const int t = ties[i];
            if (i + kAhead < number) fetch_key(p.task_key, first + ties[i + kAhead]);
            if (p.tie) p.tie[first + t] = true;
            double all[L];
            for (int c = 0; c < L; ++c) all[c] = of(t, c);
            labels[t] = settle(p, first + t, all, all[labels[t]]).label;
        }
    }

    void record(int64_t first, int tasks) {
        for (int t = 0; t < tasks; ++t) {
            const int64_t task = first + t;
            const double votes = double(p.task_ptr[task + 1] - p.task_ptr[task]);
            if (p.confidence) p.confidence[task] = of(t, p.labels[task]) / votes;
            for (int c = 0; p.posterior && c < p.k; ++c) p.posterior[task * p.k + c] = of(t, c) / votes;
        }
    }

    // The shares of the ballots, in whole units (units.hpp), into the counts: no task has so many votes that a share has none.
    void count_shares(int64_t first, int tasks) {
        const int line = p.rest ? 2 * L : L;
        V classes = V::load(w.class_counts), left = V::load(w.class_rest);
        const V grid = V::all(p.units.grid), next = V::all(p.units.next), class_grid = V::all(p.units.class_grid);
        const V scale = V::all(p.rest ? p.units.fine[0] : p.units.coarse[0]);
        double* share = w.shares;
        for (int t = 0; t < tasks; ++t, share += line) {
            const V x = shares_of(ballots[t], double(p.task_ptr[first + t + 1] - p.task_ptr[first + t]));
            const V digit = whole(x, grid), counted = digit * scale;
            counted.store(share);
            if (p.rest) {
                const V second = whole(x - digit, next) * scale;
                second.store(share + L);
                classes = classes + counted;
                left = left + second;
            } else {
                const V units = whole(counted, class_grid);
                classes = classes + units;
                left = left + (counted - units);
            }
        }
        classes.store(w.class_counts);
        left.store(w.class_rest);
        if (w.soft) return recount_block<L>(p, w, lengths, first);
        share = w.shares;
        for (int t = 0; t < tasks; ++t, share += line) recount_soft(p, w, first + t, share, share + L);
    }

    static ADJUDGE_INLINE V shares_of(Word ballots, double votes) {
        using Bytes = typename RegisterOf<uint8_t, V::kLanes>::type;
        using Whole = typename RegisterOf<int32_t, V::kLanes * 4>::type;
        V x;
        for (int i = 0; i < V::kParts; ++i) {
            Bytes some;
            std::memcpy(&some, reinterpret_cast<const uint8_t*>(&ballots) + i * V::kLanes, sizeof some);
            x.part[i] = __builtin_convertvector(__builtin_convertvector(some, Whole), typename V::Register) / votes;
        }
        return x;
    }
};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
