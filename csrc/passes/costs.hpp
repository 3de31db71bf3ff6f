// Lines of the table as costs: small whole numbers of steps, which a nearer cache holds than numbers of four bytes.
//
// An amount that a vote adds to the scores of all labels alike decides nothing. So the cost of a label in a row is the
// difference between the log-probability of the row's likeliest label and its own, rounded to whole steps; sums of costs
// are exact, and the likeliest label of a task has the smallest. A cost that does not fit is the largest representable
// number, and sums saturate at it: a saturated sum means "at least this much", and never wins alone.
#pragma once

#include <limits>
#include <type_traits>

#include "pass.hpp"
#include "simd.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

template <class T>
constexpr T kMostCost = T(~T(0));
constexpr int64_t kTooLong = 1 << 16;  // votes: from here on every label is possible, and float64 decides

// The number of steps by which a label may cost more than the cheapest and still win or tie, in a task of `votes` votes.
//
// A sum of n + 1 costs is off by at most half a step each, the difference of two sums by n + 1 steps. The tie rule and all
// rounding in float64 are below 2e-9 of the largest possible score, or of 1; one more step covers them.
template <class T>
ADJUDGE_INLINE T cost_margin(const Pass& p, int64_t votes) {
    const double most = double(votes + 1) * p.largest;
    const double margin = double(votes + 2) + 2e-9 * (most > 1.0 ? most : 1.0) * p.steps;
    return votes < kTooLong && margin < kMostCost<T> ? T(margin + 1.0) : kMostCost<T>;
}

#if defined(__x86_64__)
// L costs of a line, in registers of 16 bytes. Lanes past L are never the cheapest.
template <class T, int L>
struct CostLine {
    static constexpr bool kBytes = sizeof(T) == 1;
    static constexpr int kSize = L * int(sizeof(T));
    static constexpr int kParts = kSize > 16 ? kSize / 16 : 1, kLanes = kSize > 16 ? L / kParts : L;
    __m128i part[kParts];

    static ADJUDGE_INLINE CostLine load(const T* from) {
        CostLine c;
        if constexpr (kSize >= 16) {
            for (int i = 0; i < kParts; ++i) c.part[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
        } else if constexpr (kSize == 8) {
            c.part[0] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
        } else {
            std::conditional_t<kSize == 4, uint32_t, uint16_t> few;
            std::memcpy(&few, from, sizeof few);
            c.part[0] = _mm_cvtsi32_si128(int(few));
        }
        return c;
    }
    // The same with lanes past L at the maximum cost; additions saturate, so they stay there.
    ADJUDGE_INLINE CostLine closed() const {
        CostLine c = *this;
        if constexpr (kSize == 8) c.part[0] = _mm_unpacklo_epi64(part[0], _mm_set1_epi8(-1));
        if constexpr (kSize == 4) c.part[0] = _mm_unpacklo_epi32(part[0], _mm_set1_epi8(-1));
        if constexpr (kSize == 2) c.part[0] = _mm_unpacklo_epi16(part[0], _mm_set1_epi8(-1));
        if constexpr (kSize == 4) c.part[0] = _mm_unpacklo_epi64(c.part[0], _mm_set1_epi8(-1));
        if constexpr (kSize == 2) c.part[0] = _mm_or_si128(c.part[0], _mm_setr_epi16(0, -1, -1, -1, -1, -1, -1, -1));
        return c;
    }
    ADJUDGE_INLINE void operator+=(const CostLine& other) {
        for (int i = 0; i < kParts; ++i)
            part[i] = kBytes ? _mm_adds_epu8(part[i], other.part[i]) : _mm_adds_epu16(part[i], other.part[i]);
    }

    // One bit per lane whose cost is within `margin` of the smallest.
    ADJUDGE_INLINE unsigned within(T margin) const {
        const __m128i most = kBytes ? _mm_adds_epu8(least(), _mm_set1_epi8(char(margin)))
                                    : _mm_adds_epu16(least(), _mm_set1_epi16(short(margin)));
        unsigned bits = 0;
        for (int i = 0; i < kParts; ++i) bits |= at_most(part[i], most) << (i * kLanes);
        return kLanes < 8 ? bits & ((1u << kLanes) - 1) : bits;
    }

  private:
    static ADJUDGE_INLINE __m128i smaller(__m128i a, __m128i b) {
#if defined(__AVX2__)
        if constexpr (!kBytes) return _mm_min_epu16(a, b);
#endif
        return kBytes ? _mm_min_epu8(a, b) : _mm_sub_epi16(a, _mm_subs_epu16(a, b));
    }
    // The smallest cost, in every lane.
    ADJUDGE_INLINE __m128i least() const {
        __m128i x = part[0];
        for (int i = 1; i < kParts; ++i) x = smaller(x, part[i]);
#if defined(__AVX2__)
        if constexpr (kBytes) return _mm_broadcastb_epi8(_mm_minpos_epu16(_mm_min_epu8(x, _mm_srli_epi16(x, 8))));
        else return _mm_broadcastw_epi16(_mm_minpos_epu16(x));
#else
        if constexpr (kSize >= 16) x = smaller(x, _mm_shuffle_epi32(x, 0x4E));
        if constexpr (kSize >= 8) x = smaller(x, _mm_shuffle_epi32(x, 0xB1));
        if constexpr (kSize >= 4) x = smaller(x, _mm_shufflelo_epi16(x, 0xB1));
        if constexpr (kBytes) {
            x = _mm_min_epu8(x, _mm_srli_epi16(x, 8));  // of each pair of lanes, in the lower one
            x = _mm_unpacklo_epi8(x, x);
        }
        return _mm_shuffle_epi32(_mm_shufflelo_epi16(x, 0), 0);
#endif
    }
    static ADJUDGE_INLINE unsigned at_most(__m128i x, __m128i most) {
#if defined(__AVX512VL__) && defined(__AVX512BW__)
        if constexpr (kBytes) return _mm_cmple_epu8_mask(x, most);
        else return _mm_cmple_epu16_mask(x, most);
#else
        const __m128i none = _mm_setzero_si128();
        if constexpr (kBytes) return unsigned(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_subs_epu8(x, most), none)));
        const __m128i yes = _mm_cmpeq_epi16(_mm_subs_epu16(x, most), none);
        return unsigned(_mm_movemask_epi8(_mm_packs_epi16(yes, none)));
#endif
    }
};
#else
template <class T, int L>
struct CostLine {
    T cost[L];

    static ADJUDGE_INLINE CostLine load(const T* from) {
        CostLine c;
        std::memcpy(c.cost, from, sizeof c.cost);
        return c;
    }
    ADJUDGE_INLINE CostLine closed() const { return *this; }
    static ADJUDGE_INLINE T sum(T a, T b) {
        const T s = T(a + b);
        return s < a ? kMostCost<T> : s;
    }
    ADJUDGE_INLINE void operator+=(const CostLine& other) {
        for (int c = 0; c < L; ++c) cost[c] = sum(cost[c], other.cost[c]);
    }
    ADJUDGE_INLINE unsigned within(T margin) const {
        T least = kMostCost<T>;
        for (int c = 0; c < L; ++c) least = cost[c] < least ? cost[c] : least;
        const T most = sum(least, margin);
        unsigned bits = 0;
        for (int c = 0; c < L; ++c) bits |= unsigned(cost[c] <= most) << c;
        return bits;
    }
};
#endif

// to OUT [rows, L]: the costs of the lines IN from [rows, k], as many steps in 1 as p.steps says. Returns the largest
// finite magnitude that was met.
template <class T, int L>
double round_costs(const double* from, int64_t rows, int k, double steps, T* to) {
    using V = Vec<double, L>;
    constexpr double kEnd = std::numeric_limits<double>::max();
    const V scale = V::all(steps), half = V::all(0.5), most = V::all(double(kMostCost<T>)), end = V::all(kEnd);
    V largest = V::all(0.0);
    double line[L];
    for (double& x : line) x = -std::numeric_limits<double>::infinity();
    for (int64_t r = 0; r < rows; ++r, from += k, to += L) {
        V x;
        if (k == L) {
            x = V::load(from);
        } else {
            for (int c = 0; c < k; ++c) line[c] = from[c];
            x = V::load(line);
        }
        const V top = spread_max(x);
        for (int i = 0; i < V::kParts; ++i) {
            const auto number = x.part[i], size = number < 0.0 ? -number : number;
            largest.part[i] = size > largest.part[i] && size <= end.part[i] ? size : largest.part[i];
            const auto cost = (top.part[i] - number) * scale.part[i] + half.part[i];
            const auto kept = cost < most.part[i] ? cost : most.part[i];  // what is not a number is dear, too
            using Whole = typename RegisterOf<int32_t, V::kLanes * 4>::type;
            using Small = typename RegisterOf<T, V::kLanes * int(sizeof(T))>::type;
            const Small small = __builtin_convertvector(__builtin_convertvector(kept, Whole), Small);
            std::memcpy(to + i * V::kLanes, &small, sizeof small);
        }
    }
    return spread_max(largest).first();
}

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
