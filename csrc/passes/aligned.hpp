// Aligned memory for tables and tallies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "blocks.hpp"

namespace adjudge {

constexpr size_t kCacheLine = 64;

// Whether an array [rows, k] has lines of `lanes` numbers as the kernels read them, none of which crosses a cache line
// without need: then no copy is faster.
inline bool has_whole_lines(const double* array, int k, int lanes) {
    const size_t bytes = size_t(lanes) * sizeof(double);
    return k == lanes && reinterpret_cast<uintptr_t>(array) % (bytes < kCacheLine ? bytes : kCacheLine) == 0;
}

struct Free {
    size_t block = 0;  // its bytes; 0: it is small
    void operator()(void* memory) const {
        if (block) give_block(memory, block);
        else ::operator delete(memory, std::align_val_t(kCacheLine));
    }
};
template <class T>
using Aligned = std::unique_ptr<T[], Free>;

// Uninitialised room for n numbers. Votes hit a table at random, so a large one asks the system for large pages: with
// small ones nearly every vote would miss the translation cache as well.
template <class T>
Aligned<T> allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    if (bytes < kLargePage / 2) {
        const size_t lines = (bytes / kCacheLine + 1) * kCacheLine;
        return Aligned<T>(static_cast<T*>(::operator new(lines, std::align_val_t(kCacheLine))), Free{});  // Windows has no aligned_alloc
    }
    const size_t size = (bytes / kLargePage + 1) * kLargePage;
    return Aligned<T>(static_cast<T*>(take_block(size)), Free{size});
}

}  // namespace adjudge
