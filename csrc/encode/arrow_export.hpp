// Texts handed to any consumer (polars, pyarrow, ...) through the Arrow interfaces, without a copy.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arrow_abi.hpp"

namespace adjudge {

// An array of large_utf8. `let_go` is called once, on the thread where the consumer releases the array.
void export_texts(const int64_t* offsets, const char* data, size_t n, std::function<void()> let_go,  // IN
                  ArrowSchema* schema, ArrowArray* array);                                           // OUT

// Some rows of a table whose columns are of string_view; longer texts lie in the first buffer of each.
struct ViewTable {
    struct Column {
        const void* views;
        const uint8_t* validity;  // bits, or null: all are there
        int64_t missing;
    };
    int64_t rows;
    const char* text;
    int64_t text_size;
    std::vector<Column> columns;
};

// Tables one after the other. `kept` is released with the last of the stream and its tables, on whichever thread.
void export_tables(std::vector<std::string> names, std::vector<ViewTable> tables, std::shared_ptr<void> kept,  // IN
                   ArrowArrayStream* stream);                                                                  // OUT

}  // namespace adjudge
