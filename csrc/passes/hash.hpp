// Stable hashes: they name ids and settle ties alike in every pass, row order, engine and machine.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace adjudge {

// The keys of tasks by which ties are settled, in one of three forms: ready, or the ids that they are hashed from when a
// task ties. Most tasks do not, so most ids are never hashed.
struct TieKeys {
    const uint64_t* ready = nullptr;   // [tasks]
    const int64_t* numbers = nullptr;  // [tasks] ids that are whole numbers
    const int64_t* offsets = nullptr;  // [tasks + 1] where the texts of ids begin
    const uint8_t* texts = nullptr;    // [bytes]
    int64_t bytes = 0;
    uint64_t salt = 0;  // of the seed
};

namespace ADJUDGE_ISA {

// The bits of x well stirred (the finaliser of splitmix64).
ADJUDGE_INLINE uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// FNV-1a, finished by mix.
ADJUDGE_INLINE uint64_t hash_text(const uint8_t* begin, const uint8_t* end) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (; begin != end; ++begin) hash = (hash ^ *begin) * 0x100000001B3u;
    return mix(hash);
}

// The hash of a whole number's decimal text.
ADJUDGE_INLINE uint64_t hash_integer(int64_t value) {
    uint8_t text[20];
    uint8_t* begin = text + sizeof text;
    uint64_t left = value < 0 ? 0 - uint64_t(value) : uint64_t(value);
    do *--begin = uint8_t('0' + left % 10);
    while (left /= 10);
    if (value < 0) *--begin = '-';
    return hash_text(begin, text + sizeof text);
}

// Prefetches the inputs of a task's key.
ADJUDGE_INLINE void fetch_key(const TieKeys& keys, int64_t task) {
    if (keys.ready) __builtin_prefetch(keys.ready + task);
    else __builtin_prefetch((keys.numbers ? keys.numbers : keys.offsets) + task);
}

// The hash of (seed, task). Offsets may come from a file: what they say is looked at before it is followed.
inline uint64_t tie_key(const TieKeys& keys, int64_t task) {
    if (keys.ready) return keys.ready[task];
    if (keys.numbers) return mix(hash_integer(keys.numbers[task]) ^ keys.salt);
    const int64_t begin = keys.offsets[task], end = keys.offsets[task + 1];
    const bool within = begin >= 0 && begin <= end && end <= keys.bytes;
    return mix(hash_text(keys.texts + (within ? begin : 0), keys.texts + (within ? end : 0)) ^ keys.salt);
}

}  // namespace ADJUDGE_ISA

// hashes OUT [n]: of the texts whose bytes lie at offsets IN [n + 1] of data, which do not fall; of the values IN [n].
void hash_texts(const int64_t* offsets, const uint8_t* data, int64_t n, uint64_t* hashes, int threads);
void hash_integers(const int64_t* values, int64_t n, uint64_t* hashes, int threads);

// hashes IN/OUT [n]: those of ids become those by which ties are settled.
void tie_keys(uint64_t* hashes, int64_t n, uint64_t seed, int threads);
uint64_t salt_of(uint64_t seed);

}  // namespace adjudge
