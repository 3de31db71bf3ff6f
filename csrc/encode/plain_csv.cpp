#include "plain_csv.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "../threads.hpp"
#include "arrow_export.hpp"
#include "growing.hpp"
#include "text_key.hpp"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace adjudge {
namespace {

constexpr int MAX_THREADS = 8;   // each has megabytes of its own
constexpr int64_t WORD = 64;                       // bytes looked at together
constexpr uint32_t INLINED = 12;                   // bytes of a text that its view holds

struct View {
    uint32_t size;
    char zone[INLINED];  // the text; of a longer one its first four bytes, the buffer (0), and where it begins there
};
static_assert(sizeof(View) == 16);

// Where the marks are among the next 64 bytes, as bits.
struct Marks {
    uint64_t ends = 0, lines = 0;                       // of fields (and so of lines); of lines
    bool any_quote = false, any_return = false, any_high = false;
};

#if defined(__SSE2__)
Marks marks_in(const char* text, char separator) {
    Marks marks;
    const __m128i mark = _mm_set1_epi8(separator), line = _mm_set1_epi8('\n'), quote = _mm_set1_epi8('"');
    const __m128i carriage = _mm_set1_epi8('\r');
    __m128i quotes = _mm_setzero_si128(), returns = quotes, all = quotes;
    for (int i = 0; i < 4; ++i) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + 16 * i));
        const __m128i lines = _mm_cmpeq_epi8(bytes, line);
        const __m128i ends = _mm_or_si128(lines, _mm_cmpeq_epi8(bytes, mark));
        marks.lines |= uint64_t{static_cast<uint16_t>(_mm_movemask_epi8(lines))} << 16 * i;
        marks.ends |= uint64_t{static_cast<uint16_t>(_mm_movemask_epi8(ends))} << 16 * i;
        quotes = _mm_or_si128(quotes, _mm_cmpeq_epi8(bytes, quote));
        returns = _mm_or_si128(returns, _mm_cmpeq_epi8(bytes, carriage));
        all = _mm_or_si128(all, bytes);
    }
    marks.any_quote = _mm_movemask_epi8(quotes) != 0;
    marks.any_return = _mm_movemask_epi8(returns) != 0;
    marks.any_high = _mm_movemask_epi8(all) != 0;
    return marks;
}
#else
Marks marks_in(const char* text, char separator) {
    Marks marks;
    for (int i = 0; i < WORD; ++i) {
        marks.lines |= uint64_t{text[i] == '\n'} << i;
        marks.ends |= uint64_t{(text[i] == '\n') | (text[i] == separator)} << i;
        marks.any_quote |= text[i] == '"';
        marks.any_return |= text[i] == '\r';
        marks.any_high |= (static_cast<unsigned char>(text[i]) & 0x80) != 0;
    }
    return marks;
}
#endif

// Returns how many bytes the character at `p` has; 0 if it is not valid UTF-8 (Unicode, table 3-7).
int64_t character_size(const unsigned char* p, const unsigned char* end) {
    const auto follows = [&](int i, unsigned char low = 0x80, unsigned char high = 0xBF) {
        return p + i < end && p[i] >= low && p[i] <= high;
    };
    if (p[0] < 0x80) return 1;
    if (p[0] >= 0xC2 && p[0] <= 0xDF) return follows(1) ? 2 : 0;
    if (p[0] >= 0xE0 && p[0] <= 0xEF)
        return follows(1, p[0] == 0xE0 ? 0xA0 : 0x80, p[0] == 0xED ? 0x9F : 0xBF) && follows(2) ? 3 : 0;
    if (p[0] >= 0xF0 && p[0] <= 0xF4)
        return follows(1, p[0] == 0xF0 ? 0x90 : 0x80, p[0] == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3) ? 4 : 0;
    return 0;
}

bool is_utf8(const char* text, int64_t size) {
    const auto *p = reinterpret_cast<const unsigned char*>(text), *end = p + size;
    while (p < end) {
        if (end - p >= 8 && !(load8(reinterpret_cast<const char*>(p)) & 0x8080808080808080u)) {
            p += 8;
            continue;
        }
        const int64_t bytes = character_size(p, end);
        if (!bytes) return false;
        p += bytes;
    }
    return true;
}

// The lines of one thread, and the columns made of them; all memory is used again.
struct Piece {
    int64_t begin = 0, end = 0;  // within the text of its round
    Growing<uint32_t> ends;      // where fields end, counted from `begin`
    struct Made {
        Growing<View> views;
        Growing<uint8_t> validity;
        int64_t missing = 0;
    };
    std::vector<Made> columns;
    int64_t rows = 0;

    // Returns whether all lines are plain.
    bool read(const char* whole, char separator, size_t width, const std::vector<size_t>& wanted) {
        const char* text = whole + begin;
        bool has_returns = false;
        size_t lines = 0;
        if (!find_ends(text, separator, has_returns, lines)) return false;
        for (Made& made : columns) {
            made.views.resize(lines);
            made.missing = 0;
        }
        rows = 0;
        uint32_t start = 0;
        for (size_t at = 0; at < ends.size();) {
            if (text[ends[at]] == '\n' && width > 1) {  // blank, or a line with too few fields
                if (ends[at] - start > uint32_t{has_returns && text[start] == '\r'}) return false;
                start = ends[at++] + 1;
                continue;
            }
            if (at + width > ends.size() || text[ends[at + width - 1]] != '\n') return false;
            size_t missing = 0;
            for (size_t c = 0; c < wanted.size(); ++c) {
                const size_t field = at + wanted[c];
                const uint32_t from = wanted[c] ? ends[field - 1] + 1 : start;
                const uint32_t size = ends[field] - from;
                const bool is_returned = has_returns && size && text[ends[field] - 1] == '\r';
                missing += write(columns[c], text, from, size - is_returned);
            }
            // A field that ends a line within these would make their last one end none: lines have `width` of them or none.
            for (size_t f = at; f + 1 < at + width; ++f)
                if (text[ends[f]] == '\n') return false;
            start = ends[at + width - 1] + 1;
            at += width;
            if (missing < wanted.size()) {
                ++rows;
                continue;
            }
            for (Made& made : columns) --made.missing;
        }
        return true;
    }

private:
    // Finds the ends of all fields. Returns false if there is a quotation mark, or bytes that are not UTF-8.
    bool find_ends(const char* text, char separator, bool& has_returns, size_t& lines) {
        const int64_t size = end - begin;
        ends.resize(static_cast<size_t>(size / 4) + WORD);
        size_t found = 0;
        bool any_quote = false, any_high = false;
        for (int64_t i = 0; i < size; i += WORD) {
            Marks marks = marks_in(text + i, separator);
            if (size - i < WORD) {  // what lies beyond is of the next piece, or padding
                const uint64_t inside = (uint64_t{1} << (size - i)) - 1;
                marks.ends &= inside;
                marks.lines &= inside;
            }
            any_quote |= marks.any_quote;
            has_returns |= marks.any_return;
            any_high |= marks.any_high;
            lines += static_cast<size_t>(__builtin_popcountll(marks.lines));
            if (found + WORD > ends.size()) ends.resize(2 * ends.size());
            for (uint64_t bits = marks.ends; bits; bits &= bits - 1)
                ends[found++] = static_cast<uint32_t>(i + __builtin_ctzll(bits));
        }
        ends.resize(found);
        return !any_quote && (!any_high || is_utf8(text, size));
    }

    // Writes a field into the next row. Returns whether it is missing.
    bool write(Made& made, const char* text, uint32_t from, uint32_t size) {
        View& view = made.views[static_cast<size_t>(rows)];
        view.size = size;
        if (size <= SHORT) {
            const TextKey key = key_in_zone(text + from, size);
            const uint32_t high = key.high & 0xFFFFFFu;
            std::memcpy(view.zone, &key.low, sizeof key.low);
            std::memcpy(view.zone + sizeof key.low, &high, sizeof high);
        } else if (size == INLINED) {
            std::memcpy(view.zone, text + from, INLINED);
        } else {
            const uint32_t place[2] = {0, static_cast<uint32_t>(begin) + from};
            std::memcpy(view.zone, text + from, 4);
            std::memcpy(view.zone + 4, place, sizeof place);
        }
        if (size && !made.missing) return false;
        if (!made.missing) {  // the first that is missing: all before it are there
            made.validity.resize(made.views.size() / 8 + 1);
            std::memset(made.validity.data(), 0xFF, made.validity.size());
        }
        const auto bit = static_cast<uint8_t>(1u << (rows & 7));
        uint8_t& bits = made.validity[static_cast<size_t>(rows >> 3)];
        bits = static_cast<uint8_t>(size ? bits | bit : bits & ~bit);  // its row may have been of a line that is left out
        made.missing += size == 0;
        return size == 0;
    }
};

}  // namespace

// The text that threads share, cut into their pieces; free for use again once no table points into it.
struct PlainCsv::Round {
    Growing<char> text;
    int64_t size = 0;
    std::vector<Piece> pieces;
    std::atomic<bool> is_free{true};
};

PlainCsv::PlainCsv(int file, char separator, size_t width, std::vector<size_t> wanted,
                   std::vector<std::string> names, int threads, int64_t piece)
    : file_(file), separator_(separator), width_(width), wanted_(std::move(wanted)), names_(std::move(names)),
      threads_(std::clamp(threads, 1, MAX_THREADS)), piece_(std::max<int64_t>(piece, 1)) {
    const bool fits = std::all_of(wanted_.begin(), wanted_.end(), [&](size_t field) { return field < width_; });
    if (!fits || wanted_.empty() || names_.size() != wanted_.size())
        throw std::invalid_argument("give fields within the width, and a name for each");
}

std::shared_ptr<PlainCsv::Round> PlainCsv::free_round() {
    for (const auto& round : rounds_)
        if (round->is_free.load(std::memory_order_acquire)) return round;
    rounds_.push_back(std::make_shared<Round>());
    return rounds_.back();
}

// Reads the next bytes, each thread some of them, behind those that are carried over.
void PlainCsv::fill(Round& round) {
    const auto carried = static_cast<int64_t>(carried_.size());
    round.text.resize(static_cast<size_t>(carried + threads_ * piece_ + WORD));
    std::copy(carried_.begin(), carried_.end(), round.text.data());
    std::vector<int64_t> read(static_cast<size_t>(threads_), 0);
    in_threads(threads_, [&](int t) {
        int64_t& mine = read[static_cast<size_t>(t)];
        while (mine < piece_) {
            const int64_t place = t * piece_ + mine;
            const ssize_t got = pread(file_, round.text.data() + carried + place, static_cast<size_t>(piece_ - mine), at_ + place);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) throw std::system_error(errno, std::generic_category());
            if (got == 0) return;
            mine += got;
        }
    });
    round.size = carried;
    for (const int64_t bytes : read) {
        round.size += bytes;
        at_ += bytes;
        if (bytes < piece_) break;  // the end, as far as this round is concerned
    }
    carried_.clear();
}

bool PlainCsv::next(ArrowArrayStream* out) {
    if (is_over_) return false;
    const std::shared_ptr<Round> round = free_round();
    fill(*round);
    const bool is_end = round->size < static_cast<int64_t>(round->text.size()) - WORD;
    char* text = round->text.data();
    if (is_end && round->size && text[round->size - 1] != '\n') text[round->size++] = '\n';
    std::memset(text + round->size, 0, WORD - 1);
    const auto line_end = [&](int64_t from, int64_t to) {  // the last line that ends in this part ends here; or `from`
        while (to > from && text[to - 1] != '\n') --to;
        return to;
    };
    const int64_t end = line_end(0, round->size);
    is_over_ = is_end;
    if (!is_end) carried_.assign(text + end, text + round->size);
    if (end == 0) {  // nothing more, or a line too long for a vote
        is_over_ = true;
        is_whole_ = is_end;
        return false;
    }
    int64_t start = 0;  // of the first line that is read
    if (std::exchange(has_header_, false)) start = std::find(text, text + end, '\n') - text + 1;
    const auto pieces = std::min<int64_t>(threads_, (end + piece_ - 1) / piece_);
    round->pieces.resize(static_cast<size_t>(pieces));
    for (int64_t p = 0, from = start; p < pieces; ++p) {
        Piece& piece = round->pieces[static_cast<size_t>(p)];
        piece.columns.resize(wanted_.size());
        piece.begin = from;
        piece.end = from = p + 1 == pieces ? end : line_end(from, std::max(from, end * (p + 1) / pieces));
    }
    std::atomic<bool> is_plain{true};
    share_out(static_cast<int>(pieces), pieces, [&](int, int64_t p) {
        if (!round->pieces[static_cast<size_t>(p)].read(text, separator_, width_, wanted_)) is_plain = false;
    });
    if (!is_plain) {
        is_over_ = true;
        return false;
    }
    is_whole_ = is_end;
    std::vector<ViewTable> tables;
    for (Piece& piece : round->pieces) {
        ViewTable table{piece.rows, text, round->size, {}};
        for (Piece::Made& made : piece.columns)
            table.columns.push_back({made.views.data(), made.missing ? made.validity.data() : nullptr, made.missing});
        if (piece.rows) tables.push_back(std::move(table));
    }
    round->is_free.store(false, std::memory_order_relaxed);
    const std::shared_ptr<void> kept(round.get(), [round](void*) { round->is_free.store(true, std::memory_order_release); });
    export_tables(names_, std::move(tables), kept, out);
    return true;
}

}  // namespace adjudge
