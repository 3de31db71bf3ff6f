// The inputs of a stream's honest confidence other than its running counts: measured from all votes at intervals.
//
// The errors that workers share, whether votes agree with each other as the labels say they should, and the mean worker
// are sums over all votes. They are renewed when a tenth of the votes has changed, so that a vote costs the same
// at any number of votes. `models/honest.py` computes them from the sums; a stream stores them here.
#pragma once
#include <cstdint>
#include <vector>

namespace adjudge {

enum class Confidence {
    posterior,  // that of the E-step under today's parameters
    honest,     // without the task's own share in the counts, by a measurement less than a tenth of the votes old
    lasting,    // the same, by a measurement of any age
};

enum class Due {
    nothing,
    labels,  // there are votes with a label that was not there: the mean worker, from the counts
    all,
};

constexpr uint64_t kRenewAfter = 10;          // measure again when one vote in ten has changed
constexpr uint64_t kCellsPerChange = 8192;    // and no more of the k * k cells of the mean worker are recounted per change
constexpr uint64_t kFit = uint64_t(1) << 32;  // changes that a fit counts as: more than a tenth of any votes

constexpr uint32_t kManyVotes = 1024;         // from so many on, most votes leave the label of their task as it is …
constexpr uint64_t kLooksPerDoubling = 64;    // … and about so many settle it until it has twice as many

struct Measured {
    std::vector<double> lent;      // [k given, k true] units of votes of the mean worker that every worker is lent
    double lent_total = 0.0;       // for every true label
    std::vector<double> log_prior; // [k] where scores start
    std::vector<double> uniform;   // [k] equal shares of the labels that exist, 0 for others
    double shared_error = 0.0, holds = 1.0;
    int64_t votes = -1;            // that there were; -1: never measured
    uint64_t changes = 0;          // that there had been
};

// Sums over all tasks without gold and ordered pairs of different votes on one, and counts; see `measure` and `_judge` there.
struct Measures {
    double together = 0.0, apart = 0.0;  // errors beyond each worker's own rate, and their standard deviations
    double skills = 0.0;                 // how far workers agree with the labels beyond chance
    double alike = 0.0, pairs = 0.0;     // pairs that give the same label; all pairs
    std::vector<int64_t> given;          // [k given, k true] votes by their own label and that of their task, of evicted ones, too
    std::vector<int64_t> left_out;       // [k given, k true] those that the sums leave out: on tasks with gold, or evicted
    std::vector<int64_t> tasks;          // [k] by label, with the evicted ones
    int64_t votes = 0;                   // in memory
    uint64_t changes = 0;
};

// The inputs of workers' accuracies other than their own counts: see `CrowdSums` there. The sums by label are over the
// votes of a sample of the tasks in memory, which does not depend on the tasks' codes.
struct CrowdSums {
    std::vector<int64_t> votes;         // [k given, k label]
    std::vector<int64_t> right, doubt;  // [k given, k label] probabilities of answers, and of labels being wrong, in kAnswerUnit
    int64_t cast = 0, pairs = 0;        // votes in memory on tasks without gold, and ordered pairs of different ones on one task
};

constexpr uint64_t kSampledCells = uint64_t(1) << 17;  // votes x labels of the sample, about

// What readers see of a task.
struct Answer {
    int label;
    bool tied;
    bool certain = false;  // its label is gold
};

}  // namespace adjudge
