#include "column_encode.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

#include "arrow_ints.hpp"
#include "arrow_text.hpp"

namespace adjudge {
namespace {

// Calls use(layout) with the layout of texts that the format names.
template <class Use>
void with_texts(const std::string& format, const ArrowArray& array, Use use) {
    const auto buffer = [&](int i) { return static_cast<const char*>(array.buffers[i]); };
    if (format == "u") return use(OffsetTexts<int32_t>{reinterpret_cast<const int32_t*>(buffer(1)), buffer(2)});
    if (format == "U") return use(OffsetTexts<int64_t>{reinterpret_cast<const int64_t*>(buffer(1)), buffer(2)});
    if (format == "vu") return use(ViewTexts{buffer(1), reinterpret_cast<const char* const*>(array.buffers + 2)});
    throw std::invalid_argument("not a column of texts: " + format);
}

// Calls use(layout) with the layout of whole numbers that the format names.
template <class Use>
void with_ints(const std::string& format, const ArrowArray& array, Use use) {
    const void* values = array.buffers[1];
    switch (format.size() == 1 ? format[0] : 0) {
        case 'b': return use(BitInts{static_cast<const uint8_t*>(values)});
        case 'c': return use(PlainInts<int8_t>{static_cast<const int8_t*>(values)});
        case 'C': return use(PlainInts<uint8_t>{static_cast<const uint8_t*>(values)});
        case 's': return use(PlainInts<int16_t>{static_cast<const int16_t*>(values)});
        case 'S': return use(PlainInts<uint16_t>{static_cast<const uint16_t*>(values)});
        case 'i': return use(PlainInts<int32_t>{static_cast<const int32_t*>(values)});
        case 'I': return use(PlainInts<uint32_t>{static_cast<const uint32_t*>(values)});
        case 'l': return use(PlainInts<int64_t>{static_cast<const int64_t*>(values)});
        case 'L': return use(PlainInts<uint64_t>{static_cast<const uint64_t*>(values)});
    }
    throw std::invalid_argument("not a column of whole numbers: " + format);
}

// Stops at the first number that an int64 cannot hold; only uint64 has such.
void check_range(const std::string& format, const ArrowArray& array, int64_t begin, int64_t n) {
    if (format != "L") return;
    const auto* values = static_cast<const uint64_t*>(array.buffers[1]);
    const uint8_t* validity = validity_of(array);
    for (int64_t i = begin; i < begin + n; ++i)
        if (values[i] > uint64_t{std::numeric_limits<int64_t>::max()} && (!validity || is_valid(validity, i)))
            throw std::overflow_error(std::to_string(values[i]));
}

// Dictionary-encoded: a value gets its code when an index first points to it, so that the codes follow the
// rows and values that no row uses get none.
//
// code_of runs once per distinct value, so std::function costs nothing; a template would be compiled for each
// of the layouts of values times each of those of indices.
void encode_indices(const Column& column, const std::function<uint32_t(int64_t)>& code_of, uint32_t* codes) {
    const ArrowArray& values = *column.array->dictionary;
    const uint8_t *has_index = column.validity(), *has_value = validity_of(values);
    constexpr uint64_t UNSEEN = ~uint64_t{0};
    Growing<uint64_t> known(values.length);
    std::fill_n(known.data(), known.size(), UNSEEN);
    with_ints(column.field->index_format, *column.array, [&](auto indices) {
        for (int64_t i = 0; i < column.length; ++i) {
            codes[i] = NONE;
            if (has_index && !is_valid(has_index, column.begin + i)) continue;
            const int64_t index = indices.at(column.begin + i);
            if (index < 0 || index >= values.length) throw std::invalid_argument("an index beyond its dictionary");
            if (known[index] == UNSEEN) {
                const int64_t place = values.offset + index;
                known[index] = has_value && !is_valid(has_value, place) ? NONE : code_of(place);
            }
            codes[i] = static_cast<uint32_t>(known[index]);
        }
    });
}

Missing missing_in(const uint32_t* codes, int64_t n) {
    Missing missing;
    for (int64_t i = 0; i < n; ++i) missing.count += codes[i] == NONE;
    if (missing.count) missing.first = std::find(codes, codes + n, NONE) - codes;
    return missing;
}

Missing all_missing(const Column& column, uint32_t* codes) {
    std::fill_n(codes, column.length, NONE);
    return {column.length, column.length ? 0 : -1};
}

template <class Dictionary>
Missing encode_texts(Dictionary& dictionary, const Column& column, uint32_t* codes) {
    const Field& field = *column.field;
    if (field.kind == Kind::null || column.length == 0) return all_missing(column, codes);
    if (!field.index_format.empty()) {
        with_texts(field.format, *column.array->dictionary, [&](auto texts) {
            encode_indices(column, [&](int64_t place) { return dictionary.code(texts.at(place)); }, codes);
        });
        return missing_in(codes, column.length);
    }
    const uint8_t* validity = column.validity();
    with_texts(field.format, *column.array,
               [&](auto texts) { dictionary.encode(texts, validity, column.begin, column.length, codes); });
    return validity ? missing_in(codes, column.length) : Missing{};
}

}  // namespace

Missing encode(TextDictionary& dictionary, const Column& column, uint32_t* codes) {
    return encode_texts(dictionary, column, codes);
}

Missing encode(NumberedTexts& dictionary, const Column& column, uint32_t* codes) {
    return encode_texts(dictionary, column, codes);
}

Missing encode(IntDictionary& dictionary, const Column& column, uint32_t* codes) {
    const Field& field = *column.field;
    if (field.kind == Kind::null || column.length == 0) return all_missing(column, codes);
    if (!field.index_format.empty()) {
        const ArrowArray& values = *column.array->dictionary;
        check_range(field.format, values, values.offset, values.length);
        with_ints(field.format, values, [&](auto ints) {
            encode_indices(column, [&](int64_t place) { return dictionary.code(ints.at(place)); }, codes);
        });
        return missing_in(codes, column.length);
    }
    check_range(field.format, *column.array, column.begin, column.length);
    const uint8_t* validity = column.validity();
    with_ints(field.format, *column.array,
              [&](auto ints) { dictionary.encode(ints, validity, column.begin, column.length, codes); });
    return validity ? missing_in(codes, column.length) : Missing{};
}

}  // namespace adjudge
