// The three ways in which Arrow lays out a column of texts, behind one small interface:
// at(i) gives the text, key(i) its key.
#pragma once
#include <cstdint>

#include "text_key.hpp"

namespace adjudge {

// utf8 and large_utf8: text i lies between two offsets.
template <class Offset>
struct OffsetTexts {
    const Offset* offsets;
    const char* data;

    Text at(int64_t i) const { return {data + offsets[i], static_cast<int64_t>(offsets[i + 1] - offsets[i])}; }
    TextKey key(int64_t i) const {
        const Text text = at(i);
        return key_of(text.data, text.size);
    }
};

// string_view: 16 bytes per text; texts of up to twelve bytes are inlined, longer ones are in one of several buffers.
struct ViewTexts {
    const char* views;
    const char* const* buffers;

    Text at(int64_t i) const {
        const char* view = views + 16 * i;
        const int32_t size = static_cast<int32_t>(load4(view));
        if (size <= 12) return {view + 4, size};
        return {buffers[load4(view + 8)] + static_cast<int32_t>(load4(view + 12)), size};
    }
    TextKey key(int64_t i) const {
        const char* view = views + 16 * i;
        const int32_t size = static_cast<int32_t>(load4(view));
        if (size <= SHORT) return key_in_zone(view + 4, size);
        const Text text = at(i);
        return long_key(text.data, text.size);
    }
};

}  // namespace adjudge
