// Texts to codes, in order of first appearance. Ids that are a word and a number, as most are ("t1", "worker17", "42"), are
// looked up in a plain array, a quarter of the hash table's size and none of its work; any others in the table.
#pragma once
#include <cstdint>

#include "codes.hpp"
#include "growing.hpp"
#include "text_dictionary.hpp"

namespace adjudge {

class NumberedTexts {
public:
    size_t size() const { return texts_.size(); }

    // Writes the code of each of n texts. `texts` is any layout of arrow_text.hpp.
    template <class Texts>
    void encode(const Texts& texts,       // IN
                const uint8_t* validity,  // IN bits, or null: all are there
                int64_t begin, int64_t n, // IN elements [begin, begin + n) of the layout and of the bits
                uint32_t* codes);         // OUT [n], NONE where missing

    // Returns the code of one text.
    uint32_t code(Text text);

    const TextDictionary& texts() const { return texts_; }

    // Hands the texts over and starts afresh.
    void finish(Growing<int64_t>& offsets, Growing<char>& data);

private:
    enum class Word { unknown, known, none };  // none: ids are not numbered

    void learn_word(TextKey key);
    uint32_t number_of(TextKey key) const;
    uint32_t find_or_add(uint32_t number, TextKey key, Text text);
    uint32_t add(uint32_t number, TextKey key, Text text);

    TextDictionary texts_;
    Growing<uint32_t> codes_;  // code + 1 of each number; 0: not seen, or in the table
    Word word_ = Word::unknown;
    uint64_t start_ = 0, start_mask_ = 0;  // what all numbered ids begin with
    uint32_t start_size_ = 0;
    uint64_t rows_ = 0;                    // texts seen
    uint64_t tried_ = 0, numbered_ = 0;    // those looked at for a number; those that have one
    bool is_divided_ = false;           // whether the table has numbered ids, which came when the array had no room yet
};

}  // namespace adjudge
