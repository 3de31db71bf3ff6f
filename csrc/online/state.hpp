// Votes that come one at a time: counts kept so that a vote costs what its own task costs, and nothing else.
//
// Every task has a share in the counts: its label (hard) or its posterior (soft) times each of its votes. A vote takes
// the old share of its task out, settles the task again, and puts the new share in. Shares are integer multiples of
// 2^-32, held in integers: what is put in can be taken out again to the last bit, however often, so that counts never
// drift, and equal a recount from scratch.
//
// A change has two halves. The first one (add_task, add_row, expect) allocates, may throw, and can be taken back with
// `rewind`; the second one (learn, retract) allocates nothing and cannot fail.
#pragma once
#include <cstdint>
#include <vector>

#include "../encode/codes.hpp"
#include "../passes/one_task.hpp"
#include "ballots.hpp"
#include "measured.hpp"

namespace adjudge {

// Room to work on one task. Readers bring their own, so that any number of them can read at once.
struct Scratch {
    std::vector<double> numbers;   // log prior, scores, lent, posterior: [k] each; then a table, [votes, k]
    std::vector<uint32_t> places;  // 0, 1, 2, …
    int64_t ends[2] = {0, 0};
    int k = 0;

    void fit(int labels, size_t votes);  // makes room for a task with so many votes
    double* log_prior() { return numbers.data(); }
    double* scores() { return numbers.data() + k; }
    double* lent() { return numbers.data() + 2 * size_t(k); }
    double* posterior() { return numbers.data() + 3 * size_t(k); }
    double* table() { return numbers.data() + 4 * size_t(k); }
};

// What the shares of tasks add up to, in units.
struct Counts {
    std::vector<int64_t> rows, workers;            // [rows, k], [workers, k]
    std::vector<int64_t> pooled, pooled_total;     // [k given, k true], [k true]: the mean worker
    std::vector<int64_t> classes;                  // [k]
    int64_t settled = 0;                           // tasks that have a share

    explicit Counts(int k, size_t rows = 0, size_t workers = 0);
    Counts widened(int k) const;  // with room for one more label than these k
    void resize(int k, size_t rows, size_t workers);  // allocate this many rows and workers
};

// A task that leaves memory, or comes back: what there was of it.
struct Evicted {
    std::vector<uint32_t> rows;  // of its votes, in order
    int32_t label = -1;          // -1: no votes
    std::vector<int64_t> units;  // soft only: its posterior, [labels there were]
    uint8_t fitted = 0;          // see Task::fitted
    int32_t gold = -1;
    uint64_t number = 0;         // its place among all tasks
};

// What is known of every task: its label, and for soft streams its posterior.
struct Shares {
    const int32_t* winners = nullptr;  // IN [tasks], -1: no votes
    const int64_t* units = nullptr;    // IN [tasks, width], or none: hard
    size_t width = 0;                  // the labels there were: later ones have no share
    const uint8_t* fitted = nullptr;   // IN [tasks], or none: see Task::fitted
    const int32_t* gold = nullptr;     // IN [tasks] the gold it was fitted with, -1: none; or nothing: that of today
};

class Online {
public:
    static constexpr int64_t ONE = int64_t(1) << 32;
    static constexpr size_t TOGETHER = 8;  // probabilities of at least 2^-64 each, multiplied: no underflow

    // strength: how many votes of the mean worker every worker is given in advance; 0 is the paper.
    Online(std::vector<uint64_t> label_hash, bool hard, double strength);
    Online(const Online&) = delete;

    int labels() const { return k_; }
    size_t tasks() const { return tasks_.size(); }  // codes: of those that were forgotten, too
    size_t gone() const { return gone_; }           // tasks that were forgotten
    bool gone(uint32_t task) const { return tasks_[task].gone; }
    size_t rows() const { return row_worker_.size(); }
    size_t workers() const { return counts_.workers.size() / size_t(k_); }
    bool hard() const { return hard_; }

    // The first half of a change. Each may throw, and leaves what `rewind` can take back.
    struct Mark {
        size_t tasks, rows, workers;
        uint64_t number;
    };
    Mark mark() const { return {tasks(), rows(), workers(), next_number_}; }
    void add_task(uint64_t key, int gold = -1);  // key: the hash of (seed, task) that settles its ties
    uint32_t add_row(uint32_t worker, uint32_t label);
    void expect(uint32_t task);     // room for one more vote on a task
    void unexpect(uint32_t task) noexcept { --tasks_[task].coming; }  // that vote does not come after all
    void rewind(const Mark& mark) noexcept;  // no vote has the rows and tasks since the mark

    // The second half: the vote that was expected; with `replace` in the place of the worker's earlier ones on the task.
    void learn(uint32_t task, uint32_t row, bool replace) noexcept;
    // The same, but the task keeps its label and its share: costs the same however many votes it has.
    void learn_lightly(uint32_t task, uint32_t row, bool replace) noexcept;
    // Whether the next vote on a task settles it. Large tasks settle on a fraction of their votes, chosen by the number of changes, so
    // that the cost per vote is bounded and the same votes give the same labels.
    bool settles_next(uint32_t task) const;
    // What readers see of the task that was learned last, as in `answer`: probabilities OUT [k]. If its E-step left
    // the counts as they were, it is not done again.
    Answer answer_learned(uint32_t task, Confidence kind, double* probabilities);
    // Takes all votes of a worker on a task back; returns how many there were. May throw before it changes anything.
    int retract(uint32_t task, uint32_t worker);
    // Fixes the label of a task, or frees it (-1). May throw before it changes anything.
    void set_gold(uint32_t task, int gold);
    // A new label, after all others. May throw before it changes anything.
    void add_label(uint64_t hash);
    // Takes a task and all its votes back; returns how many there were. Its code stays, and is never used again.
    int forget(uint32_t task) noexcept;
    void compact();  // gives the tasks that are left the codes 0, 1, 2, …; may throw before it changes anything

    // Removes a task from memory but keeps what was learned from it: its share in the counts moves into a base, which no
    // fit and no vote changes. Its code stays, as after `forget`. May throw before it changes anything.
    Evicted evict(uint32_t task);
    // Moves the share of an evicted task out of the base; throws, and changes nothing, if it is not in the base.
    void leave_base(const Evicted& back);
    void rejoin_base(const Evicted& back) noexcept { shift_base(back, 1); ++evicted_; }  // undoes that
    // Then makes a new task, the last one, that task again: nothing is as it would not be without `evict`. Fails never.
    void bring_back(const Evicted& back) noexcept;
    uint64_t evicted() const { return evicted_; }  // tasks that have left and are not back
    const Counts& base() const { return base_; }                // what they add up to
    const Counts& labelled_base() const { return hard_ ? base_ : base_labelled_; }
    int32_t row_of(uint32_t worker, uint32_t label) const {  // -1: no such row
        return worker < workers() ? row_of_[size_t(worker) * k_ + label] : -1;
    }
    void expect_back(size_t votes);  // reserve memory for this many votes on the last task
    // The base of a saved stream: IN [rows, k] and [k], and soft the same of labels. Throws where it cannot be one.
    void start_base(const int64_t* counts, const int64_t* classes, const int64_t* labelled, const int64_t* labelled_classes,
                    uint64_t evicted);

    // The place of each task among all that there were, which is the order of every list; and of the next one.
    uint64_t number(uint32_t task) const { return number_[task]; }
    uint64_t next_number() const { return next_number_; }
    std::vector<uint32_t> in_order() const;  // the codes of the tasks that there are
    bool is_in_order() const { return is_in_order_; }  // that is the order of the codes
    void start_numbers(const int64_t* numbers, uint64_t next);  // IN [tasks] of a saved stream
    uint64_t changes() const { return changes_; }
    void start_changes(uint64_t changes) noexcept { changes_ = changes; }  // likewise, after `adopt`

    // The E-step of one task under today's parameters: posterior OUT [k].
    baseline::Decision predict(uint32_t task, Scratch& scratch, double* posterior) const;

    // What readers see of a task under one kind of confidence: probabilities OUT [k].
    Answer answer(uint32_t task, Confidence kind, Scratch& scratch, double* probabilities) const;
    // Honest probabilities before the last step of the rule, of a task with votes: p OUT [k].
    void honest(uint32_t task, Scratch& scratch, double* p) const;
    // Whether such an answer must wait for a new measurement, and how much of it must be renewed.
    Due due(Confidence kind, uint64_t ahead = 0) const;  // ahead: after this many more votes
    Measures measure(bool sums) const;  // without the sums: counts alone, at a cost independent of the number of votes
    CrowdSums crowd(Confidence kind) const;
    // Sums over all votes of a worker, of tasks that were evicted, too: how many there are, and of each what IN [k given, k label]
    // say of it.
    struct Judged {
        int64_t votes = 0;
        double right = 0.0, doubt = 0.0;
    };
    Judged judge(uint32_t worker, const double* right, const double* doubt) const;
    void install(Measured&& measured) noexcept { measured_ = std::move(measured); }
    const Measured& measured() const { return measured_; }

    // Puts the shares of a fit in the place of all shares in memory; changes everything or, when it throws, nothing. task_ptr and
    // row are the fitted votes, and place, IN [tasks], is each task's index among them, or NONE: a task that is not
    // there, or whose votes are others by now, is settled as after a vote.
    void adopt(const uint32_t* place, const int64_t* task_ptr, const uint32_t* row, Shares shares, bool hard);
    void add_vote(uint32_t task, uint32_t row) {  // without a share: `adopt` follows
        tasks_[task].votes.push_back(row);
        ++named_[row_label_[row]];
    }
    void start_gold(uint32_t task, int gold) { tasks_[task].gold = gold; }  // likewise

    // What a vote will soon want: first the task, then the counts of those who voted on it.
    void fetch(uint32_t task) const {
        __builtin_prefetch(&tasks_[task]);
        if (!hard_) __builtin_prefetch(&posterior_[size_t(task) * k_]);
    }
    void fetch_counts(uint32_t task) const {
        for (const uint32_t row : tasks_[task].votes) {
            __builtin_prefetch(&counts_.rows[size_t(row) * k_]);
            __builtin_prefetch(&counts_.workers[size_t(row_worker_[row]) * k_]);
            if (hard_) continue;
            __builtin_prefetch(&labelled_.rows[size_t(row) * k_]);
            __builtin_prefetch(&labelled_.workers[size_t(row_worker_[row]) * k_]);
        }
    }

    const Ballots& votes(uint32_t task) const { return tasks_[task].votes; }
    uint32_t row_worker(size_t row) const { return row_worker_[row]; }
    uint32_t row_label(size_t row) const { return row_label_[row]; }
    int32_t label(uint32_t task) const { return tasks_[task].label; }
    int32_t gold(uint32_t task) const { return tasks_[task].gold; }
    uint8_t fitted(uint32_t task) const { return tasks_[task].fitted; }
    const int64_t* units(uint32_t task) const { return posterior_.data() + size_t(task) * k_; }  // soft only, [k]
    const Counts& counts() const { return counts_; }
    const Counts& labelled() const { return hard_ ? counts_ : labelled_; }  // the counts of the labels that tasks have
    double confusion(uint32_t worker, uint32_t given, int c) const;  // pi of today

private:
    void add(Counts& to, uint32_t row, int c, int64_t weight) const;  // one vote's part, in units
    void add_share(uint32_t task, uint32_t row, int sign);  // one vote's part of the share that its task has
    void shift(Counts& to, uint32_t task, const int64_t* units) const;  // IN [k] added for all votes of a task, and for the task
    Counts& labelled() { return hard_ ? counts_ : labelled_; }
    void relabel(uint32_t task, int label);                   // the task's part in the counts of labels moves to another
    int majority(uint32_t task, int64_t* shown) const;        // of a task with votes; shown: zeros [k], left so
    void take_out(uint32_t task, uint32_t worker, bool theirs);
    void settle(uint32_t task);                               // needs room in scratch_
    void shift_base(const Evicted& of, int sign) noexcept;  // adds the share of a task to the base, or takes it out
    Counts base_counts(const int64_t* rows, const int64_t* classes) const;
    Answer answer_of(uint32_t task, baseline::Decision settled, Confidence kind, Scratch& scratch, double* p) const;
    void settle_hard(uint32_t task);
    void settle_soft(uint32_t task);
    Pass one_task(uint32_t task, bool together, Scratch& scratch) const;  // the task as a shard of its own
    double mean(uint32_t given, int c) const;                 // pi of the mean worker

    int k_;
    bool hard_;
    double strength_;
    std::vector<uint64_t> label_hash_;
    struct alignas(64) Task {  // one cache line
        Ballots votes;        // rows, in the order they came
        uint64_t key;         // settles its ties
        int32_t label = -1;   // -1: no votes
        uint32_t coming = 0;  // votes that are expected
        int32_t gold = -1;    // the label that it has for certain; -1: none
        uint8_t fitted = 0;   // the label is from the last fit, not from today's parameters: 1, tied 2; else 0
        bool gone = false;    // forgotten
    };
    std::vector<Task> tasks_;
    std::vector<uint64_t> number_;  // [tasks]
    uint64_t next_number_ = 0;
    bool is_in_order_ = true;       // whether numbers never fall
    size_t gone_ = 0;
    std::vector<int64_t> posterior_;             // [tasks, k] in units, soft only
    std::vector<uint32_t> row_worker_, row_label_;
    std::vector<int32_t> row_of_;                // [workers, k], -1: no such row yet
    Counts counts_;
    Counts labelled_;                            // soft only: what the labels add up to
    Counts base_, base_labelled_;                // the part of tasks that were evicted in these two; maybe fewer lines
    uint64_t evicted_ = 0;
    std::vector<int64_t> named_;                 // [k] votes by label, of evicted tasks, too
    uint64_t changes_ = 0;                       // votes learned and taken back; a fit counts as very many
    Measured measured_;
    Scratch scratch_;  // of the one who writes
    baseline::Decision found_{};  // of the one who writes: of the last task that was settled, its posterior in scratch_
    bool is_found_ = false;       // and whether today's counts are still those that it was found with
    std::vector<int64_t> start_;  // [k] of the one who writes: what a task's counts change by
};

}  // namespace adjudge
