#include "drive.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "crew.hpp"
#include "prepare.hpp"

namespace adjudge {
namespace {

constexpr size_t kNarrowBytes = size_t(1) << 30;  // more, and the caller's table is read instead
constexpr size_t kFarTally = size_t(1) << 23;  // bytes, of a thread's hard tally
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLowest = std::numeric_limits<double>::lowest();
typedef double Eight __attribute__((vector_size(64)));
typedef int64_t Numbers __attribute__((vector_size(64)));
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Sums hard_pass(Pass p, int64_t* counts, int64_t* class_counts, bool with_classification, int threads) {
    const Shards shards(p);
    threads = shards.useful(threads);
    const bool counted = p.recount != Pass::Recount::none;
    const bool hurry = !p.likelihood && !p.confidence && !p.tie && !p.posterior && (counted || !with_classification);
    const bool many = votes_of(p) >= p.rows;  // else copies cost more than they save
    const size_t copy = size_t(p.rows) * size_t(p.k) * sizeof(float);
    Prepared own;
    const bool narrow = hurry && many && copy <= kNarrowBytes &&
                        (lanes_for(p.k) ? prepare_costs(p, own, threads) : prepare_narrow(p, own, threads));
    if (!narrow && many && lanes_for(p.k)) prepare_lines(p, own, threads);

    Crew crew(p, threads);
    p.shared_hard = counts;
    if (p.recount == Pass::Recount::hard) crew.give_tallies(p, p.k);
    // A tally that no near cache holds would drive the table's lines out of the farthest: it is filled after the labels.
    const bool apart = p.recount == Pass::Recount::hard && size_t(p.rows) * size_t(p.k) > kFarTally;
    if (apart) p.recount = Pass::Recount::none;
    Sums sums = crew.run(p, shards, narrow ? kernels().scan : kernels().full);
    if (apart) {
        p.recount = Pass::Recount::hard;
        crew.run(p, shards, [](const Pass& q, Worker& w, int64_t begin, int64_t end, Sums&) {
            for (int64_t t = begin; t < end; t += kBlockTasks)
                kernels().recount(q, w, 0, t, int(std::min<int64_t>(end - t, kBlockTasks)));
        });
    }
    if (counted) crew.add_up(p, p.k, counts, class_counts, class_counts);

    if (p.likelihood) {
        if (sums.impossible) sums.log_likelihood = -kInfinity;
        return sums;
    }
    sums.log_likelihood = kNan;
    if (!with_classification) sums.classification = kNan;
    else if (counted)
        sums.classification = classification(counts, class_counts, p.table, p.log_prior, p.rows, p.k, threads);
    return sums;
}

Sums soft_pass(Pass p, double* counts, double* class_counts, double* class_rest, int threads) {
    const Shards shards(p);
    threads = shards.useful(threads);
    Prepared own;
    if (votes_of(p) >= p.rows && lanes_for(p.k)) prepare_lines(p, own, threads);
    p.recount = counts ? Pass::Recount::soft : Pass::Recount::none;
    p.shared_soft = counts;
    const int stride = p.lanes ? p.lanes : p.k;
    Crew crew(p, threads);
    crew.give_tallies(p, stride);
    Sums sums = crew.run(p, shards, kernels().full);
    if (counts) crew.add_up(p, stride, counts, class_counts, class_rest);
    if (sums.impossible) sums.log_likelihood = -kInfinity;
    return sums;
}

void restore_counts(double* counts, const double* rest, double unit, int64_t n, int threads) {
    const Units units(unit);
    const auto restored = [](double sum, const double* scale, const double* least, int first, int step, int end) {
        for (int i = first; i < end && sum != 0.0; i += step)
            if (std::fabs(sum) >= least[i]) return sum / scale[i];
        return 0.0;
    };
    // Most sums are of the first power, whose scale is a power of two, or nothing: a few cells at a time, if all of them are.
    constexpr int64_t kFew = 32;
    const double least = units.coarse_least[0], inverse = 1.0 / units.coarse[0];
    share_range(threads, n, kMergeCells, [&](int64_t begin, int64_t end) {
        for (int64_t first = begin; first < end; first += kFew) {
            const int64_t last = std::min(end, first + kFew);
            bool plain = !rest;
            for (int64_t i = first; i < last; ++i) plain &= (std::fabs(counts[i]) >= least) | (counts[i] == 0.0);
            for (int64_t i = first; i < last; ++i) {
                if (plain) counts[i] *= inverse;
                else
                    counts[i] = rest ? restored(counts[i], units.fine, units.fine_least, 0, 2, units.digits) +
                                           restored(rest[i], units.fine, units.fine_least, 1, 2, units.digits)
                                     : restored(counts[i], units.coarse, units.coarse_least, 0, 1, kCoarseDigits);
            }
        }
    });
}

double classification(const int64_t* counts, const int64_t* class_counts, const double* table,
                      const double* log_prior, int64_t rows, int k, int threads) {
    const int64_t cells = rows * k;
    std::vector<double> part(size_t((cells + kMergeCells - 1) / kMergeCells));
    share_range(threads, cells, kMergeCells, [&](int64_t begin, int64_t end) {
        // Eight sums side by side, without a branch: which cells are impossible is hard to guess.
        Eight sum{};
        int64_t i = begin;
        for (; i + 8 <= end; i += 8) {
            Numbers number;
            Eight log;
            std::memcpy(&number, counts + i, sizeof number);
            std::memcpy(&log, table + i, sizeof log);
            const Eight product = __builtin_convertvector(number, Eight) * log;
            sum += product >= kLowest ? product : Eight{};  // neither 0 * -inf nor -inf
        }
        double all = 0.0;
        for (int n = 0; n < 8; ++n) all += sum[n];
        for (; i < end; ++i) {
            const double product = double(counts[i]) * table[i];
            all += product >= kLowest ? product : 0.0;
        }
        part[size_t(begin / kMergeCells)] = all;
    });
    double sum = 0.0;
    for (double x : part) sum += x;
    for (int c = 0; c < k; ++c)
        if (class_counts[c]) sum += double(class_counts[c]) * log_prior[c];
    return sum;
}

}  // namespace adjudge
