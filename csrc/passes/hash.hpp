// Stable hashes: they name ids and settle ties alike in every pass, row order, engine and machine.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace quorate {
namespace QUORATE_ISA {

// The bits of x well stirred (the finaliser of splitmix64).
QUORATE_INLINE std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// FNV-1a, finished by mix.
QUORATE_INLINE std::uint64_t hash_text(const std::uint8_t* begin, const std::uint8_t* end) {
    std::uint64_t hash = 0xCBF29CE484222325u;
    for (; begin != end; ++begin) hash = (hash ^ *begin) * 0x100000001B3u;
    return mix(hash);
}

// The hash of a whole number's decimal text.
QUORATE_INLINE std::uint64_t hash_integer(std::int64_t value) {
    std::uint8_t text[20];
    std::uint8_t* begin = text + sizeof text;
    std::uint64_t left = value < 0 ? 0 - std::uint64_t(value) : std::uint64_t(value);
    do *--begin = std::uint8_t('0' + left % 10);
    while (left /= 10);
    if (value < 0) *--begin = '-';
    return hash_text(begin, text + sizeof text);
}

}  // namespace QUORATE_ISA

// hashes OUT [n]: of the texts whose bytes lie at offsets IN [n + 1] of data, which do not fall; of the values IN [n].
void hash_texts(const std::int64_t* offsets, const std::uint8_t* data, std::int64_t n, std::uint64_t* hashes, int threads);
void hash_integers(const std::int64_t* values, std::int64_t n, std::uint64_t* hashes, int threads);

// hashes IN/OUT [n]: those of ids become those by which ties are settled.
void tie_keys(std::uint64_t* hashes, std::int64_t n, std::uint64_t seed, int threads);

}  // namespace quorate
