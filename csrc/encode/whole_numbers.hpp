// Texts that are all whole numbers in their plain form ("7", "-12", but not "007", "+7" or "-0").
#pragma once
#include <cstdint>

#include "growing.hpp"

namespace adjudge {

// Returns whether all n texts are such; if so, `numbers` holds them.
bool whole_numbers(const int64_t* offsets, const char* data, size_t n,  // IN
                   Growing<int64_t>& numbers);                           // OUT [n]

}  // namespace adjudge
