#include "hash.hpp"

#include "../threads.hpp"

namespace adjudge {
namespace {

constexpr int64_t kGrain = 1 << 16;  // ids hashed by a thread at a time

}  // namespace

void hash_texts(const int64_t* offsets, const uint8_t* data, int64_t n, uint64_t* hashes, int threads) {
    share_range(threads, n, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            hashes[i] = baseline::hash_text(data + offsets[i], data + offsets[i + 1]);
    });
}

void hash_integers(const int64_t* values, int64_t n, uint64_t* hashes, int threads) {
    share_range(threads, n, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) hashes[i] = baseline::hash_integer(values[i]);
    });
}

uint64_t salt_of(uint64_t seed) { return baseline::mix(seed); }

void tie_keys(uint64_t* hashes, int64_t n, uint64_t seed, int threads) {
    const uint64_t salt = salt_of(seed);
    share_range(threads, n, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) hashes[i] = baseline::mix(hashes[i] ^ salt);
    });
}

}  // namespace adjudge
