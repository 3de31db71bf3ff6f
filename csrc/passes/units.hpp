// Soft shares in whole units, so that their sums do not depend on the order in which they are added.
//
// Floating-point numbers that are multiples of a power of two add exactly while the sum has no more than 53 bits. The
// caller chooses a unit of which all votes of a worker stay below that. A share that rounds to no unit
// at all is not lost, since "hardly ever" is not "never": it is counted times 2^-96. Beside a whole unit that is less
// than the last bit, and the sum is what it was; where there is no whole unit, the sum of such faint shares remains, and
// `restore_faint` brings it back to scale.
//
// A fit of few votes keeps what rounding leaves of each share in a second sum (`rest`): nothing is lost then. Class counts
// always have one, since a label may have as many shares as there are tasks.
#pragma once

#include <cmath>
#include <cstdint>

#include "isa.hpp"

namespace quorate {

constexpr double kRounding = 6755399441055744.0;  // 1.5 * 2^52: added and taken away, it rounds to whole numbers
constexpr double kFaint = 0x1p-96;
constexpr double kFaintest = 0x1p-60;  // a sum below this has no whole unit in it
constexpr double kClassGrid = kRounding * 0x1p-16;  // of class counts, which may be of all tasks: the rest is added apart
constexpr double kLogGrid = kRounding * 0x1p-40;  // log-probabilities are multiples of 2^-40: their sums are exact, too

// The unit in which `most` numbers of at most 1 add up exactly.
QUORATE_INLINE double unit_below(std::int64_t most) {
    int bits = 0;
    for (; most > 0; most >>= 1) ++bits;
    return std::ldexp(1.0, bits - 52);
}

// x (a number or a Vec of them) in whole units; `grid` is kRounding times the unit.
template <class X>
QUORATE_INLINE X whole(const X& x, const X& grid) {
    return (x + grid) - grid;
}

// The share x as it is counted: whole units, or a faint share.
template <class X>
QUORATE_INLINE X counted(const X& x, const X& grid, const X& faint) {
    return whole(x, grid) + x * faint;
}

// counts IN/OUT [n]: sums of faint shares alone get back to scale.
void restore_faint(double* counts, std::int64_t n, int threads);

}  // namespace quorate
