// Texts to codes, in order of first appearance.
//
// An open-addressing table of 16-byte slots (key and code), so that a short id costs one cache miss. The texts
// themselves lie one after another in an arena, as Arrow lays out large_utf8, and leave it that way.
#pragma once
#include <cstdint>

#include "growing.hpp"
#include "codes.hpp"
#include "text_key.hpp"

namespace quorate {

class TextDictionary {
public:
    TextDictionary();

    size_t size() const { return offsets_.size() - 1; }

    // Writes the code of each of n texts. `texts` is any layout of arrow_text.hpp.
    template <class Texts>
    void encode(const Texts& texts,       // IN
                const uint8_t* validity,  // IN bits, or null: all are there
                int64_t begin, int64_t n, // IN elements [begin, begin + n) of the layout and of the bits
                uint32_t* codes);         // OUT [n], NONE where missing

    // Returns the code of one text.
    uint32_t code(Text text) {
        reserve(1);
        const TextKey key = key_of(text.data, text.size);
        return find_or_add(key, hash(key) & mask_, text);
    }

    // Returns the code of one text, or NONE where it was never seen.
    uint32_t find(Text text) const {
        return slots_[slot_of(key_of(text.data, text.size), text)].code;
    }

    // Returns a new code for the text of `code`, which keeps the text but is no longer found; the newer one, where it has
    // one already.
    uint32_t again(uint32_t code);

    // The texts in code order: text i is data[offsets[i] .. offsets[i + 1]].
    const Growing<int64_t>& offsets() const { return offsets_; }
    const Growing<char>& data() const { return data_; }

    // Forgets all texts but the first `size`; allocates nothing. Takes as long as adding those that stay. Of codes with
    // one text the last is found.
    void truncate(size_t size) noexcept;

    // Hands the texts over and starts afresh.
    void finish(Growing<int64_t>& offsets, Growing<char>& data);

private:
    struct Slot {
        uint64_t low;
        uint32_t high;
        uint32_t code;  // NONE: free
        TextKey key() const { return {low, high}; }
    };

    void reserve(size_t more) {
        if ((size() + more) * 3 > (mask_ + 1) * 2) grow(more);
    }
    void grow(size_t more);
    void clear_slots() noexcept;
    void take_slot(Slot slot) noexcept;  // of a text that has none yet
    uint32_t find_or_add(TextKey key, size_t slot, Text text);
    size_t slot_of(TextKey key, Text text) const {  // where it is, or else would be
        size_t at = hash(key) & mask_;
        while (slots_[at].code != NONE && !(slots_[at].key() == key && (!is_long(key) || is_text(slots_[at].code, text))))
            at = (at + 1) & mask_;
        return at;
    }
    bool is_text(uint32_t code, Text text) const {
        const int64_t start = offsets_[code];
        return offsets_[code + 1] - start == text.size && std::memcmp(data_.data() + start, text.data, text.size) == 0;
    }

    Growing<Slot> slots_;
    size_t mask_ = 0;
    Growing<int64_t> offsets_;  // [size + 1]
    Growing<char> data_;
};

}  // namespace quorate
