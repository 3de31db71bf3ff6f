#include "hash.hpp"

#include "../threads.hpp"

namespace quorate {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // ids hashed by a thread at a time

}  // namespace

void hash_texts(const std::int64_t* offsets, const std::uint8_t* data, std::int64_t n, std::uint64_t* hashes, int threads) {
    share_range(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            hashes[i] = baseline::hash_text(data + offsets[i], data + offsets[i + 1]);
    });
}

void hash_integers(const std::int64_t* values, std::int64_t n, std::uint64_t* hashes, int threads) {
    share_range(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) hashes[i] = baseline::hash_integer(values[i]);
    });
}

void tie_keys(std::uint64_t* hashes, std::int64_t n, std::uint64_t seed, int threads) {
    const std::uint64_t salt = baseline::mix(seed);
    share_range(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) hashes[i] = baseline::mix(hashes[i] ^ salt);
    });
}

}  // namespace quorate
