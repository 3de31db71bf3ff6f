#include "numbered_texts.hpp"

#include <algorithm>
#include <cstring>

#include "../prefetch.hpp"
#include "arrow_text.hpp"

namespace adjudge {
namespace {

constexpr uint64_t SMALL = uint64_t{1} << 16;  // numbers always worth an array
constexpr uint64_t SPREAD = 8;                 // and so is one of at most this many places per text
constexpr size_t NEAR = size_t{1} << 17;       // places of an array that a core's own cache holds
constexpr uint64_t TRIAL = 1024;               // texts that show whether ids are numbered
constexpr uint32_t WORD_SIZE = 8;              // bytes of the longest word
constexpr uint32_t MAX_DIGITS = 8;

constexpr uint64_t bytes(uint64_t byte) { return byte * 0x0101010101010101u; }

uint32_t size_of(TextKey key) { return key.high >> 24; }

// Returns the key's bytes from `begin` on, as many as fit.
uint64_t bytes_from(TextKey key, uint32_t begin) {
    const unsigned __int128 whole = static_cast<unsigned __int128>(key.high & 0xFFFFFFu) << 64 | key.low;
    return static_cast<uint64_t>(whole >> 8 * begin);
}

bool is_digit(uint64_t byte) { return byte >= '0' && byte <= '9'; }

}  // namespace

// The word is what stands before the digits at the end of the first id.
void NumberedTexts::learn_word(TextKey key) {
    word_ = Word::none;
    if (is_long(key) || !size_of(key)) return;
    uint32_t begin = size_of(key);
    while (begin && is_digit(bytes_from(key, begin - 1) & 0xFF)) --begin;
    const uint32_t digits = size_of(key) - begin;
    if (!digits || digits > MAX_DIGITS || begin > WORD_SIZE) return;
    word_ = Word::known;
    start_size_ = begin;
    start_mask_ = begin == WORD_SIZE ? ~uint64_t{0} : (uint64_t{1} << 8 * begin) - 1;
    start_ = key.low & start_mask_;
}

// Returns the number of an id in plain form ("7", but not "007"); NONE for any other text.
uint32_t NumberedTexts::number_of(TextKey key) const {
    const uint32_t digits = size_of(key) - start_size_;  // wraps around where the text is shorter
    const uint64_t raw = bytes_from(key, start_size_);
    const uint32_t gap = 8 * (MAX_DIGITS - digits) & 63;  // bits before the first digit, which become zeros
    const uint64_t text = raw << gap | (bytes('0') & ((uint64_t{1} << gap) - 1));
    const bool all_digits = ((text & bytes(0xF0)) | ((text + bytes(6)) & bytes(0xF0)) >> 4) == bytes('3');
    const bool fits = (digits - 1 < MAX_DIGITS) & ((key.low & start_mask_) == start_) & all_digits &
                      (((raw & 0xFF) != '0') | (digits == 1));
    // Neighbouring digits are joined into numbers of two digits, these into numbers of four, and these into one of eight.
    uint64_t number = (text & bytes(0x0F)) * 2561 >> 8;
    number = (number & 0x00FF00FF00FF00FFu) * 6553601 >> 16;
    number = (number & 0x0000FFFF0000FFFFu) * 42949672960001 >> 32;
    return fits ? static_cast<uint32_t>(number) : NONE;
}

uint32_t NumberedTexts::add(uint32_t number, TextKey key, Text text) {
    uint32_t code = is_divided_ ? texts_.find(text) : NONE;
    if (code == NONE) code = texts_.append(key, text);
    codes_[number] = code + 1;
    return code;
}

uint32_t NumberedTexts::find_or_add(uint32_t number, TextKey key, Text text) {
    if (number == NONE) return texts_.code(text);
    if (number < codes_.size()) return codes_[number] ? codes_[number] - 1 : add(number, key, text);
    const uint64_t limit = std::max(SMALL, SPREAD * rows_);
    if (number >= limit) {
        is_divided_ = true;
        return texts_.code(text);
    }
    const size_t before = codes_.size(), needed = size_t{number} + 1;
    codes_.resize(std::max(needed, std::min<size_t>(limit, needed + needed / 2)));
    std::fill(codes_.data() + before, codes_.data() + codes_.size(), 0u);
    return add(number, key, text);
}

template <class Texts>
void NumberedTexts::encode(const Texts& texts, const uint8_t* validity, int64_t begin, int64_t n, uint32_t* codes) {
    const auto is_there = [&](int64_t i) { return !validity || is_valid(validity, i); };
    for (int64_t i = begin; word_ == Word::unknown && i < begin + n; ++i)
        if (is_there(i)) learn_word(texts.key(i));
    rows_ += static_cast<uint64_t>(n);
    int64_t done = 0;
    TextKey keys[BLOCK];
    uint32_t numbers[BLOCK];
    for (int m; word_ == Word::known && done < n; done += m) {
        m = static_cast<int>(std::min<int64_t>(BLOCK, n - done));
        const int64_t first = begin + done;
        for (int i = 0; i < m; ++i) keys[i] = is_there(first + i) ? texts.key(first + i) : TextKey{0, MISSING};
        for (int i = 0; i < m; ++i) numbers[i] = number_of(keys[i]);
        if (codes_.size() > NEAR)
            for (int i = 0; i < m; ++i) prefetch(codes_.data() + numbers[i]);
        for (int i = 0; i < m; ++i)
            if (numbers[i] >= codes_.size()) texts_.fetch(keys[i]);
        for (int i = 0; i < m; ++i) {
            const uint32_t known = numbers[i] < codes_.size() ? codes_[numbers[i]] : 0;
            numbered_ += numbers[i] != NONE;
            codes[done + i] = known                      ? known - 1
                              : keys[i].high == MISSING ? NONE
                                                         : find_or_add(numbers[i], keys[i], texts.at(first + i));
        }
        tried_ += static_cast<uint64_t>(m);
        if (tried_ >= TRIAL && numbered_ * 2 < tried_) {
            word_ = Word::none;
            texts_.enter_all();
            codes_ = Growing<uint32_t>();
        }
    }
    if (done < n) texts_.encode(texts, validity, begin + done, n - done, codes + done);
}

uint32_t NumberedTexts::code(Text text) {
    const TextKey key = key_of(text.data, text.size);
    if (word_ == Word::unknown) learn_word(key);
    ++rows_;
    return word_ == Word::known ? find_or_add(number_of(key), key, text) : texts_.code(text);
}

void NumberedTexts::finish(Growing<int64_t>& offsets, Growing<char>& data) {
    texts_.finish(offsets, data);
    *this = NumberedTexts();
}

template void NumberedTexts::encode(const ViewTexts&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void NumberedTexts::encode(const OffsetTexts<int32_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);
template void NumberedTexts::encode(const OffsetTexts<int64_t>&, const uint8_t*, int64_t, int64_t, uint32_t*);

}  // namespace adjudge
