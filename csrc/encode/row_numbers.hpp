// Votes to rows: which (worker, given label) pairs occur, numbered by worker, then label.
#pragma once
#include <cstdint>

#include "growing.hpp"

namespace adjudge {

struct Ranks {
    const uint32_t* rank;  // the place of each code in sorted order
    size_t size;           // how many places there are
};

// Abstentions (votes whose label is NONE) get the row NONE. Codes must be within their ranks.
void number_rows(uint32_t* worker,              // IN codes [votes]; OUT the row of each vote
                 const uint32_t* label,         // IN codes [votes]
                 size_t votes,
                 Ranks workers, Ranks labels,   // IN
                 int64_t* worker_ptr,           // OUT [workers + 1] where each worker's rows begin
                 Growing<int32_t>& row_label,    // OUT [rows] the label given
                 int threads);

}  // namespace adjudge
