// Aligned memory for tables and tallies.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "blocks.hpp"

namespace adjudge {

struct Free {
    size_t block = 0;  // its bytes; 0: it is small
    void operator()(void* memory) const {
        if (block) give_block(memory, block);
        else ::operator delete(memory, std::align_val_t(64));
    }
};
template <class T>
using Aligned = std::unique_ptr<T[], Free>;

// Uninitialised room for n numbers. Votes hit a table at random, so a large one asks the system for large pages: with
// small ones nearly every vote would miss the translation cache as well.
template <class T>
Aligned<T> allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    if (bytes < kLargePage / 2) return Aligned<T>(static_cast<T*>(::operator new(bytes / 64 * 64 + 64, std::align_val_t(64))), Free{});
    const size_t size = (bytes / kLargePage + 1) * kLargePage;
    return Aligned<T>(static_cast<T*>(take_block(size)), Free{size});
}

}  // namespace adjudge
