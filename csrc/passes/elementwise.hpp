// Logarithms, logistic functions and powers of many numbers: what M-steps make tables of. Every instruction set gives the
// same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "simd.hpp"
#include "units.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

// log(x) of normal numbers x > 0, to about one part in 10^16.
//
// x = 2^n m with m between the roots of 1/2 and 2. With f = m - 1 and s = f / (2 + f), log(m) = 2 atanh(s)
// = f - s (f - z g(z)), z = s^2, where g is the polynomial that meets (2 atanh(s) / s - 2) / z at seven Chebyshev points.
template <int L>
ADJUDGE_INLINE Vec<double, L> log_positive(const Vec<double, L>& x) {
    using V = Vec<double, L>;
    using Register = typename V::Register;
    using Bits = typename RegisterOf<int64_t, V::kBytes>::type;
    constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: a whole number in the low bits, as a number
    constexpr int64_t kRoot = 0x3fe6a09e667f3bcd, kShiftBits = 0x4338000000000000;  // the bits of the root of 1/2 and of kShift
    constexpr double kG[] = {0x1.2b5900de53b32p-3, 0x1.39fe51a7c18f9p-3, 0x1.7462b51cb66b1p-3, 0x1.c71c62e3f11e6p-3,
                             0x1.2492492df281ap-2, 0x1.99999999952d7p-2, 0x1.5555555555558p-1};
    V m, n;
    for (int i = 0; i < V::kParts; ++i) {
        const Bits power = (Bits(x.part[i]) - kRoot) >> 52;
        m.part[i] = Register(Bits(x.part[i]) - (power << 52));
        n.part[i] = Register(power + kShiftBits) - kShift;
    }
    const V f = m - V::all(1.0), s = f / (f + V::all(2.0)), z = s * s;
    V g = V::all(kG[0]);
    for (int i = 1; i < 7; ++i) g = g * z + V::all(kG[i]);
    return n * V::all(0x1.62e42fefa0000p-1) + (f - (s * (f - z * g) - n * V::all(0x1.cf79abc9e3b3ap-40)));
}

// Calls act(Vec) on all numbers, IN/OUT [n], a block at a time; what is beyond the last is 1.
template <class Act>
ADJUDGE_INLINE void for_each_block(double* x, int64_t n, const Act& act) {
    using V = Vec<double, 8>;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) act(V::load(x + i)).store(x + i);
    if (i == n) return;
    double last[8] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
    for (int64_t j = i; j < n; ++j) last[j - i] = x[j];
    act(V::load(last)).store(last);
    for (int64_t j = i; j < n; ++j) x[j] = last[j - i];
}

// x IN/OUT [n]: log(max(x, least)), rounded to whole units if `units`.
inline void logs(double* x, int64_t n, double least, bool units) {
    using V = Vec<double, 8>;
    const V grid = V::all(units ? kLogGrid : 0.0), bound = V::all(least);
    for_each_block(x, n, [&](const V& some) { return whole(log_positive(larger(some, bound)), grid); });
}

// counts IN [n] of at least 0 to logs OUT [n]: log(count), minus infinity for 0. Counts of all sizes count: those that are
// no normal numbers are looked at alone.
inline void log_counts(const double* counts, int64_t n, double* logs) {
    using V = Vec<double, 8>;
    const V least = V::all(1e-290);
    const auto some = [&](const double* from, double* to) {
        const V x = V::load(from);
        log_positive(larger(x, least)).store(to);
        const unsigned normal = at_least(x, least);
        for (int j = 0; normal != 0xff && j < 8; ++j)
            if (!(normal >> j & 1)) to[j] = std::log(from[j]);
    };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) some(counts + i, logs + i);
    double last[8] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}, of[8];
    for (int64_t j = i; j < n; ++j) last[j - i] = counts[j];
    some(last, of);
    for (int64_t j = i; j < n; ++j) logs[j] = of[j - i];
}

// x IN/OUT [n]: exp(x), of x <= 0.
inline void exps(double* x, int64_t n) {
    for_each_block(x, n, [](const Vec<double, 8>& some) { return exp_nonpositive(some); });
}

// one, other IN [n], line IN/OUT [n]: one + other + more, of at least `floor`, is added to the line, or written to it.
inline void add_lines(const double* __restrict one, const double* __restrict other, double more, double floor, int64_t n, bool add,
                      double* __restrict line) {
    using V = Vec<double, 8>;
    const V rest = V::all(more), least = V::all(floor);
    const auto sum = [&](int64_t i) { return larger(V::load(one + i) + V::load(other + i) + rest, least); };
    int64_t i = 0;
    if (add)
        for (; i + 8 <= n; i += 8) (V::load(line + i) + sum(i)).store(line + i);
    else
        for (; i + 8 <= n; i += 8) sum(i).store(line + i);
    for (; i < n; ++i) {
        const double x = one[i] + other[i] + more, bounded = x > floor ? x : floor;
        line[i] = add ? line[i] + bounded : bounded;
    }
}

// The largest of x IN [n], n > 0.
inline double largest(const double* x, int64_t n) {
    using V = Vec<double, 8>;
    V most = V::all(x[0]);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) most = larger(most, V::load(x + i));
    double best = spread_max(most).first();
    for (; i < n; ++i) best = x[i] > best ? x[i] : best;
    return best;
}

// x IN/OUT [n]: 1 / (1 + exp(-x)).
inline void logistics(double* x, int64_t n) {
    using V = Vec<double, 8>;
    const V one = V::all(1.0), zero = V::all(0.0);
    for_each_block(x, n, [&](const V& some) {
        const V e = exp_nonpositive(zero - magnitude(some)), small = e / (one + e);
        return where_at_least(some, zero, one / (one + e)) + where_at_least(V::all(-0x1p-1074), some, small);
    });
}

// x IN/OUT [n]: x to this power, of normal numbers x > 0.
inline void powers(double* x, int64_t n, double power) {
    using V = Vec<double, 8>;
    const V one = V::all(1.0), zero = V::all(0.0);
    for_each_block(x, n, [&](const V& some) {
        const V y = log_positive(some) * V::all(power), e = exp_nonpositive(zero - magnitude(y));
        return where_at_least(y, zero, one / e) + where_at_least(V::all(-0x1p-1074), y, e);
    });
}

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
