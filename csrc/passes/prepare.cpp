#include "prepare.hpp"

#include <cmath>
#include <limits>

#include "../threads.hpp"

namespace quorate {
namespace {

constexpr int64_t kGrain = 1 << 13;          // rows copied in one piece
constexpr size_t kNear = size_t(3) << 18;  // bytes of lines that a core keeps close

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

}  // namespace

int lanes_for(int k) { return k <= 2 ? 2 : k <= 4 ? 4 : k <= 8 ? 8 : k <= 16 ? 16 : 0; }

void prepare_lines(Pass& p, Prepared& own, int threads) {
    const int lanes = p.lanes = lanes_for(p.k);
    own.lines = allocate<double>(size_t(p.rows) * lanes);
    own.start = allocate<double>(lanes);
    pad(p.log_prior, 1, p.k, lanes, own.start.get());
    share_range(threads, p.rows, kGrain, [&](int64_t begin, int64_t end) {
        pad(p.table + begin * p.k, end - begin, p.k, lanes, own.lines.get() + begin * lanes);
    });
    p.lines = own.lines.get();
    p.start = own.start.get();
    p.prefetch = size_t(p.rows) * lanes * sizeof(double) > kNear;
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
    p.prefetch = size_t(p.rows) * lanes * sizeof(float) > kNear;
    return range.largest < 1e30;
}

}  // namespace quorate
