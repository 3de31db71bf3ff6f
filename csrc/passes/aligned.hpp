// Aligned memory for tables and tallies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace adjudge {

constexpr size_t kCacheLine = 64, kLargePage = size_t(1) << 21;

// Whether an array [rows, k] has lines of `lanes` numbers as the kernels read them, none of which crosses a cache line
// without need: then no copy is faster.
inline bool has_whole_lines(const double* array, int k, int lanes) {
    const size_t bytes = size_t(lanes) * sizeof(double);
    return k == lanes && reinterpret_cast<uintptr_t>(array) % (bytes < kCacheLine ? bytes : kCacheLine) == 0;
}

struct Free {
    std::align_val_t unit{};
    void operator()(void* memory) const { ::operator delete(memory, unit); }
};
template <class T>
using Aligned = std::unique_ptr<T[], Free>;

// Uninitialised room for n numbers. Votes hit a table at random, so a large one asks the system for large pages: with
// small ones nearly every vote would miss the translation cache as well.
template <class T>
Aligned<T> allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    const size_t unit = bytes >= kLargePage / 2 ? kLargePage : kCacheLine;
    const size_t size = (bytes / unit + 1) * unit;
    void* memory = ::operator new(size, std::align_val_t(unit));  // Windows has no std::aligned_alloc
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (unit == kLargePage) madvise(memory, size, MADV_HUGEPAGE);  // a wish: refusal does no harm
#endif
    return Aligned<T>(static_cast<T*>(memory), Free{std::align_val_t(unit)});
}

constexpr size_t kAlwaysNew = size_t(1) << 25;  // bytes; C libraries reuse freed blocks of less

// Zeroed room of at least kAlwaysNew bytes. Its pages are new, and the system has cleared them: clearing them again would take
// as long.
struct Cleared {
    std::unique_ptr<void, void (*)(void*)> memory{nullptr, std::free};

    explicit Cleared(size_t bytes) : memory(std::calloc(bytes + 2 * kLargePage, 1), std::free) {
        if (!memory) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        madvise(data(), bytes / kLargePage * kLargePage + kLargePage, MADV_HUGEPAGE);
#endif
    }
    void* data() const {
        const uintptr_t first = reinterpret_cast<uintptr_t>(memory.get());
        return static_cast<char*>(memory.get()) + (kLargePage - first % kLargePage) % kLargePage;
    }
};

}  // namespace adjudge
