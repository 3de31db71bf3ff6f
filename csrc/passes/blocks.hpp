// Large blocks of memory that the steps of a fit hand on: a new block is cleared page by page at its first touch, which
// takes longer than most steps.
#pragma once

#include <cstddef>

namespace adjudge {

constexpr size_t kLargePage = size_t(1) << 21;

// A block of this size, a multiple of kLargePage: one that was given back, or a new one. Before memory is asked for, all
// that was given back is freed, so that a process never has more than it would without.
void* take_block(size_t bytes);

// Frees a block, or keeps it while blocks are reused.
void give_block(void* memory, size_t bytes);

// Blocks are reused from each call to the call of `end_reuse` that belongs to it; the last one frees what is left.
void begin_reuse();
void end_reuse();

}  // namespace adjudge
