// Codes: the integers that stand for ids.
#pragma once
#include <cstdint>

namespace adjudge {

constexpr uint32_t NONE = 0xFFFFFFFFu;  // the code of a missing id
constexpr int BLOCK = 64;               // ids whose table slots are fetched ahead together

inline bool is_valid(const uint8_t* bits, int64_t i) { return bits[i >> 3] >> (i & 7) & 1; }

}  // namespace adjudge
