#include "prepare.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "../threads.hpp"

namespace adjudge {
namespace {

constexpr int64_t kGrain = 1 << 13;          // rows copied in one piece
constexpr size_t kNear = size_t(3) << 18;  // bytes of lines that a core keeps close
constexpr size_t kFar = size_t(1) << 24;   // and those that no cache keeps
constexpr size_t kFarCosts = size_t(1) << 22;

// to OUT [rows, lanes]: from IN [rows, k], padded with -inf.
template <class T>
void pad(const double* from, int64_t rows, int k, int lanes, T* to) {
    for (int64_t r = 0; r < rows; ++r, from += k, to += lanes) {
        for (int c = 0; c < k; ++c) to[c] = T(from[c]);
        for (int c = k; c < lanes; ++c) to[c] = -std::numeric_limits<T>::infinity();
    }
}

struct Range {
    double largest = 0.0;  // finite magnitude
    double highest = -std::numeric_limits<double>::infinity();

    void see(const double* x, int64_t n) {
        double size = largest, top = highest;
        for (int64_t i = 0; i < n; ++i) {
            const double s = std::fabs(x[i]);
            top = x[i] > top ? x[i] : top;
            size = s > size && s <= std::numeric_limits<double>::max() ? s : size;
        }
        largest = size;
        highest = top;
    }
    void see(const Range& other) {
        largest = std::max(largest, other.largest);
        highest = std::max(highest, other.highest);
    }
};

// The dearest label that has a cost of its own, in mean costs per vote. With two bytes there is room for every label of most
// tasks; with one the winners have it, and the steps are fine enough to tell them from the others.
constexpr double kRoomOfOne = 0.75, kRoomOfTwo = 2.0;
constexpr int64_t kSample = 1024;  // rows or tasks in the sample

// The number of votes in the task of a vote, as a mean over votes.
double votes_beside(const Pass& p) {
    const int64_t apart = p.tasks / kSample + 1;
    double votes = 1.0, squares = 1.0;
    for (int64_t t = 0; t < p.tasks; t += apart) {
        const double n = double(p.task_ptr[t + 1] - p.task_ptr[t]);
        votes += n;
        squares += n * n;
    }
    return squares / votes;
}

// A finite cost of the table, as a mean over some rows; 0 if there is none.
double mean_cost(const Pass& p) {
    const int64_t apart = p.rows / kSample + 1;
    double sum = 0.0, number = 0.0;
    for (int64_t r = 0; r < p.rows; r += apart) {
        const double* line = p.table + r * p.k;
        double top = line[0];
        for (int c = 1; c < p.k; ++c) top = line[c] > top ? line[c] : top;
        for (int c = 0; c < p.k; ++c) {
            const double cost = top - line[c];
            const bool counts = cost > 0.0 && cost <= std::numeric_limits<double>::max();
            sum += counts ? cost : 0.0;
            number += counts;
        }
    }
    return number ? sum / number : 0.0;
}

}  // namespace

int lanes_for(int k) { return k <= 2 ? 2 : k <= 4 ? 4 : k <= 8 ? 8 : k <= 16 ? 16 : 0; }

void prepare_lines(Pass& p, Prepared& own, int threads) {
    const int lanes = p.lanes = lanes_for(p.k);
    own.start = allocate<double>(lanes);
    pad(p.log_prior, 1, p.k, lanes, own.start.get());
    p.start = own.start.get();
    if (has_whole_lines(p.table, p.k, lanes)) {
        p.lines = p.table;
    } else {
        own.lines = allocate<double>(size_t(p.rows) * lanes);
        share_range(threads, p.rows, kGrain, [&](int64_t begin, int64_t end) {
            pad(p.table + begin * p.k, end - begin, p.k, lanes, own.lines.get() + begin * lanes);
        });
        p.lines = own.lines.get();
    }
    const size_t bytes = size_t(p.rows) * lanes * sizeof(double);
    p.ahead = bytes > kFar ? kFarAhead : bytes > kNear ? kNearAhead : 0;
}

bool prepare_narrow(Pass& p, Prepared& own, int threads) {
    const int lanes = p.narrow_lanes = lanes_for(p.k) ? lanes_for(p.k) : (p.k + 15) / 16 * 16;
    own.narrow_lines = allocate<float>(size_t(p.rows) * lanes);
    own.narrow_start = allocate<float>(lanes);
    pad(p.log_prior, 1, p.k, lanes, own.narrow_start.get());
    Range range;
    range.see(p.log_prior, p.k);
    std::vector<Range> seen(size_t((p.rows + kGrain - 1) / kGrain));
    share_range(threads, p.rows, kGrain, [&](int64_t begin, int64_t end) {
        pad(p.table + begin * p.k, end - begin, p.k, lanes, own.narrow_lines.get() + begin * lanes);
        seen[size_t(begin / kGrain)].see(p.table + begin * p.k, (end - begin) * p.k);
    });
    for (const Range& r : seen) range.see(r);
    p.narrow_lines = own.narrow_lines.get();
    p.narrow_start = own.narrow_start.get();
    p.largest = range.largest;
    p.one_sign = range.highest <= 0.0;
    return range.largest < 1e30;
}

bool prepare_costs(Pass& p, Prepared& own, int threads) {
    const int lanes = p.narrow_lanes = lanes_for(p.k);
    const int bytes = p.cost_bytes = size_t(p.rows) * lanes * 2 > kNear ? 1 : 2;
    const double most = (bytes == 1 ? kRoomOfOne : kRoomOfTwo) * mean_cost(p) * (votes_beside(p) + 1.0);
    p.steps = (bytes == 1 ? 255.0 : 65535.0) / (most > 0.0 ? most : 1.0);
    if (!(p.steps > 1e-300 && p.steps < 1e300)) return false;
    const size_t line = size_t(lanes * bytes);
    p.ahead = size_t(p.rows) * line > kFarCosts ? kFarAhead : 0;
    own.cost_lines = allocate<uint8_t>(size_t(p.rows) * line);
    own.cost_start = allocate<uint8_t>(line);
    p.cost_lines = own.cost_lines.get();
    p.cost_start = own.cost_start.get();
    const auto costs = kernels().costs;
    p.largest = costs(p.log_prior, 1, p.k, lanes, p.steps, bytes, own.cost_start.get());
    std::vector<double> largest(size_t((p.rows + kGrain - 1) / kGrain));
    share_range(threads, p.rows, kGrain, [&](int64_t begin, int64_t end) {
        uint8_t* const to = own.cost_lines.get() + size_t(begin) * line;
        largest[size_t(begin / kGrain)] = costs(p.table + begin * p.k, end - begin, p.k, lanes, p.steps, bytes, to);
    });
    for (const double x : largest) p.largest = std::max(p.largest, x);
    return p.largest < 1e290;
}

}  // namespace adjudge
