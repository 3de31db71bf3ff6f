#include "int_dictionary.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "arrow_ints.hpp"
#include "../prefetch.hpp"
#include "text_key.hpp"

namespace adjudge {
namespace {

constexpr uint64_t SMALL = uint64_t{1} << 22;  // a range always worth an array: 16 MB
constexpr uint64_t SPREAD = 4;                 // and so is one of at most this many places per number
constexpr size_t NEAR = size_t{1} << 17;       // places of an array that a core's own cache holds

uint64_t width(int64_t low, int64_t high) { return static_cast<uint64_t>(high) - static_cast<uint64_t>(low); }
uint64_t hash(int64_t value) { return fold(static_cast<uint64_t>(value) ^ ODD_A, ODD_B); }

}  // namespace

template <class Ints>
void IntDictionary::encode(const Ints& ints, const uint8_t* validity, int64_t begin, int64_t n, uint32_t* codes) {
    rows_ += static_cast<uint64_t>(n);
    int64_t values[BLOCK];
    uint32_t block_codes[BLOCK];
    int where[BLOCK];
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t first = begin + start;
        const int m = static_cast<int>(std::min<int64_t>(BLOCK, n - start));
        if (!validity) {
            for (int i = 0; i < m; ++i) values[i] = ints.at(first + i);
            encode_block(values, m, codes + start);
            continue;
        }
        int present = 0;
        for (int i = 0; i < m; ++i) {
            codes[start + i] = NONE;
            if (!is_valid(validity, first + i)) continue;
            where[present] = i;
            values[present++] = ints.at(first + i);
        }
        encode_block(values, present, block_codes);
        for (int i = 0; i < present; ++i) codes[start + where[i]] = block_codes[i];
    }
}

void IntDictionary::encode_block(const int64_t* values, int m, uint32_t* codes) {
    if (m == 0) return;
    if (!fits_dense(values, m)) {
        const auto [low, high] = std::minmax_element(values, values + m);
        cover(*low, *high);
    }
    if (is_dense_) {
        if (dense_.size() > NEAR)
            for (int i = 0; i < m; ++i) prefetch(&dense_[width(base_, values[i])]);
        for (int i = 0; i < m; ++i) {
            uint32_t& code = dense_[width(base_, values[i])];
            if (code == NONE) code = add(values[i]);
            codes[i] = code;
        }
        return;
    }
    size_t slots[BLOCK];
    for (int i = 0; i < m; ++i) {
        slots[i] = hash(values[i]) & mask_;
        prefetch(&slots_[slots[i]]);
    }
    for (int i = 0; i < m; ++i) {
        size_t at = slots[i];
        while (slots_[at].code != NONE && slots_[at].value != values[i]) at = (at + 1) & mask_;
        if (slots_[at].code == NONE) slots_[at] = {values[i], add(values[i])};
        codes[i] = slots_[at].code;
    }
}

uint32_t IntDictionary::code(int64_t value) {
    uint32_t code;
    rows_ += 1;
    encode_block(&value, 1, &code);
    return code;
}

uint32_t IntDictionary::add(int64_t value) {
    if (size() >= NONE - 1) throw std::length_error("more than four thousand million distinct ids");
    values_.push(value);
    return static_cast<uint32_t>(size() - 1);
}

bool IntDictionary::fits_dense(const int64_t* values, int m) const {
    if (!is_dense_) return false;
    bool fits = true;
    for (int i = 0; i < m; ++i) fits &= width(base_, values[i]) < dense_.size();
    return fits;
}

void IntDictionary::cover(int64_t low, int64_t high) {
    if (is_dense_ && size()) {  // what came within the array was not noted; it is made again now in any case
        const auto [least, most] = std::minmax_element(values_.data(), values_.data() + size());
        low_ = *least;
        high_ = *most;
    }
    const bool is_downwards = low_ <= high_ && low < low_;
    if (low_ <= high_) {
        low = std::min(low, low_);
        high = std::max(high, high_);
    }
    low_ = low;
    high_ = high;
    if (is_dense_) {
        if (width(low, high) < std::max(SMALL, SPREAD * rows_)) return make_dense(low, high, is_downwards);
        is_dense_ = false;
        dense_ = Growing<uint32_t>();
        make_sparse(256);
    }
    if ((size() + BLOCK) * 3 <= (mask_ + 1) * 2) return;
    // Many numbers have come: they may have filled their range by now.
    if (width(low, high) < std::max(SMALL, SPREAD * size())) return make_dense(low, high, is_downwards);
    make_sparse(mask_ + 1);
}

void IntDictionary::make_dense(int64_t low, int64_t high, bool is_downwards) {
    // Half as much again on the side that grew, so that ids that count upwards or downwards rarely come back here.
    const uint64_t needed = width(low, high) + 1;
    const uint64_t room = is_downwards ? width(std::numeric_limits<int64_t>::min(), low)
                                       : width(high, std::numeric_limits<int64_t>::max());
    const uint64_t more = std::min(room, needed / 2);
    dense_ = Growing<uint32_t>(needed + more);
    std::fill_n(dense_.data(), dense_.size(), NONE);
    base_ = is_downwards ? static_cast<int64_t>(static_cast<uint64_t>(low) - more) : low;
    for (size_t code = 0; code < size(); ++code) dense_[width(base_, values_[code])] = static_cast<uint32_t>(code);
    is_dense_ = true;
    slots_ = Growing<Slot>();
    mask_ = 0;
}

void IntDictionary::make_sparse(size_t capacity) {
    while ((size() + BLOCK) * 3 > capacity * 2) capacity *= 2;
    slots_ = Growing<Slot>(capacity);
    for (size_t s = 0; s < capacity; ++s) slots_[s] = {0, NONE};
    mask_ = capacity - 1;
    for (size_t code = 0; code < size(); ++code) {
        size_t at = hash(values_[code]) & mask_;
        while (slots_[at].code != NONE) at = (at + 1) & mask_;
        slots_[at] = {values_[code], static_cast<uint32_t>(code)};
    }
}

Growing<int64_t> IntDictionary::finish() {
    Growing<int64_t> values(std::move(values_));
    values.shrink();
    *this = IntDictionary();
    return values;
}

template void IntDictionary::encode(const BitInts&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void IntDictionary::encode(const PlainInts<int8_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void IntDictionary::encode(const PlainInts<uint8_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void IntDictionary::encode(const PlainInts<int16_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void IntDictionary::encode(const PlainInts<uint16_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void IntDictionary::encode(const PlainInts<int32_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void IntDictionary::encode(const PlainInts<uint32_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void IntDictionary::encode(const PlainInts<int64_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void IntDictionary::encode(const PlainInts<uint64_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);

}  // namespace adjudge
