#include "blocks.hpp"

#include <mutex>
#include <new>
#include <utility>
#include <vector>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace adjudge {
namespace {

void free_block(void* memory) { ::operator delete(memory, std::align_val_t(kLargePage)); }

// A thread that does not get the lock allocates and frees instead of waiting: in the child of a fork it may stay locked for good.
struct Kept {
    std::mutex mutex;
    std::vector<std::pair<void*, size_t>> blocks;
    int users = 0;

    void free_all() {
        for (const auto& block : blocks) free_block(block.first);
        blocks.clear();
    }
};

Kept& kept() {
    static Kept* const made = new Kept;  // never destroyed: arrays may outlive it
    return *made;
}

}  // namespace

void* take_block(size_t bytes) {
    Kept& all = kept();
    if (std::unique_lock<std::mutex> lock(all.mutex, std::try_to_lock); lock && !all.blocks.empty()) {
        for (auto& block : all.blocks)
            if (block.second == bytes) {
                std::swap(block, all.blocks.back());
                void* const memory = all.blocks.back().first;
                all.blocks.pop_back();
                return memory;
            }
        all.free_all();
    }
    void* const memory = ::operator new(bytes, std::align_val_t(kLargePage));  // Windows has no std::aligned_alloc
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: refusal does no harm
#endif
    return memory;
}

void give_block(void* memory, size_t bytes) {
    Kept& all = kept();
    if (std::unique_lock<std::mutex> lock(all.mutex, std::try_to_lock); lock && all.users > 0) {
        try {
            all.blocks.emplace_back(memory, bytes);
            return;
        } catch (const std::bad_alloc&) {
        }
    }
    free_block(memory);
}

void free_blocks() {
    Kept& all = kept();
    if (std::unique_lock<std::mutex> lock(all.mutex, std::try_to_lock); lock) all.free_all();
}

void begin_reuse() {
    Kept& all = kept();
    const std::lock_guard<std::mutex> lock(all.mutex);
    ++all.users;
}

void end_reuse() {
    Kept& all = kept();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (--all.users == 0) all.free_all();
}

}  // namespace adjudge
