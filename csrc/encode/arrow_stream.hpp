// Tables from any producer (polars, pyarrow, pandas, duckdb, ...), through the Arrow C stream interface.
// Nothing is copied: a Column points into the producer's memory, which its Batch keeps alive.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "arrow_abi.hpp"

namespace adjudge {

enum class Kind { text, integer, boolean, real, null, other };

// What a column holds. A dictionary-encoded column has the kind of its values.
struct Field {
    std::string name;
    std::string format;        // Arrow's name of the type
    std::string index_format;  // of the indices; empty unless dictionary-encoded
    Kind kind;
};

struct Column {
    const Field* field;
    const ArrowArray* array;  // of the values, or of the indices into array->dictionary
    int64_t begin, length;    // elements [begin, begin + length) of the buffers
    const uint8_t* validity() const;  // bits, or null: all are there
};

class Batch {
public:
    Batch(std::shared_ptr<const std::vector<Field>> fields, bool is_table, ArrowArray array);
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    int64_t length() const { return array_.length; }
    Column column(size_t i) const;  // throws std::out_of_range

private:
    std::shared_ptr<const std::vector<Field>> fields_;
    bool is_table_;
    ArrowArray array_;
};

class Stream {
public:
    // Takes the stream over: `source` is marked as released, as the interface asks.
    explicit Stream(ArrowArrayStream* source);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    const std::vector<Field>& fields() const { return *fields_; }
    std::unique_ptr<Batch> next();  // null at the end; throws std::runtime_error with the producer's words

private:
    void check(int status);

    ArrowArrayStream stream_;
    std::shared_ptr<const std::vector<Field>> fields_;
    bool is_table_ = false;  // else a single column
};

// Returns the validity bits of an array, or null when every value is there.
const uint8_t* validity_of(const ArrowArray& array);

}  // namespace adjudge
