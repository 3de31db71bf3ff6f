// Asks for a cache line ahead of its use; harmless for any address.
#pragma once
#if defined(_MSC_VER)
#include <xmmintrin.h>
#endif

namespace adjudge {

inline void prefetch(const void* address) {
#if defined(_MSC_VER)
    _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
#else
    __builtin_prefetch(address);
#endif
}

}  // namespace adjudge
