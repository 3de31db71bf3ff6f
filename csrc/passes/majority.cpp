#include "majority.hpp"

#include "crew.hpp"
#include "recount.hpp"

namespace quorate {
namespace {

using namespace baseline;

// One shard. Ballots are whole numbers: labels tie exactly when they have equally many.
void vote(const Pass& p, const std::int32_t* row_label, Worker& w, std::int64_t begin, std::int64_t end) {
    const bool shares = p.posterior || p.recount == Pass::Recount::soft;
    double* ballots = w.scores;  // [k] zero between tasks
    for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t first = p.task_ptr[t], last = p.task_ptr[t + 1];
        // Three rounds without a branch that depends on the votes: count, find the most, see who has it.
        for (std::int64_t v = first; v < last; ++v) ballots[row_label[p.row[v]]] += 1.0;
        double best = 0.0;
        for (std::int64_t v = first; v < last; ++v) {
            const double n = ballots[row_label[p.row[v]]];
            best = n > best ? n : best;
        }
        int winner = first < last ? row_label[p.row[first]] : 0;
        bool tied = false, any = false;
        for (std::int64_t v = first; v < last; ++v) {
            const int label = row_label[p.row[v]];
            const bool has = ballots[label] == best;
            tied |= has & any & (label != winner);
            any |= has;
            winner = has ? label : winner;
        }
        if (tied) winner = settle(p, t, ballots, best).label;
        p.labels[t] = winner;
        const double votes = double(last - first);
        if (p.confidence) p.confidence[t] = best / votes;
        if (p.tie) p.tie[t] = tied;
        if (shares) {
            for (int c = 0; c < p.k; ++c) ballots[c] /= votes;
            if (p.posterior) std::memcpy(p.posterior + t * p.k, ballots, std::size_t(p.k) * sizeof(double));
            if (p.recount == Pass::Recount::soft && p.rest) {
                recount_fine(p, w, t, ballots);
            } else if (p.recount == Pass::Recount::soft) {
                for (int c = 0; c < p.k; ++c) {
                    w.class_counts[c] += counted(ballots[c], p.class_grid, kFaint);
                    ballots[c] = counted(ballots[c], p.grid, kFaint);
                }
                recount_soft(p, w, t, ballots);
            }
            for (int c = 0; c < p.k; ++c) ballots[c] = 0.0;
        } else {
            for (std::int64_t v = first; v < last; ++v) ballots[row_label[p.row[v]]] = 0.0;
        }
    }
    if (p.recount != Pass::Recount::hard) return;
    Lengths lengths;
    for (std::int64_t t = begin; t < end; t += kBlockTasks) {
        const int tasks = int(std::min<std::int64_t>(end - t, kBlockTasks));
        lengths.sort(p.task_ptr + t, p.row, tasks);
        recount_hard(p, w, lengths, t, tasks);
    }
}

}  // namespace

void majority(const Pass& given, const std::int32_t* row_label, std::int64_t* hard_counts,
              std::int64_t* hard_class_counts, double* soft_counts, double* soft_class_counts, int threads) {
    Pass p = given;
    p.recount = soft_counts   ? Pass::Recount::soft
                : hard_counts ? Pass::Recount::hard
                              : Pass::Recount::none;
    p.shared_hard = hard_counts;
    p.shared_soft = soft_counts;
    const Shards shards(p);
    threads = p.rest ? 1 : shards.useful(threads);
    Crew crew(p, threads);
    crew.give_tallies(p, p.k);
    crew.run(p, shards, [&](const Pass& q, Worker& w, std::int64_t begin, std::int64_t end, Sums&) {
        vote(q, row_label, w, begin, end);
    });
    if (hard_counts) crew.add_up(p, p.k, hard_counts, hard_class_counts);
    if (soft_counts) crew.add_up(p, p.k, soft_counts, soft_class_counts);
}

}  // namespace quorate
