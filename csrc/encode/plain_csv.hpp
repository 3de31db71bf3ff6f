// Text files of plain lines, read without a parser for the rest of CSV: a field is what lies between two separators.
//
// Lines are plain if they have as many fields as the header and no quotation mark, or are blank; and if all is UTF-8.
// At the first lines that are not, reading stops: the caller takes them, and all after them, to a reader that knows more.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arrow_abi.hpp"

namespace adjudge {

class PlainCsv {
public:
    // Reads an open file, which stays the caller's, from its second line on. `width` is how many fields a line has, `wanted`
    // the places of those to be read, and `piece` how many bytes a thread takes at a time.
    static constexpr int64_t PIECE_BYTES = int64_t{1} << 20;  // what is made of it stays in a shared cache
    PlainCsv(int file, char separator, size_t width, std::vector<size_t> wanted,
             std::vector<std::string> names, int threads, int64_t piece);

    // Writes the next lines as a stream of tables (large_utf8 views; an empty field is missing; blank lines, and those
    // without any wanted field, are left out). Returns false at the end, and if the next lines are not plain. Throws
    // std::system_error if the file cannot be read.
    bool next(ArrowArrayStream* out);

    // Whether all lines have been read.
    bool is_whole() const { return is_whole_; }

private:
    struct Round;

    std::shared_ptr<Round> free_round();
    void fill(Round& round);

    int file_;
    int64_t at_ = 0;  // the first byte that is not read
    char separator_;
    size_t width_;
    std::vector<size_t> wanted_;
    std::vector<std::string> names_;
    int threads_;
    int64_t piece_;
    bool has_header_ = true, is_whole_ = false, is_over_ = false;
    std::vector<char> carried_;  // the part of a line that was read already
    std::vector<std::shared_ptr<Round>> rounds_;
};

}  // namespace adjudge
