// Memory for arrays that may become large: hash tables, and the codes of all votes.
//
// A large array is a mapping of its own on large pages. Small ones are cleared five times slower at their first touch,
// which then takes longer than encoding what they hold. A mapping also grows without a copy; the heap moves what is
// below its threshold byte by byte.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace adjudge {

#if defined(__linux__) && defined(MADV_HUGEPAGE)

constexpr size_t LARGE_PAGE = size_t{1} << 21;

// Returns the bytes mapped for an array of this size; 0: it is small, and lives on the heap.
inline size_t mapped(size_t bytes) {
    return bytes < 2 * LARGE_PAGE ? 0 : (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

inline void give_back(void* memory, size_t bytes) {
    if (mapped(bytes))
        munmap(memory, mapped(bytes));
    else
        std::free(memory);
}

// Returns the array with another size, its content kept as far as it fits; null, and the old one as it was, where
// memory runs out.
inline void* regrow(void* memory, size_t before, size_t bytes) {
    if (!mapped(before) && !mapped(bytes)) return std::realloc(memory, bytes ? bytes : 1);
    if (!mapped(bytes)) {  // from a mapping back to the heap
        void* moved = std::malloc(bytes ? bytes : 1);
        if (!moved) return nullptr;
        std::memcpy(moved, memory, bytes);
        munmap(memory, mapped(before));
        return moved;
    }
    if (mapped(before) == mapped(bytes)) return memory;
    void* moved = mapped(before) ? mremap(memory, mapped(before), mapped(bytes), MREMAP_MAYMOVE)
                                 : mmap(nullptr, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (moved == MAP_FAILED) return nullptr;
    madvise(moved, mapped(bytes), MADV_HUGEPAGE);  // a wish: refusal does no harm
    if (!mapped(before) && memory) {
        std::memcpy(moved, memory, before);
        std::free(memory);
    }
    return moved;
}

#else

inline void give_back(void* memory, size_t) { std::free(memory); }
inline void* regrow(void* memory, size_t, size_t bytes) { return std::realloc(memory, bytes ? bytes : 1); }

#endif

}  // namespace adjudge
