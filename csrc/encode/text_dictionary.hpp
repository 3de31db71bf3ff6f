// Texts to codes, in order of first appearance.
//
// An open-addressing table of 16-byte slots (key and code), so that a short id costs one cache miss. The texts
// themselves lie one after another in an arena, as Arrow lays out large_utf8, and leave it that way.
#pragma once
#include <cstdint>

#include "growing.hpp"
#include "../prefetch.hpp"
#include "codes.hpp"
#include "text_key.hpp"

namespace adjudge {

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
        const TextKey key = key_of(text.data, text.size);
        return slots_[slot_of(key, hash(key) & mask_, text)].code;
    }

    // Returns a new code for a text that is looked up elsewhere: it is not found here, unless all are entered.
    uint32_t append(TextKey key, Text text);

    // Fetches the slot where a text of this key will be looked for.
    void fetch(TextKey key) const { prefetch(&slots_[hash(key) & mask_]); }

    // Lets all texts be found.
    void enter_all();

    // Returns a new code for the text of `code`, which keeps the text but is no longer found; the newer code if it has
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
        if ((size() - apart_ + more) * 3 > (mask_ + 1) * 2) grow(more);
    }
    void grow(size_t more);
    void clear_slots() noexcept;
    void enter_codes() noexcept;  // into free slots
    void take_slot(Slot slot) noexcept;  // of a text that has none yet
    void keep(TextKey key, Text text);  // in the arena
    uint32_t add(TextKey key, size_t slot, Text text);  // into a free slot
    uint32_t find_or_add(TextKey key, size_t home, Text text);
    void prefetch_long(const TextKey* keys, const size_t* slots, uint32_t runs) const;
    template <bool IsWhole, class Texts>
    void encode_runs(Texts texts, const uint8_t* validity, int64_t begin, int64_t n, uint32_t* codes);
    // The slots to look at, one after the other: first the four of a cache line, which one miss brings in.
    size_t probe(size_t home, size_t step) const { return ((home + (step & ~size_t{3})) & mask_) ^ (step & 3); }
    size_t slot_of(TextKey key, size_t home, Text text) const {  // where it is, or else would be
        for (size_t step = 0;; ++step) {
            const size_t at = probe(home, step);
            const Slot& slot = slots_[at];
            if (slot.code == NONE || (slot.key() == key && (!is_long(key) || is_text(slot.code, text)))) return at;
        }
    }
    bool is_text(uint32_t code, Text text) const {
        const int64_t start = offsets_[code];
        return offsets_[code + 1] - start == text.size && std::memcmp(data_.data() + start, text.data, text.size) == 0;
    }

    Growing<Slot> slots_;
    size_t mask_ = 0;
    size_t apart_ = 0;  // texts that have no slot
    Growing<int64_t> offsets_;  // [size + 1]
    Growing<char> data_;
};

}  // namespace adjudge
