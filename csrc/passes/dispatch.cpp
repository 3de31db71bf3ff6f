// Which kernels this machine can run.
#include <atomic>

#include "pass.hpp"

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
#endif

const Kernels* kernels_by_index(int index) {
    const Kernels* able[3] = {&baseline::kernels, nullptr, nullptr};
#if defined(ADJUDGE_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        able[1] = &avx2::kernels;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
            able[2] = &avx512::kernels;
    }
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
