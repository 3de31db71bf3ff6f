// Which kernels this machine can run.
#include <atomic>

#include "pass.hpp"
#if defined(_WIN32)
#include <windows.h>  // after the others: it has macros named min and max
#endif

namespace adjudge {

namespace baseline {
extern const Kernels kernels;
}
#if defined(ADJUDGE_X86)
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}

#if defined(_WIN32)
// Clang does not link the library that its __builtin_cpu_supports needs on Windows.
static bool has_avx2() { return IsProcessorFeaturePresent(40); }  // PF_AVX2_INSTRUCTIONS_AVAILABLE
static bool has_avx512() {
    if (!IsProcessorFeaturePresent(41)) return false;  // PF_AVX512F_INSTRUCTIONS_AVAILABLE
    constexpr unsigned kDqBwVl = 1u << 17 | 1u << 30 | 1u << 31;
    unsigned leaf = 7, features, part = 0, rest;
    __asm__("cpuid" : "+a"(leaf), "=b"(features), "+c"(part), "=d"(rest));
    return (features & kDqBwVl) == kDqBwVl;
}
#else
static bool has_avx2() { return __builtin_cpu_supports("avx2"); }
static bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}
#endif
#endif

const Kernels* kernels_by_index(int index) {
    const Kernels* able[3] = {&baseline::kernels, nullptr, nullptr};
#if defined(ADJUDGE_X86)
    if (has_avx2()) able[1] = &avx2::kernels;
    if (able[1] && has_avx512()) able[2] = &avx512::kernels;
#endif
    return index >= 0 && index < 3 ? able[index] : nullptr;
}

static std::atomic<const Kernels*> chosen{nullptr};  // read by passes of any thread

void use_kernels(const Kernels* wanted) { chosen.store(wanted, std::memory_order_relaxed); }

const Kernels& kernels() {
    static const Kernels* const best = [] {
        int last = 0;
        while (kernels_by_index(last + 1)) ++last;
        return kernels_by_index(last);
    }();
    const Kernels* wanted = chosen.load(std::memory_order_relaxed);
    return wanted ? *wanted : *best;
}

}  // namespace adjudge
