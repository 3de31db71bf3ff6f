// A column of any Arrow type that can hold ids, encoded by the dictionary of its kind.
#pragma once
#include <cstdint>

#include "arrow_stream.hpp"
#include "int_dictionary.hpp"
#include "numbered_texts.hpp"

namespace adjudge {

struct Missing {
    int64_t count = 0;
    int64_t first = -1;  // the place of the first in the column
};

// All throw std::invalid_argument for a column of another kind; a column of Arrow's null type suits all.
// IntDictionary takes booleans as 0 and 1, and throws std::overflow_error with the number when it is beyond int64.
Missing encode(TextDictionary& dictionary, const Column& column,  // IN
               uint32_t* codes);                                  // OUT [column.length], NONE where missing
Missing encode(NumberedTexts& dictionary, const Column& column,   // IN
               uint32_t* codes);                                  // OUT [column.length], NONE where missing
Missing encode(IntDictionary& dictionary, const Column& column,   // IN
               uint32_t* codes);                                  // OUT [column.length], NONE where missing

}  // namespace adjudge
