// Whole numbers to codes, in order of first appearance.
//
// Numbers that lie close together are looked up in a plain array (*dense*); others in an open-addressing table.
// Which of the two is used never shows in the codes.
#pragma once
#include <cstdint>

#include "growing.hpp"
#include "codes.hpp"

namespace adjudge {

class IntDictionary {
public:
    size_t size() const { return values_.size(); }

    // Writes the code of each of n numbers. `ints` is any layout of arrow_ints.hpp.
    template <class Ints>
    void encode(const Ints& ints,         // IN
                const uint8_t* validity,  // IN bits, or null: all are there
                int64_t begin, int64_t n, // IN elements [begin, begin + n) of the layout and of the bits
                uint32_t* codes);         // OUT [n], NONE where missing

    // Returns the code of one number.
    uint32_t code(int64_t value);

    const Growing<int64_t>& values() const { return values_; }  // in code order

    // Hands the numbers over and starts afresh.
    Growing<int64_t> finish();

private:
    struct Slot {
        int64_t value;
        uint32_t code;  // NONE: free
    };

    void encode_block(const int64_t* values, int m, uint32_t* codes);
    uint32_t add(int64_t value);
    void cover(int64_t low, int64_t high);  // makes room for a block of numbers in this range
    bool fits_dense(const int64_t* values, int m) const;
    void make_dense(int64_t low, int64_t high, bool is_downwards);
    void make_sparse(size_t capacity);

    Growing<int64_t> values_;
    uint64_t rows_ = 0;
    int64_t low_ = 0, high_ = -1;  // the range seen so far, while the array is not used; empty at first
    bool is_dense_ = true;
    Growing<uint32_t> dense_;  // code of base_ + i, or NONE
    int64_t base_ = 0;
    Growing<Slot> slots_;
    size_t mask_ = 0;
};

}  // namespace adjudge
