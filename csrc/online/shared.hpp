// A stream of votes by id, for any number of threads: the ids, the counts, and a lock over both.
//
// Every operation is whole: it happens entirely or, when it throws, not at all. Readers run side by side, a writer
// alone. The caller takes the lock (`mutex`), because only it knows which other locks to release while it waits.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "../encode/arrow_stream.hpp"
#include "../encode/growing.hpp"
#include "../encode/text_dictionary.hpp"
#include "fair_lock.hpp"
#include "golds.hpp"
#include "state.hpp"

namespace adjudge {

// Texts as Arrow lays them out.
struct Texts {
    Growing<int64_t> offsets;  // [n + 1]
    Growing<char> data;
};

// Everything there is at one moment.
struct Snapshot {
    Texts tasks, workers;
    Growing<uint32_t> row_worker, row_label;  // [rows]
    Growing<int64_t> task_ptr;                // [tasks + 1]
    Growing<uint32_t> row;                    // [votes]
    Growing<int32_t> winners;                 // [tasks], -1: no votes
    Growing<int32_t> task_gold;               // [tasks], -1: none
    Texts golds;                              // tasks with gold, those without votes among them
    Growing<int32_t> gold_labels;             // [golds]
    int64_t abstentions;
    Growing<int64_t> units;                   // soft: [tasks, k]
    Growing<uint8_t> fitted;                  // [tasks]
    Growing<int64_t> order;                   // [tasks] the number of each among all that there were; it never falls
    int64_t tasks_seen;                       // the next such number
    // Evicted tasks: their number, and their sums in units; empty if there are none.
    int64_t evicted;
    Growing<int64_t> base_counts, base_classes;             // [rows, k], [k]
    Growing<int64_t> base_labelled, base_labelled_classes;  // soft: [rows, k], [k]
    uint64_t changes;
    Measured measured;
    bool hard;
    size_t k;  // labels
};

// The same, given by someone else: everything is checked before it is used.
struct Given {
    struct Ids {
        const int64_t* offsets;  // IN [n + 1]
        size_t n;
        const char* data;  // IN [size]
        size_t size;
    } tasks, workers;
    const uint32_t *row_worker, *row_label;  // IN [rows]
    size_t rows;
    const int64_t* task_ptr;  // IN [tasks + 1]
    const uint32_t* row;      // IN [votes]
    size_t votes;
    Ids golds;
    const int32_t* gold_labels;  // IN [golds]
    int64_t abstentions;
    const int64_t* order;  // IN [tasks], or none: as they are
    int64_t tasks_seen;
    int64_t evicted;
    const int64_t *base_counts, *base_classes;              // IN [rows, k], [k], or none
    const int64_t *base_labelled, *base_labelled_classes;   // IN the same, soft
    int64_t changes;  // -1: as after a fit
};

// What an evicted task was, and comes back as.
struct Record {
    std::vector<std::pair<std::string, int32_t>> votes;  // worker and label, in order
    int32_t label = -1;
    std::optional<std::vector<int64_t>> units;  // soft: [labels there were]
    int32_t fitted = 0, gold = -1;
    int64_t number = 0;
};

// What readers see of all tasks.
struct TaskTable {
    Texts tasks;
    Growing<int32_t> label;  // -1: no votes
    Growing<double> confidence;
    Growing<bool> tie;
    Growing<int64_t> votes;
    Growing<bool> gold;
    bool has_gold;  // there is some, even of tasks without votes
};

struct WorkerTable {
    Texts workers;
    Growing<int64_t> votes, right;  // right: the expected number of right ones, in units; honest: in units of their own
    Growing<int64_t> doubt;         // honest: the sum of the probabilities that the labels of their tasks are wrong, in the same
};

class SharedOnline {
public:
    // seed settles ties; replace: a worker's second vote on a task takes the place of the first.
    SharedOnline(std::vector<uint64_t> label_hash, uint64_t seed, bool hard, double strength, bool replace);

    FairLock mutex;

    // --- readers
    const Online& state() const { return state_; }
    size_t tasks() const { return state_.tasks() - state_.gone(); }
    size_t workers() const { return workers_.size(); }
    bool numbers(bool of_tasks) const { return of_tasks ? task_numbers_ : worker_numbers_; }
    int64_t abstentions() const { return abstentions_; }
    int32_t gold(std::string_view task) const { return golds_.of(task); }  // of any task; -1: none
    uint32_t find_task(std::string_view id) const {
        const uint32_t place = find(tasks_, id);
        return place == NONE || state_.gone(place) ? NONE : place;
    }
    uint32_t find_worker(std::string_view id) const { return find(workers_, id); }  // of a worker who has a row
    Snapshot snapshot() const;
    TaskTable task_table(Confidence kind) const;
    WorkerTable worker_table(Confidence kind) const;

    int32_t voted(std::string_view task, std::string_view worker) const;  // the label of the last such vote; -1: none
    std::string_view worker_text(uint32_t worker) const { return text(workers_, worker); }
    std::string_view task_text(uint32_t task) const { return text(tasks_, task); }

    // --- writers; numbers: whether the ids came as numbers, which is kept of the first ones
    uint32_t learn(std::string_view task, std::string_view worker, uint32_t label, bool task_numbers, bool worker_numbers);
    // The same of ids that are texts, but on a task with many votes most leave its label as it is: `is_light` OUT says so.
    uint32_t vote(std::string_view task, std::string_view worker, uint32_t label, bool& is_light);
    // What readers see of the task of this code, which was learned last, as in `state().answer`; p OUT [k].
    Answer answer_learned(uint32_t task, Confidence kind, double* p) { return state_.answer_learned(task, kind, p); }
    void abstain(std::string_view task, std::string_view worker, bool task_numbers, bool worker_numbers);
    // Votes in order: columns 0 and 1 of the batches are tasks and workers, labels IN [votes] are codes; NONE abstains.
    void learn_many(const std::vector<std::unique_ptr<Batch>>& batches, const uint32_t* labels, size_t votes,
                    bool task_numbers, bool worker_numbers);
    int retract(std::string_view task, std::string_view worker);  // how many votes there were
    // Fixes the label of a task, seen or not; -1 frees it. False where there is nothing to free.
    bool set_gold(std::string_view task, int label);
    void add_label(uint64_t hash) { state_.add_label(hash); }
    int forget(std::string_view task);                            // how many votes there were; -1: no such task
    // Takes a task out of memory, and its gold with it, but not what was learned from it; false: no such task.
    bool evict(std::string_view task, Record& out);
    void bring_back(std::string_view task, const Record& record);  // throws, and changes nothing, if the record is not from `evict`
    bool wants_compaction() const;  // most codes are of tasks that are gone
    void compact() noexcept;        // gives their room back
    void restore(const Given& given, Shares shares, bool task_numbers, bool worker_numbers);  // into an empty one
    // The shares of a fit of the tasks and votes that a snapshot had.
    void adopt(const Given::Ids& tasks, const int64_t* task_ptr, const uint32_t* row, size_t votes, Shares shares, bool hard);
    void install(Measured&& measured) noexcept { state_.install(std::move(measured)); }

private:
    class Change;

    static uint32_t find(const TextDictionary& ids, std::string_view id) {
        return ids.find({id.data(), int64_t(id.size())});
    }
    uint32_t learn(std::string_view task, std::string_view worker, uint32_t label, bool task_numbers, bool worker_numbers,
                   bool* is_light);
    void add_tasks();  // those whose ids are new
    uint32_t alive(uint32_t task);  // the code of a task; a new one if the task was forgotten
    static std::string_view text(const TextDictionary& ids, size_t code) {
        const int64_t* at = ids.offsets().data() + code;
        return {ids.data().data() + at[0], size_t(at[1] - at[0])};
    }
    Texts task_texts() const;  // of the tasks that there are
    void check_shares(const int64_t* task_ptr, size_t tasks, size_t votes, Shares shares) const;

    TextDictionary tasks_, workers_;
    Golds golds_;
    Online state_;
    uint64_t salt_;  // of the seed
    bool replace_;
    int64_t abstentions_ = 0;
    bool task_numbers_ = false, worker_numbers_ = false;
};

}  // namespace adjudge
