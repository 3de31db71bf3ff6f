#include "whole_numbers.hpp"

#include <charconv>
#include <system_error>

namespace adjudge {

bool whole_numbers(const int64_t* offsets, const char* data, size_t n, Growing<int64_t>& numbers) {
    numbers.resize(n);
    for (size_t i = 0; i < n; ++i) {
        const char *begin = data + offsets[i], *end = data + offsets[i + 1];
        const char* digits = begin + (begin < end && *begin == '-');
        if (digits == end || (*digits == '0' && (end - digits > 1 || digits > begin))) return false;
        const auto [stop, error] = std::from_chars(begin, end, numbers[i]);
        if (error != std::errc() || stop != end) return false;
    }
    return true;
}

}  // namespace adjudge
