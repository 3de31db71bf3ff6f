#include "majority.hpp"

#include "ballots.hpp"
#include "crew.hpp"
#include "prepare.hpp"
#include "recount.hpp"

namespace adjudge {
namespace {

using namespace baseline;

// The leading digit of a share as it is counted in one sum; see units.hpp.
double leading_digit(const Units& units, double share) {
    const double x = share * kLift;
    for (int i = 0; i < units.digits && i < kCoarseDigits; ++i) {
        const double digit = whole(x, units.lifted[i]);
        if (digit != 0.0) return digit * (units.coarse[i] * (1.0 / kLift));
    }
    return 0.0;
}

// What `count_ballots` does for shares of weights, which may be too small to have a whole unit.
void count_weights(const Pass& p, Worker& w, const double* shares, double* share, double* second) {
    for (int c = 0, k = p.k; c < k; ++c) {
        if (p.rest) {
            double pair[2];
            leading_digits(p.units, shares[c], pair);
            w.class_counts[c] += share[c] = pair[0];
            w.class_rest[c] += second[c] = pair[1];
        } else {
            const double x = leading_digit(p.units, shares[c]), units = whole(x, p.units.class_grid);
            w.class_counts[c] += units;
            w.class_rest[c] += x - units;
            share[c] = x;
        }
    }
}

// The shares of the ballots in a task of `votes` votes, as they are counted. share OUT [k], second OUT [k] where fine;
// class counts are added to.
ADJUDGE_INLINE void count_ballots(const Pass& p, Worker& w, const double* ballots, double votes, double* share,
                                  double* second) {
    const double grid = p.units.grid, next = p.units.next;
    double* const __restrict class_counts = w.class_counts;
    double* const __restrict class_rest = w.class_rest;
    if (p.rest) {  // a vote of a task has whole units, unless the task has millions of votes
        const double scale = p.units.fine[0];
        for (int c = 0, k = p.k; c < k; ++c) {
            const double x = ballots[c] / votes, digit = whole(x, grid);
            share[c] = digit * scale;
            second[c] = whole(x - digit, next) * scale;
            class_counts[c] += share[c];
            class_rest[c] += second[c];
        }
        return;
    }
    const double scale = p.units.coarse[0], class_grid = p.units.class_grid;
    for (int c = 0, k = p.k; c < k; ++c) {
        const double x = whole(ballots[c] / votes, grid) * scale, units = whole(x, class_grid);
        class_counts[c] += units;
        class_rest[c] += x - units;
        share[c] = x;
    }
}

// One shard. Ballots are whole numbers: labels tie exactly when they have equally many. Weighted ones become shares, and tie
// within the tolerance of all scores.
template <bool Weighted>
void vote(const Pass& p, const int32_t* row_label, const double* row_weight, int lanes, Worker& w, int64_t begin,
          int64_t end) {
    const bool soft = p.recount == Pass::Recount::soft;
    const int block = lanes ? kBlockNumbers / lanes / (p.rest ? 2 : 1) : 0;  // tasks whose shares are counted together
    double* ballots = w.scores + kBlockNumbers;           // [k] zero between tasks
    for (int64_t t = begin; t < end; ++t) {
        const int64_t first = p.task_ptr[t], last = p.task_ptr[t + 1];
        // Three rounds without a branch that depends on the votes: count, find the most, see who has it.
        double votes = double(last - first);
        if constexpr (Weighted) {
            double total = 0.0;
            for (int64_t v = first; v < last; ++v) {
                const double weight = row_weight[p.row[v]];
                ballots[row_label[p.row[v]]] += weight;
                total += weight;
            }
            for (int c = 0; c < p.k; ++c) ballots[c] /= total;
            votes = 1.0;
        } else {
            for (int64_t v = first; v < last; ++v) ballots[row_label[p.row[v]]] += 1.0;
        }
        double best = 0.0;
        for (int64_t v = first; v < last; ++v) {
            const double n = ballots[row_label[p.row[v]]];
            best = n > best ? n : best;
        }
        const double least = Weighted ? tie_threshold(best) : best;
        int winner = first < last ? row_label[p.row[first]] : 0;
        bool tied = false, any = false;
        for (int64_t v = first; v < last; ++v) {
            const int label = row_label[p.row[v]];
            const bool has = Weighted ? ballots[label] >= least : ballots[label] == least;
            tied |= has & any & (label != winner);
            any |= has;
            winner = has ? label : winner;
        }
        if (tied) winner = settle(p, t, ballots, least).label;
        p.labels[t] = winner;
        if (p.confidence) p.confidence[t] = (Weighted ? ballots[winner] : best) / votes;
        if (p.tie) p.tie[t] = tied;
        if (p.posterior)
            for (int c = 0; c < p.k; ++c) p.posterior[t * p.k + c] = ballots[c] / votes;
        if (soft && block && w.soft) {
            const int place = int((t - begin) % block);
            double* const mine = w.shares + place * lanes * (p.rest ? 2 : 1);
            if constexpr (Weighted) count_weights(p, w, ballots, mine, mine + lanes);
            else count_ballots(p, w, ballots, votes, mine, mine + lanes);
            if (place + 1 == block || t + 1 == end) kernels().recount(p, w, lanes, t - place, place + 1);
        } else if (soft) {
            // w.scores hold nothing else here
            if constexpr (Weighted) count_weights(p, w, ballots, w.shares, w.shares + p.k);
            else count_ballots(p, w, ballots, votes, w.shares, w.shares + p.k);
            recount_soft(p, w, t, w.shares, w.shares + p.k);
        }
        if (Weighted || soft || p.posterior) {
            for (int c = 0; c < p.k; ++c) ballots[c] = 0.0;
        } else {
            for (int64_t v = first; v < last; ++v) ballots[row_label[p.row[v]]] = 0.0;
        }
    }
    if (p.recount != Pass::Recount::hard) return;
    for (int64_t t = begin; t < end; t += kBlockTasks) {
        kernels().recount(p, w, 0, t, int(std::min<int64_t>(end - t, kBlockTasks)));
    }
}

// row_label in bytes, OUT [rows]
Aligned<uint8_t> narrow_labels(const int32_t* row_label, int64_t rows, int threads) {
    Aligned<uint8_t> narrow = allocate<uint8_t>(size_t(rows));
    share_range(threads, rows, kMergeCells, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) narrow[size_t(r)] = uint8_t(row_label[r]);
    });
    return narrow;
}

// One shard, block by block: as a rule no task has too many votes.
void vote_fast(const Pass& p, const int32_t* row_label, const uint8_t* narrow, int lanes, bool soft, Worker& w, int64_t begin,
               int64_t end) {
    const int block = soft ? std::min(kBlockNumbers / lanes / (p.rest ? 2 : 1), kBlockTasks) : kBlockTasks;
    for (int64_t t = begin; t < end; t += block) {
        const int tasks = int(std::min<int64_t>(end - t, block));
        uint64_t lengths = 0;  // all their bits: below 256 when each length is
        for (int64_t i = t; i < t + tasks; ++i) lengths |= uint64_t(p.task_ptr[i + 1] - p.task_ptr[i]);
        if (lengths <= kMostBallots) kernels().ballots(p, w, narrow, lanes, t, tasks);
        else vote<false>(p, row_label, nullptr, soft ? lanes : 0, w, t, t + tasks);
    }
}

}  // namespace

void majority(const Pass& given, const int32_t* row_label, const double* row_weight, int64_t* hard_counts,
              int64_t* hard_class_counts, double* soft_counts, double* soft_class_counts, double* soft_class_rest,
              int threads) {
    Pass p = given;
    p.recount = soft_counts   ? Pass::Recount::soft
                : hard_counts ? Pass::Recount::hard
                              : Pass::Recount::none;
    p.shared_hard = hard_counts;
    p.shared_soft = soft_counts;
    const Shards shards(p);
    threads = shards.useful(threads);
    const int lanes = soft_counts ? lanes_for(p.k) : 0, stride = lanes ? lanes : p.k;
    Crew crew(p, threads);
    crew.give_tallies(p, stride);
    const int fast = row_weight ? 0 : lanes_for(p.k);
    Aligned<uint8_t> narrow;
    if (fast) narrow = narrow_labels(row_label, p.rows, threads);
    crew.run(p, shards, [&](const Pass& q, Worker& w, int64_t begin, int64_t end, Sums&) {
        if (fast) vote_fast(q, row_label, narrow.get(), fast, soft_counts, w, begin, end);
        else if (row_weight) vote<true>(q, row_label, row_weight, lanes, w, begin, end);
        else vote<false>(q, row_label, row_weight, lanes, w, begin, end);
    });
    if (hard_counts) crew.add_up(p, p.k, hard_counts, hard_class_counts, hard_class_counts);
    if (soft_counts) crew.add_up(p, stride, soft_counts, soft_class_counts, soft_class_rest);
}

}  // namespace adjudge
