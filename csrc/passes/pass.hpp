// What one pass over the votes reads and writes. Plain pointers: the caller owns every buffer.
#pragma once

#include <cstdint>

#include "careful.hpp"
#include "hash.hpp"
#include "isa.hpp"
#include "units.hpp"

namespace adjudge {

struct Labelled;
struct Honest;
struct HonestOut;

// What stays the same for all threads during one pass.
struct Pass {
    // IN: the votes
    const int64_t* task_ptr = nullptr;  // [tasks + 1] absolute positions in row
    const uint32_t* row = nullptr;      // [votes]
    int64_t tasks = 0;
    int64_t rows = 0;
    int k = 0;  // labels

    // IN: the model
    const double* table = nullptr;      // [rows, k] log pi
    const double* log_prior = nullptr;  // [k]

    // IN: who wins a tie
    TieKeys task_key;                      // of [tasks]
    const uint64_t* label_hash = nullptr;  // [k]
    const double* favour = nullptr;             // [k] or none: ties go to the largest of these first

    // IN/OUT and OUT: what is known of each task; any but labels may be absent
    int32_t* labels = nullptr;  // [tasks] previous label in (-1: none yet), this pass's out
    double* confidence = nullptr;    // [tasks]
    bool* tie = nullptr;             // [tasks]
    double* posterior = nullptr;     // [tasks, k]

    bool likelihood = true;  // sum the log-likelihood too

    // Copies of the model made for speed: lines padded with -inf to `lanes` numbers, aligned.
    int lanes = 0;                   // 2, 4, 8 or 16; 0: read the caller's table as it is
    const double* lines = nullptr;   // [rows, lanes]
    const double* start = nullptr;   // [lanes] log prior
    int narrow_lanes = 0;            // numbers in a line of the single-precision copy
    const float* narrow_lines = nullptr;  // [rows, narrow_lanes]
    const float* narrow_start = nullptr;  // [narrow_lanes]
    int cost_bytes = 0;              // of a cost, 1 or 2 (costs.hpp); 0: there are none
    const void* cost_lines = nullptr;  // [rows, narrow_lanes] the table in whole steps
    const void* cost_start = nullptr;  // [narrow_lanes] log prior
    double steps = 0.0;              // of costs, in 1
    double largest = 0.0;            // the largest finite magnitude in table and log_prior
    bool one_sign = false;           // nothing in them is above 0
    int ahead = 0;                   // votes whose lines are fetched ahead of their use; 0: the nearest caches hold them

    // How the recount is kept. Private tallies are one thread's own; shared ones take atomic additions.
    enum class Recount { none, soft, hard, delta } recount = Recount::none;
    int64_t* shared_hard = nullptr;  // IN/OUT [rows, k]
    double* shared_soft = nullptr;        // IN/OUT [rows, k]

    // How soft shares are counted; see units.hpp.
    Units units;
    double* rest = nullptr;  // IN/OUT [rows, k] the second sums of fine counts, or none: coarse
};

// What one thread keeps to itself during a pass.
struct Worker {
    uint8_t* hard = nullptr;  // [rows, k] private tally, whose full cells go to the shared one, or none: shared
    double* soft = nullptr;         // [rows, lanes or k] private tally, or none: shared; fine: [rows, 2, lanes or k]
    double* class_counts = nullptr;  // [k rounded up]
    double* class_rest = nullptr;    // [k rounded up] soft: what is left of them, or the second sums
    double* scores = nullptr;        // [kBlockNumbers + padded(k)] room to work
    double* shares = nullptr;        // shares of a block as they are counted: scores, or where fine twice as much room
    float* narrow = nullptr;         // [narrow_lanes] room to work, only above 16 labels
};

// The scalars of a pass, of one shard or of all.
struct Sums {
    double log_likelihood = 0.0;
    double classification = 0.0;  // C2, the paper's classification likelihood
    int64_t changed = 0;
    int64_t impossible = 0;
    int64_t second_looks = 0;

    void operator+=(const Sums& other) {
        log_likelihood += other.log_likelihood;
        classification += other.classification;
        changed += other.changed;
        impossible += other.impossible;
        second_looks += other.second_looks;
    }
};

// The kernels of one instruction set: tasks begin..end of the pass.
struct Kernels {
    const char* name;
    void (*full)(const Pass&, Worker&, int64_t begin, int64_t end, Sums&);  // float64, everything asked for
    void (*scan)(const Pass&, Worker&, int64_t begin, int64_t end, Sums&);  // hard labels in a hurry
    // A block of at most kBlockTasks decided tasks into the counts: hard by p.labels; soft, into private tallies, by the
    // shares IN w.shares, [tasks, lanes], fine: [tasks, 2, lanes].
    void (*recount)(const Pass&, Worker&, int lanes, int64_t first, int tasks);
    // to OUT [rows, lanes], of `bytes` bytes each: the costs (costs.hpp) of the lines IN from [rows, k]. Returns their
    // largest finite magnitude.
    double (*costs)(const double* from, int64_t rows, int k, int lanes, double steps, int bytes, void* to);
    // Majority vote of at most kBlockTasks tasks, soft: kBlockNumbers shares, of at most 255 votes each.
    void (*ballots)(const Pass&, Worker&, const uint8_t* row_label, int lanes, int64_t first, int tasks);
    // Honest probabilities of up to 16 labels (honest_lanes.hpp); both IN [rows, 2, lanes], or null.
    void (*honest)(const Labelled&, const Honest&, const double* both, int lanes, const HonestOut&, int64_t begin, int64_t end,
                   bool alone);
    // Of x IN/OUT [n], elementwise.hpp: logarithms, of at least `least`, in whole units or not; logistic functions; powers.
    // Of counts IN [n]: logarithms OUT [n]. Of x <= 0: exp. Sums of two lines; the largest of some numbers.
    void (*logs)(double* x, int64_t n, double least, bool units);
    void (*logistics)(double* x, int64_t n);
    void (*powers)(double* x, int64_t n, double power);
    void (*log_counts)(const double* counts, int64_t n, double* logs);
    void (*exps)(double* x, int64_t n);
    void (*add_lines)(const double* one, const double* other, double more, double floor, int64_t n, bool add, double* line);
    double (*largest)(const double* x, int64_t n);
    CarefulKernels<int64_t> careful_hard;
    CarefulKernels<double> careful_soft;
};

const Kernels& kernels();              // those of this machine
const Kernels* kernels_by_index(int);  // all that this machine can run, slowest first; null past the end (for tests)
void use_kernels(const Kernels*);      // for tests and benchmarks; null: those of this machine

ADJUDGE_INLINE int padded(int k) { return (k + 7) / 8 * 8; }
constexpr int kBlockNumbers = 2048;  // scores of one block of tasks: half the nearest cache
constexpr int kBlockTasks = 1024;
constexpr int kNearAhead = 40, kFarAhead = 128;  // votes whose lines are fetched ahead, from a near cache or from memory

}  // namespace adjudge
