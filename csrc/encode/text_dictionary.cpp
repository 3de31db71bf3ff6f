#include "text_dictionary.hpp"

#include <algorithm>
#include <stdexcept>

#include "arrow_text.hpp"
#include "../prefetch.hpp"

namespace quorate {

TextDictionary::TextDictionary() {
    offsets_.push(0);
    grow(BLOCK);
}

void TextDictionary::grow(size_t more) {
    size_t capacity = std::max<size_t>(mask_ + 1, 256);
    while ((size() + more) * 3 > capacity * 2) capacity *= 2;
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
    size_t at = hash(slot.key()) & mask_;
    while (slots_[at].code != NONE) at = (at + 1) & mask_;
    slots_[at] = slot;
}

void TextDictionary::truncate(size_t size) noexcept {
    if (size >= this->size()) return;
    offsets_.resize(size + 1);  // smaller: allocates nothing
    data_.resize(static_cast<size_t>(offsets_[size]));
    clear_slots();
    for (size_t code = 0; code < size; ++code) {
        const Text text{data_.data() + offsets_[code], offsets_[code + 1] - offsets_[code]};
        const TextKey key = key_of(text.data, text.size);
        slots_[slot_of(key, text)] = {key.low, key.high, static_cast<uint32_t>(code)};
    }
}

uint32_t TextDictionary::again(uint32_t code) {
    const int64_t start = offsets_[code], size = offsets_[code + 1] - start;
    reserve(1);
    offsets_.reserve(offsets_.size() + 1);
    data_.reserve(data_.size() + static_cast<size_t>(size));  // the text moves, where it must, before it is looked at
    const Text text{data_.data() + start, size};
    Slot& slot = slots_[slot_of(key_of(text.data, text.size), text)];
    if (slot.code != code) return slot.code;
    std::copy_n(text.data, size, data_.extend(static_cast<size_t>(size)));
    slot.code = static_cast<uint32_t>(this->size());
    offsets_.push(static_cast<int64_t>(data_.size()));
    return slot.code;
}

uint32_t TextDictionary::find_or_add(TextKey key, size_t at, Text text) {
    for (; slots_[at].code != NONE; at = (at + 1) & mask_)
        if (slots_[at].key() == key && (!is_long(key) || is_text(slots_[at].code, text))) return slots_[at].code;
    const auto code = static_cast<uint32_t>(size());
    // Room first: should memory run out, neither the arena nor the table knows anything of the text.
    offsets_.reserve(offsets_.size() + 1);
    data_.reserve(data_.size() + static_cast<size_t>(text.size));
    std::copy_n(text.data, text.size, data_.extend(text.size));
    offsets_.push(static_cast<int64_t>(data_.size()));
    slots_[at] = {key.low, key.high, code};
    return code;
}

template <class Texts>
void TextDictionary::encode(const Texts& texts, const uint8_t* validity, int64_t begin, int64_t n, uint32_t* codes) {
    TextKey keys[BLOCK];
    size_t slots[BLOCK];
    TextKey last{0, MISSING};  // a run of one short id is looked up once
    uint32_t last_code = NONE;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t first = begin + start;
        const int m = static_cast<int>(std::min<int64_t>(BLOCK, n - start));
        reserve(m);  // so that no slot moves within the block
        bool any_long = false;
        for (int i = 0; i < m; ++i) {
            if (validity && !is_valid(validity, first + i)) {
                keys[i] = {0, MISSING};
                slots[i] = 0;
                continue;
            }
            keys[i] = texts.key(first + i);
            slots[i] = hash(keys[i]) & mask_;
            prefetch(&slots_[slots[i]]);
            any_long |= is_long(keys[i]);
        }
        if (any_long) {  // these are compared in the arena: two more places to fetch
            for (int i = 0; i < m; ++i)
                if (is_long(keys[i]) && slots_[slots[i]].code != NONE) prefetch(&offsets_[slots_[slots[i]].code]);
            for (int i = 0; i < m; ++i)
                if (is_long(keys[i]) && slots_[slots[i]].code != NONE)
                    prefetch(data_.data() + offsets_[slots_[slots[i]].code]);
        }
        for (int i = 0; i < m; ++i) {
            if (!(keys[i] == last) || is_long(last)) {
                last = keys[i];
                last_code = last.high == MISSING ? NONE : find_or_add(last, slots[i], texts.at(first + i));
            }
            codes[start + i] = last_code;
        }
    }
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

}  // namespace quorate
