// L numbers that are added, compared and stored together: one line of the table.
//
// Written with the vector extension of GCC and Clang; only the mask of a comparison needs the machine's own words.
// Fused multiply-add is not used here, so every machine gives the same bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "isa.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

#if defined(__AVX512F__)
constexpr int kRegister = 64;  // bytes
#elif defined(__AVX2__)
constexpr int kRegister = 32;
#else
constexpr int kRegister = 16;
#endif

template <class T, int Bytes>
struct RegisterOf {
    typedef T type __attribute__((vector_size(Bytes)));
};

template <class T, int L>
struct Vec {
    static constexpr int kBytes = L * int(sizeof(T)) < kRegister ? L * int(sizeof(T)) : kRegister;
    static constexpr int kParts = L * int(sizeof(T)) / kBytes;
    static constexpr int kLanes = L / kParts;  // in one register
    using Register = typename RegisterOf<T, kBytes>::type;
    Register part[kParts];

    static ADJUDGE_INLINE Vec load(const T* from) {  // need not be aligned
        Vec v;  // register by register: a copy of the whole would go through memory
        for (int i = 0; i < kParts; ++i) std::memcpy(&v.part[i], from + i * kLanes, kBytes);
        return v;
    }
    static ADJUDGE_INLINE Vec all(T x) {
        Vec v;
        for (int i = 0; i < kParts; ++i) v.part[i] = x - Register{};
        return v;
    }
    ADJUDGE_INLINE void store(T* to) const {
        for (int i = 0; i < kParts; ++i) std::memcpy(to + i * kLanes, &part[i], kBytes);
    }
    ADJUDGE_INLINE T first() const { return part[0][0]; }
};

#define ADJUDGE_LANEWISE(OP)                                                         \
    template <class T, int L>                                                        \
    ADJUDGE_INLINE Vec<T, L> operator OP(const Vec<T, L>& a, const Vec<T, L>& b) {   \
        Vec<T, L> r;                                                                 \
        for (int i = 0; i < Vec<T, L>::kParts; ++i) r.part[i] = a.part[i] OP b.part[i]; \
        return r;                                                                    \
    }
ADJUDGE_LANEWISE(+)
ADJUDGE_LANEWISE(-)
ADJUDGE_LANEWISE(*)
ADJUDGE_LANEWISE(/)
#undef ADJUDGE_LANEWISE

template <class T, int L>
ADJUDGE_INLINE Vec<T, L> larger(const Vec<T, L>& a, const Vec<T, L>& b) {
    Vec<T, L> r;
    for (int i = 0; i < Vec<T, L>::kParts; ++i) r.part[i] = a.part[i] > b.part[i] ? a.part[i] : b.part[i];
    return r;
}

// Lane by lane: 0 where `when` is above 0, else x.
template <class T, int L>
ADJUDGE_INLINE Vec<T, L> unless_positive(const Vec<T, L>& when, const Vec<T, L>& x) {
    Vec<T, L> r;
    for (int i = 0; i < Vec<T, L>::kParts; ++i)
        r.part[i] = when.part[i] > typename Vec<T, L>::Register{} ? typename Vec<T, L>::Register{} : x.part[i];
    return r;
}

// The register with lane i exchanged for lane i ^ Step.
template <int Step, class R, int... I>
ADJUDGE_INLINE R exchange(R v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (I ^ Step)...);
}

template <int Step, int Lanes, class R, class Combine>
ADJUDGE_INLINE R butterfly(R v, Combine combine) {
    if constexpr (Step > 0) {
        v = combine(v, exchange<Step>(v, std::make_integer_sequence<int, Lanes>{}));
        v = butterfly<Step / 2, Lanes>(v, combine);
    }
    return v;
}

// The combination of all lanes, in every lane: what follows needs no broadcast.
template <class T, int L, class Combine>
ADJUDGE_INLINE Vec<T, L> spread(const Vec<T, L>& v, Combine combine) {
    using V = Vec<T, L>;
    typename V::Register r = v.part[0];
    for (int i = 1; i < V::kParts; ++i) r = combine(r, v.part[i]);
    r = butterfly<V::kLanes / 2, V::kLanes>(r, combine);
    V all;
    for (int i = 0; i < V::kParts; ++i) all.part[i] = r;
    return all;
}
template <class T, int L>
ADJUDGE_INLINE Vec<T, L> spread_max(const Vec<T, L>& v) {
    return spread(v, [](auto a, auto b) { return a > b ? a : b; });
}
template <class T, int L>
ADJUDGE_INLINE Vec<T, L> spread_sum(const Vec<T, L>& v) {
    return spread(v, [](auto a, auto b) { return a + b; });
}

// One bit per lane where a >= b.
template <class T, int Bytes, class R>
ADJUDGE_INLINE unsigned at_least_one(R a, R b) {
    const auto yes = a >= b;
#if defined(__AVX512F__)
    if constexpr (Bytes == 64 && sizeof(T) == 4) return _mm512_cmp_ps_mask(__m512(a), __m512(b), _CMP_GE_OQ);
    else if constexpr (Bytes == 64) return _mm512_cmp_pd_mask(__m512d(a), __m512d(b), _CMP_GE_OQ);
    else
#endif
#if defined(__AVX2__)
    if constexpr (Bytes == 32 && sizeof(T) == 4) return unsigned(_mm256_movemask_ps(__m256(yes)));
    else if constexpr (Bytes == 32) return unsigned(_mm256_movemask_pd(__m256d(yes)));
    else
#endif
#if defined(__x86_64__)
    if constexpr (Bytes == 16 && sizeof(T) == 4) return unsigned(_mm_movemask_ps(__m128(yes)));
    else if constexpr (Bytes == 16) return unsigned(_mm_movemask_pd(__m128d(yes)));
    else
#endif
    {
        unsigned bits = 0;
        for (int i = 0; i < Bytes / int(sizeof(T)); ++i) bits |= unsigned(yes[i] & 1) << i;
        return bits;
    }
}
template <class T, int L>
ADJUDGE_INLINE unsigned at_least(const Vec<T, L>& a, const Vec<T, L>& b) {
    using V = Vec<T, L>;
    unsigned bits = 0;
    for (int i = 0; i < V::kParts; ++i)
        bits |= at_least_one<T, V::kBytes>(a.part[i], b.part[i]) << (i * V::kLanes);
    return bits;
}

// Lane by lane, without its sign.
template <class T, int L>
ADJUDGE_INLINE Vec<T, L> magnitude(const Vec<T, L>& x) {
    return larger(x, Vec<T, L>::all(0) - x);
}

// Lane by lane: x where a >= b, else 0.
template <class T, int L>
ADJUDGE_INLINE Vec<T, L> where_at_least(const Vec<T, L>& a, const Vec<T, L>& b, const Vec<T, L>& x) {
    Vec<T, L> r;
    for (int i = 0; i < Vec<T, L>::kParts; ++i)
        r.part[i] = a.part[i] >= b.part[i] ? x.part[i] : typename Vec<T, L>::Register{};
    return r;
}

// exp(x) for x <= 0 to about two parts in 10^15; 0 from -746 down, like the C library's.
//
// It is the square of exp(x / 2), so that the power of two never leaves the normal range and the square underflows
// gradually by itself. exp(x / 2) = 2^n exp(r) with |r| <= ln 2 / 2. exp(r) is 1 + r g(r), where g is the polynomial that
// meets (exp(r) - 1) / r at the ten Chebyshev points; its even and odd powers are summed side by side.
template <int L>
ADJUDGE_INLINE Vec<double, L> exp_nonpositive(const Vec<double, L>& x) {
    using V = Vec<double, L>;
    using Bits = typename RegisterOf<int64_t, V::kBytes>::type;
    constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, in the low bits
    const V half = larger(x, V::all(-750.0)) * V::all(0.5);
    const V shifted = half * V::all(1.4426950408889634074) + V::all(kShift);
    const V n = shifted - V::all(kShift);
    const V r = (half - n * V::all(0x1.62e42fefa0000p-1)) - n * V::all(0x1.cf79abc9e3b3ap-40);  // ln 2 in two parts
    constexpr double kEven[] = {0x1.72e127dacb031p-19, 0x1.a01994ad50ac7p-13, 0x1.11111123c606dp-7, 0x1.5555555550d64p-3,
                                0x1.0000000000006p+0};
    constexpr double kOdd[] = {0x1.289191e93e32cp-22, 0x1.a019b902a0c53p-16, 0x1.6c16c1788e8fbp-10, 0x1.5555555553d5cp-5,
                               0x1.0000000000001p-1};
    const V square = r * r;
    V even = V::all(kEven[0]), odd = V::all(kOdd[0]);
    for (int i = 1; i < 5; ++i) {
        even = even * square + V::all(kEven[i]);
        odd = odd * square + V::all(kOdd[i]);
    }
    const V sum = (even + odd * r) * r + V::all(1.0);
    V power;
    for (int i = 0; i < V::kParts; ++i)
        power.part[i] = typename V::Register((Bits(shifted.part[i]) + 1023) << 52);
    // What is nothing anyway is so before it is squared: an underflow takes the processor long.
    const V root = where_at_least(x, V::all(-746.0), sum * power);
    return root * root;
}

// As many numbers as a register has lanes.
constexpr int kSide = kRegister / int(sizeof(double));
using Side = Vec<double, kSide>;

template <int First, class R, int... I>
ADJUDGE_INLINE R every_second(R a, R b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, (2 * I + First)...);
}
template <int First, class R, int... I>
ADJUDGE_INLINE R in_turns(R a, R b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, (First + I / 2 + (I % 2) * int(sizeof...(I)))...);
}

// lines IN [kSide, L] to column OUT [L]: lane i of column c is number c of line i.
//
// To put every second number behind the others takes the lowest bit of a number's place to the top. Once for each bit of
// the number within its line, and the line's own bits are the lowest.
template <int L>
ADJUDGE_INLINE void to_columns(const double* lines, Side (&column)[L]) {
    constexpr auto lanes = std::make_integer_sequence<int, kSide>{};
    for (int c = 0; c < L; ++c) column[c] = Side::load(lines + c * kSide);
    for (int step = 1; step < L; step *= 2) {
        Side next[L];
        for (int i = 0; i < L / 2; ++i) {
            next[i].part[0] = every_second<0>(column[2 * i].part[0], column[2 * i + 1].part[0], lanes);
            next[L / 2 + i].part[0] = every_second<1>(column[2 * i].part[0], column[2 * i + 1].part[0], lanes);
        }
        for (int c = 0; c < L; ++c) column[c] = next[c];
    }
}

// The way back: column IN [L] to lines OUT [kSide, L].
template <int L>
ADJUDGE_INLINE void to_lines(const Side (&column)[L], double* lines) {
    constexpr auto lanes = std::make_integer_sequence<int, kSide>{};
    Side now[L];
    for (int c = 0; c < L; ++c) now[c] = column[c];
    for (int step = 1; step < L; step *= 2) {
        Side next[L];
        for (int i = 0; i < L / 2; ++i) {
            next[2 * i].part[0] = in_turns<0>(now[i].part[0], now[L / 2 + i].part[0], lanes);
            next[2 * i + 1].part[0] = in_turns<kSide / 2>(now[i].part[0], now[L / 2 + i].part[0], lanes);
        }
        for (int c = 0; c < L; ++c) now[c] = next[c];
    }
    for (int c = 0; c < L; ++c) now[c].store(lines + c * kSide);
}

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
