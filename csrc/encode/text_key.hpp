// A text as a key of twelve bytes that a hash table can compare without following a pointer.
//
// Texts of at most eleven bytes *are* their key (bytes, zero padded, and the length in the twelfth byte); most ids
// are. A longer text has its 64-bit hash and its length as a key: equal keys then still need the bytes compared.
#pragma once
#include <cstdint>
#include <cstring>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "short texts are packed for little-endian machines"
#endif

namespace adjudge {

struct Text {
    const char* data;
    int64_t size;
};

struct TextKey {
    uint64_t low;
    uint32_t high;  // top byte: the length of a short text, LONG or MISSING
};

constexpr int64_t SHORT = 11;
constexpr uint32_t LONG = 0xFF000000u, MISSING = 0xFE000000u;

inline bool operator==(TextKey a, TextKey b) { return a.low == b.low && a.high == b.high; }
inline bool is_long(TextKey k) { return k.high >= LONG; }

inline uint64_t load8(const char* p) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    return word;
}

inline uint32_t load4(const char* p) {
    uint32_t word;
    std::memcpy(&word, p, 4);
    return word;
}

// Returns the 128-bit product folded to 64 bits: every bit of both factors reaches every bit of the result.
inline uint64_t fold(uint64_t a, uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t ODD_A = 0x9E3779B97F4A7C15u, ODD_B = 0xD1B54A32D192ED03u, ODD_C = 0x8CB92BA72F3D8DD7u;

inline uint64_t hash(TextKey k) { return fold(k.low ^ ODD_A, k.high ^ ODD_B); }

inline TextKey long_key(const char* p, int64_t n) {
    uint64_t h = static_cast<uint64_t>(n) * ODD_C;
    int64_t i = 0;
    for (; i + 16 < n; i += 16) h = fold(load8(p + i) ^ ODD_A, load8(p + i + 8) ^ h);
    // The last 8 to 16 bytes; the two words overlap rather than read beyond the text.
    const char* first = n - i >= 8 ? p + i : p + n - 8;
    h = fold(load8(first) ^ ODD_B, load8(p + n - 8) ^ h);
    return {h, LONG | static_cast<uint32_t>(n & 0xFFFFFF)};
}

// Returns the key of n bytes; never reads outside them.
inline TextKey key_of(const char* p, int64_t n) {
    if (n > SHORT) return long_key(p, n);
    const uint32_t length = static_cast<uint32_t>(n) << 24;
    if (n >= 8) return {load8(p), static_cast<uint32_t>(uint64_t{load4(p + n - 4)} >> 8 * (12 - n)) | length};
    if (n >= 4) return {load4(p) | uint64_t{load4(p + n - 4)} << 8 * (n - 4), length};
    if (n == 0) return {0, 0};
    const auto byte = [p](int64_t i) { return uint64_t{static_cast<uint8_t>(p[i])} << 8 * i; };
    return {byte(0) | byte(n >> 1) | byte(n - 1), length};
}

// Which bits of a zone of twelve bytes belong to a text of n <= SHORT bytes. A table, because lengths vary from id
// to id and a branch on them would often be guessed wrong.
struct Zone {
    uint64_t low[SHORT + 1];
    uint32_t high[SHORT + 1];
    constexpr Zone() : low(), high() {
        for (int64_t n = 0; n <= SHORT; ++n) {
            low[n] = n < 8 ? (uint64_t{1} << 8 * n) - 1 : ~uint64_t{0};
            high[n] = n < 8 ? 0 : (1u << 8 * (n - 8)) - 1;
        }
    }
};
inline constexpr Zone ZONE;

// Returns the key of n <= SHORT bytes at the start of twelve readable bytes; the bytes after them do not matter.
inline TextKey key_in_zone(const char* zone, int64_t n) {
    return {load8(zone) & ZONE.low[n], (load4(zone + 8) & ZONE.high[n]) | static_cast<uint32_t>(n) << 24};
}

}  // namespace adjudge
