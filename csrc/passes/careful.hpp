// The M-steps of auto and of honest confidence: sums over the rows of each worker, and the lines made of them.
#pragma once

#include <cmath>
#include <cstdint>

namespace adjudge {

constexpr double kLeastVotes = 1e-9;  // that anything is divided by
inline double logit(double p) { return std::log(p / (1.0 - p)); }

// Workers and their rows: a row is a (worker, given label) pair.
template <class Count>
struct WorkerCounts {
    const Count* counts;        // [rows, k] votes of a row by true label
    const int64_t* worker_ptr;  // [workers + 1] each worker's rows
    const int32_t* row_label;   // [rows] the given label
    int64_t workers;
    int k;
    const double* kept = nullptr;  // [rows, k] counts that these are mixed with, or null; only sums can be of such
    double kept_share = 0.0, own_share = 1.0;
};

// met OUT [workers, k] votes by true label, or null; said OUT [workers, k] by given label, or null; right and votes OUT
// [workers]; given OUT [k given, k true] those of all workers together, or null.
struct WorkerSums {
    double *met, *said, *right, *votes, *given;
};

// The threads do not matter.
template <class Count>
void worker_sums(const WorkerCounts<Count>& in, const WorkerSums& out, int threads);

// sums OUT [3]: what the spread of skill is measured by (`spread_moments` in models/honest.py), of workers whose expected
// accuracy is that of the mean worker, own IN [k], on the labels that each met. The threads do not matter.
void careful_moments(const double* met, const double* right, const double* votes, const double* own, int64_t workers, int k,
                     double* sums, int threads);

// out OUT [n]: x times one plus y times the other.
template <class Count>
void blend_counts(const double* one, const Count* other, double x, double y, int64_t n, double* out, int threads);

// What every careful worker shares; `models/careful.py` has the formulas.
struct Careful {
    const double* met;       // [workers, k]
    const double* said;      // [workers, k] version A; null: version B
    const double* right;     // [workers]
    const double* own;       // [k] the mean worker's accuracy by true label
    const double* errors;    // [k true, k given] shares of its errors
    const uint8_t* exists;   // [k]
    double kappa;            // votes of the mean worker that an accuracy is shrunk by
    double weight;           // of the worker's shift away from the mean worker
    double taste_power;      // version A; 0: version B
    double most_own;         // version B: the largest share of the worker's own rows
};

// The same for some workers, up to 16 labels, by one instruction set (careful_lanes.hpp). given IN/OUT [k given, lanes] or
// null; room [3, workers, lanes].
template <class Count>
struct CarefulKernels {
    void (*sums)(const WorkerCounts<Count>&, int lanes, const WorkerSums&, double* given, int64_t begin, int64_t end);
    void (*lines)(const WorkerCounts<Count>&, int lanes, const Careful&, double* room, double* table, int64_t begin, int64_t end);
};

// table OUT [rows, k]: the logarithm of one of the two versions, in whole units.
template <class Count>
void careful_table(const WorkerCounts<Count>& in, const Careful& shared, double* table, int threads);

// both OUT [rows, 2, k]: log-probabilities of a vote by true label, with and without it in the counts. `lent` IN [k given,
// k true] is what each worker is lent, `in_all` of them by true label; without it, cells without votes are 0.
template <class Count>
void honest_lines(const WorkerCounts<Count>& in, const double* lent, const uint8_t* exists, double in_all, double* both,
                  int threads);

}  // namespace adjudge
