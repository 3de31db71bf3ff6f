#include "text_dictionary.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "arrow_text.hpp"
#include "../prefetch.hpp"

namespace adjudge {

TextDictionary::TextDictionary() {
    offsets_.push(0);
    grow(BLOCK);
}

void TextDictionary::grow(size_t more) {
    size_t capacity = std::max<size_t>(mask_ + 1, 256);
    while ((size() - apart_ + more) * 3 > capacity * 2) capacity *= 2;
    if (size() + more >= NONE) throw std::length_error("more than four thousand million distinct ids");
    Growing<Slot> old(capacity);  // should memory run out here, nothing has changed
    std::swap(slots_, old);
    mask_ = capacity - 1;
    clear_slots();
    for (size_t s = 0; s < old.size(); ++s)
        if (old[s].code != NONE) take_slot(old[s]);
}

void TextDictionary::clear_slots() noexcept {
    for (size_t s = 0; s <= mask_; ++s) slots_[s] = {0, 0, NONE};
}

void TextDictionary::take_slot(Slot slot) noexcept {
    const size_t home = hash(slot.key()) & mask_;
    size_t step = 0;
    while (slots_[probe(home, step)].code != NONE) ++step;
    slots_[probe(home, step)] = slot;
}

void TextDictionary::truncate(size_t size) noexcept {
    if (size >= this->size()) return;
    offsets_.resize(size + 1);  // smaller: allocates nothing
    data_.resize(static_cast<size_t>(offsets_[size]));
    clear_slots();
    enter_codes();
}

void TextDictionary::enter_codes() noexcept {
    for (size_t code = 0; code < size(); ++code) {
        const Text text{data_.data() + offsets_[code], offsets_[code + 1] - offsets_[code]};
        const TextKey key = key_of(text.data, text.size);
        slots_[slot_of(key, hash(key) & mask_, text)] = {key.low, key.high, static_cast<uint32_t>(code)};
    }
}

uint32_t TextDictionary::append(TextKey key, Text text) {
    if (size() + 1 >= NONE) throw std::length_error("more than four thousand million distinct ids");
    const auto code = static_cast<uint32_t>(size());
    keep(key, text);
    ++apart_;
    return code;
}

void TextDictionary::enter_all() {
    const size_t apart = std::exchange(apart_, 0);
    reserve(BLOCK);
    if (!apart) return;
    clear_slots();
    enter_codes();
}

uint32_t TextDictionary::again(uint32_t code) {
    const int64_t start = offsets_[code], size = offsets_[code + 1] - start;
    reserve(1);
    offsets_.reserve(offsets_.size() + 1);
    data_.reserve(data_.size() + static_cast<size_t>(size));  // reallocate now, so that the text does not move once it is used
    const Text text{data_.data() + start, size};
    const TextKey key = key_of(text.data, text.size);
    Slot& slot = slots_[slot_of(key, hash(key) & mask_, text)];
    if (slot.code != code) return slot.code;
    std::copy_n(text.data, size, data_.extend(static_cast<size_t>(size)));
    slot.code = static_cast<uint32_t>(this->size());
    offsets_.push(static_cast<int64_t>(data_.size()));
    return slot.code;
}

uint32_t TextDictionary::add(TextKey key, size_t at, Text text) {
    const auto code = static_cast<uint32_t>(size());
    keep(key, text);
    slots_[at] = {key.low, key.high, code};
    return code;
}

void TextDictionary::keep(TextKey key, Text text) {
    // Room first: should memory run out, neither the arena nor the table knows anything of the text.
    offsets_.reserve(offsets_.size() + 1);
    data_.reserve(data_.size() + static_cast<size_t>(std::max<int64_t>(text.size, sizeof key.low + sizeof key.high)));
    char* end = data_.extend(static_cast<size_t>(text.size));
    if (is_long(key)) {
        std::memcpy(end, text.data, static_cast<size_t>(text.size));
    } else {  // a short text is its key: two stores of fixed size, what lies beyond the text is room
        std::memcpy(end, &key.low, sizeof key.low);
        std::memcpy(end + sizeof key.low, &key.high, sizeof key.high);
    }
    offsets_.push(static_cast<int64_t>(data_.size()));
}

uint32_t TextDictionary::find_or_add(TextKey key, size_t home, Text text) {
    const size_t at = slot_of(key, home, text);
    return slots_[at].code == NONE ? add(key, at, text) : slots_[at].code;
}

// Neighbours with one key are a run, which is looked up once. Runs are found without a branch: where ids come in no
// order, it would be guessed wrong.
template <bool IsWhole, class Texts>
void TextDictionary::encode_runs(Texts texts, const uint8_t* validity, int64_t begin, int64_t n, uint32_t* codes) {
    TextKey keys[BLOCK + 1];  // of each run; the first is the last one of the block before
    uint32_t run_codes[BLOCK + 1], run[BLOCK], end_of[BLOCK + 1];
    size_t slots[BLOCK + 1];
    keys[0] = {0, MISSING};
    run_codes[0] = NONE;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t first = begin + start;
        const auto m = static_cast<uint32_t>(std::min<int64_t>(BLOCK, n - start));
        reserve(m);  // so that no slot moves within the block
        uint32_t runs = 0;
        bool any_long = false;
        TextKey last = keys[0];
        for (uint32_t i = 0; i < m; ++i) {
            const bool is_there = IsWhole || is_valid(validity, first + i);
            const TextKey key = is_there ? texts.key(first + i) : TextKey{0, MISSING};
            runs += uint32_t(!(key == last)) | uint32_t(is_long(key));  // equal keys of long texts need not be equal texts
            any_long |= is_long(key);
            keys[runs] = last = key;
            end_of[runs] = i;
            run[i] = runs;
        }
        const Slot* table = slots_.data();
        const size_t mask = mask_;
        for (uint32_t r = 1; r <= runs; ++r) {
            slots[r] = hash(keys[r]) & mask;
            prefetch(&table[slots[r]]);
        }
        if (any_long) prefetch_long(keys, slots, runs);
        for (uint32_t r = 1; r <= runs; ++r) {
            const Slot slot = table[slots[r]];
            const bool is_found = (slot.low == keys[r].low) & (slot.high == keys[r].high) & (slot.code != NONE);
            if (is_found && !is_long(keys[r]))
                run_codes[r] = slot.code;
            else if (!IsWhole && keys[r].high == MISSING)
                run_codes[r] = NONE;
            else
                run_codes[r] = find_or_add(keys[r], slots[r], texts.at(first + end_of[r]));
        }
        for (uint32_t i = 0; i < m; ++i) codes[start + i] = run_codes[run[i]];
        keys[0] = keys[runs];
        run_codes[0] = run_codes[runs];
    }
}

template <class Texts>
void TextDictionary::encode(const Texts& texts, const uint8_t* validity, int64_t begin, int64_t n, uint32_t* codes) {
    if (validity)
        encode_runs<false>(texts, validity, begin, n, codes);
    else
        encode_runs<true>(texts, validity, begin, n, codes);
}

// Long texts are compared in the arena: two more places to fetch.
void TextDictionary::prefetch_long(const TextKey* keys, const size_t* slots, uint32_t runs) const {
    const auto is_known = [&](uint32_t r) { return is_long(keys[r]) && slots_[slots[r]].code != NONE; };
    for (uint32_t r = 1; r <= runs; ++r)
        if (is_known(r)) prefetch(&offsets_[slots_[slots[r]].code]);
    for (uint32_t r = 1; r <= runs; ++r)
        if (is_known(r)) prefetch(data_.data() + offsets_[slots_[slots[r]].code]);
}

void TextDictionary::finish(Growing<int64_t>& offsets, Growing<char>& data) {
    offsets = std::move(offsets_);
    data = std::move(data_);
    offsets.shrink();
    data.shrink();
    *this = TextDictionary();
}

template void TextDictionary::encode(const ViewTexts&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void TextDictionary::encode(const OffsetTexts<int32_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void TextDictionary::encode(const OffsetTexts<int64_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);

}  // namespace adjudge
