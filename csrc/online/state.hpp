// Votes that come one at a time: counts kept so that a vote costs what its own task costs, and nothing else.
//
// Every task has a share in the counts: its label (hard) or its posterior (soft) times each of its votes. A vote takes
// the old share of its task out, settles the task anew, and puts the new share in. Shares are whole multiples of
// 2^-32, held in integers: what is put in can be taken out again to the last bit, however often, so that counts never
// drift, and equal a recount from scratch.
#pragma once
#include <cstdint>
#include <vector>

#include "../passes/one_task.hpp"
#include "ballots.hpp"

namespace quorate {

class Online {
public:
    static constexpr int64_t ONE = int64_t(1) << 32;
    static constexpr size_t TOGETHER = 8;  // probabilities of at least 2^-64 each, multiplied: no underflow

    // strength: how many votes of the mean worker every worker is given in advance; 0 is the paper.
    Online(std::vector<uint64_t> label_hash, bool hard, double strength);
    Online(const Online&) = delete;

    int labels() const { return k_; }
    size_t tasks() const { return tasks_.size(); }
    size_t rows() const { return row_worker_.size(); }
    size_t workers() const { return totals_.size() / k_; }
    bool hard() const { return hard_; }

    void add_task(uint64_t key);  // key: the hash of (seed, task) that settles its ties

    // One vote; with `replace` it takes the place of the worker's earlier ones on the task.
    void learn(uint32_t task, uint32_t worker, uint32_t label, bool replace);
    // Takes all votes of a worker on a task back; returns how many there were.
    int retract(uint32_t task, uint32_t worker);
    // The E-step of one task under today's parameters: posterior OUT [k].
    baseline::Decision predict(uint32_t task, double* posterior) const;

    // Starts from a finished fit: rows and votes as in `Votes`, and every task's share.
    uint32_t add_row(uint32_t worker, uint32_t label);
    void add_vote(uint32_t task, uint32_t row) { tasks_[task].votes.push_back(row); }
    // What a vote will soon want: first the task, then the counts of those who voted on it.
    void fetch(uint32_t task) const { __builtin_prefetch(&tasks_[task]); }
    void fetch_counts(uint32_t task) const {
        for (const uint32_t row : tasks_[task].votes) {
            __builtin_prefetch(&counts_[size_t(row) * k_]);
            __builtin_prefetch(&totals_[size_t(row_worker_[row]) * k_]);
        }
    }
    void set_share(uint32_t task, const int64_t* share);  // IN [k], in units; the votes of the task are all there

    const Ballots& votes(uint32_t task) const { return tasks_[task].votes; }
    uint32_t row_worker(size_t row) const { return row_worker_[row]; }
    uint32_t row_label(size_t row) const { return row_label_[row]; }
    int32_t label(uint32_t task) const { return tasks_[task].label; }
    void share(uint32_t task, int64_t* out) const;               // OUT [k], in units
    const std::vector<int64_t>& counts() const { return counts_; }  // [rows, k], in units
    const std::vector<int64_t>& class_counts() const { return class_counts_; }
    double confusion(uint32_t worker, uint32_t given, int c) const;  // pi of today

private:
    void add(uint32_t row, int c, int64_t weight);            // one vote's part, in units
    void put(uint32_t task, const int64_t* share, int sign);  // IN [k] all votes of a task, and the task
    void relabel(uint32_t task, int label);                   // hard: the task's part moves to another label
    void take_out(uint32_t task, uint32_t worker, bool theirs);
    void settle_hard(uint32_t task);
    void settle_soft(uint32_t task);
    Pass one_task(uint32_t task, bool together) const;        // the task as a shard of its own
    double mean(uint32_t given, int c) const;                 // pi of the mean worker

    int k_;
    bool hard_;
    double strength_;
    std::vector<uint64_t> label_hash_;
    struct alignas(64) Task {  // one cache line
        Ballots votes;       // rows, in the order they came
        uint64_t key;        // settles its ties
        int32_t label = -1;  // -1: no votes
    };
    std::vector<Task> tasks_;
    std::vector<int64_t> posterior_;            // [tasks, k] in units, soft only
    std::vector<uint32_t> row_worker_, row_label_;
    std::vector<int32_t> row_of_;                // [workers, k], -1: no such row yet
    std::vector<int64_t> counts_, totals_;       // [rows, k], [workers, k]
    std::vector<int64_t> pooled_, pooled_total_;  // [k given, k true], [k true]: the mean worker
    std::vector<int64_t> class_counts_;
    int64_t settled_ = 0;  // tasks that have a share
    // Room to work, so that a vote allocates nothing.
    mutable std::vector<double> table_, log_prior_, scores_, lent_, posterior_room_;
    mutable std::vector<uint32_t> places_;
    mutable int64_t ends_[2] = {0, 0};
    std::vector<int64_t> start_;
};

}  // namespace quorate
