// Texts handed to any consumer (polars, pyarrow, ...) as an Arrow array of large_utf8, without a copy.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "arrow_abi.hpp"

namespace adjudge {

// `let_go` is called once, on the thread where the consumer releases the array.
void export_texts(const int64_t* offsets, const char* data, size_t n, std::function<void()> let_go,  // IN
                  ArrowSchema* schema, ArrowArray* array);                                           // OUT

}  // namespace adjudge
