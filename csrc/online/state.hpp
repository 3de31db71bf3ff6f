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

namespace quorate {

class Online {
public:
    static constexpr int64_t ONE = int64_t(1) << 32;

    // strength: how many votes of the mean worker every worker is given in advance; 0 is the paper.
    Online(std::vector<uint64_t> label_hash, bool hard, double strength);

    int labels() const { return k_; }
    size_t tasks() const { return votes_.size(); }
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
    void add_vote(uint32_t task, uint32_t row) { votes_[task].push_back(row); }
    void set_share(uint32_t task, const int64_t* share);  // IN [k], in units; the votes of the task are all there

    const std::vector<uint32_t>& votes(uint32_t task) const { return votes_[task]; }
    uint32_t row_worker(size_t row) const { return row_worker_[row]; }
    uint32_t row_label(size_t row) const { return row_label_[row]; }
    int32_t label(uint32_t task) const { return label_[task]; }
    void share(uint32_t task, int64_t* out) const;               // OUT [k], in units
    const std::vector<int64_t>& counts() const { return counts_; }  // [rows, k], in units
    const std::vector<int64_t>& class_counts() const { return class_counts_; }
    double confusion(uint32_t worker, uint32_t given, int c) const;  // pi of today

private:
    void put(uint32_t task, const int64_t* share, int sign);  // IN [k]
    void settle(uint32_t task);                               // majority, M-step, E-step, M-step
    Pass one_task(uint32_t task) const;                       // the task as a shard of its own
    double mean(uint32_t given, int c) const;                 // pi of the mean worker

    int k_;
    bool hard_;
    double strength_;
    std::vector<uint64_t> label_hash_;
    std::vector<std::vector<uint32_t>> votes_;  // rows by task, in the order they came
    std::vector<uint64_t> key_;                 // by task
    std::vector<int32_t> label_;                // by task; -1: no votes
    std::vector<int64_t> posterior_;            // [tasks, k] in units, soft only
    std::vector<uint32_t> row_worker_, row_label_;
    std::vector<int32_t> row_of_;                // [workers, k], -1: no such row yet
    std::vector<int64_t> counts_, totals_;       // [rows, k], [workers, k]
    std::vector<int64_t> pooled_, pooled_total_;  // [k given, k true], [k true]: the mean worker
    std::vector<int64_t> class_counts_;
    int64_t settled_ = 0;  // tasks that have a share
    // Room to work, so that a vote allocates nothing.
    mutable std::vector<double> table_, log_prior_, scores_;
    mutable std::vector<uint32_t> places_;
    mutable int64_t ends_[2] = {0, 0};
    std::vector<int64_t> share_, start_;
};

}  // namespace quorate
