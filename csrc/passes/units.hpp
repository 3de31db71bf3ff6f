// Soft shares in whole units, so that their sums do not depend on the order in which they are added.
//
// Floating-point numbers that are multiples of a power of two add exactly while the sum has no more than 53 bits. The
// caller chooses a unit u of which all shares that meet in one sum stay below that. What a unit leaves of a share must not
// be lost, since "hardly ever" is not "never", and a worker who hardly ever met a label is judged by such shares alone.
// So a share is written in digits: multiples of u, u^2, u^3 and so on, of which the leading ones are kept.
//
// Coarse, for many votes: one sum, of the leading digit of each share. Fine, for fewer: two sums, of the two leading
// digits; digits of odd powers go to one sum, of even powers to the other. Digits of lower powers are scaled up, so far that
// higher ones vanish in rounding next to them: in the end a sum contains the digits of the lowest power that any share has.
// Fine sums are thus right to as many bits as a unit has, for shares of any size.
//
// `restore_counts` brings sums back to scale.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "isa.hpp"

namespace adjudge {

constexpr double kRounding = 6755399441055744.0;  // 1.5 * 2^52: added and taken away, it rounds to whole numbers
constexpr double kLogGrid = kRounding * 0x1p-40;  // log-probabilities are multiples of 2^-40: their sums are exact, too
constexpr int kMostDigits = 36, kCoarseDigits = 10;
constexpr double kLift = 0x1p200;  // powers of a unit may be too small for a number: digits are taken of shares times this

// x (a number or a Vec of them) in whole units; `grid` is kRounding times the unit.
template <class X>
ADJUDGE_INLINE X whole(const X& x, const X& grid) {
    return (x + grid) - grid;
}

// The unit in which `most` numbers of at most 1 add up exactly.
ADJUDGE_INLINE double unit_below(int64_t most) {
    int bits = 0;
    for (; most > 0; most >>= 1) ++bits;
    return std::ldexp(1.0, bits - 52);
}

// How shares are counted in units of u, a power of two.
struct Units {
    double unit = 0.0;
    double grid = 0.0, next = 0.0;        // for whole(), by the first power and the second
    double class_grid = 0.0;              // of coarse class counts, which may be of all tasks: what it leaves is added apart
    int bits = 0;                         // the unit is 2 to the power -bits
    int digits = 0;                       // that a number can have
    double lifted[kMostDigits] = {};      // [power - 1] for whole() of shares times kLift
    double fine[kMostDigits] = {};        // [power - 1] by which digits are scaled in fine sums
    double fine_least[kMostDigits] = {};  // [power - 1] half of the scaled power: no sum of such digits is less
    double coarse[kMostDigits] = {}, coarse_least[kMostDigits] = {};  // likewise

    Units() = default;
    explicit Units(double u) : unit(u), grid(kRounding * u), next(kRounding * u * u) {
        bits = -std::ilogb(u);
        for (int power = 1; power <= kMostDigits && power * bits < 1074 + bits; ++power, ++digits) {
            const int fine_bits = 48 * (18 - (power - 1) / 2), coarse_bits = 400 - 88 * (power - 1);
            lifted[digits] = kRounding * std::ldexp(kLift, -power * bits);
            fine[digits] = std::ldexp(1.0, fine_bits);
            fine_least[digits] = std::ldexp(0.5, fine_bits - power * bits);
            if (power > kCoarseDigits) continue;
            coarse[digits] = std::ldexp(1.0, coarse_bits);
            coarse_least[digits] = std::ldexp(0.5, coarse_bits - power * bits);
        }
        class_grid = kRounding * coarse[0] * 0x1p-16;
    }
};

// The two leading digits of a share as they are counted: sum OUT [2], of odd powers of the unit, and of even ones.
ADJUDGE_INLINE void leading_digits(const Units& units, double share, double* sum) {
    sum[0] = sum[1] = 0.0;
    if (share == 0.0) return;
    const double x = share * kLift;
    // The power whose unit is just above x has a digit, or else the next one.
    int i = std::max((200 - std::ilogb(x)) / units.bits - 1, 0);
    double digit = 0.0;
    for (; i < units.digits; ++i)
        if ((digit = whole(x, units.lifted[i])) != 0.0) break;
    if (i == units.digits) return;
    sum[i % 2] = digit * (units.fine[i] * (1.0 / kLift));
    if (i + 1 < units.digits) sum[1 - i % 2] = whole(x - digit, units.lifted[i + 1]) * (units.fine[i + 1] * (1.0 / kLift));
}

// counts IN/OUT [n]: brought back to scale. rest IN [n]: the second sums, which are added; none where counts are coarse.
void restore_counts(double* counts, const double* rest, double unit, int64_t n, int threads);

}  // namespace adjudge
