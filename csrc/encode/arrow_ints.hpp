// The ways in which Arrow lays out whole numbers and booleans, behind one small interface: at(i) gives int64.
#pragma once
#include <cstdint>

#include "codes.hpp"

namespace adjudge {

template <class T>
struct PlainInts {
    const T* values;
    int64_t at(int64_t i) const { return static_cast<int64_t>(values[i]); }
};

struct BitInts {
    const uint8_t* bits;
    int64_t at(int64_t i) const { return is_valid(bits, i); }
};

}  // namespace adjudge
