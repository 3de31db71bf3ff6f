// Work shared by a few threads, which sleep from one call to the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace adjudge {

// Calls work(thread, piece) for every piece, on up to `threads` threads, of which the caller's is one; pieces are handed
// out in order to idle threads. Returns when all are done. The pieces do not depend on the number of threads. If no
// more threads can be started, the existing ones do the work. `work` must not throw.
void share_out(int threads, int64_t pieces, const std::function<void(int, int64_t)>& work);

// Calls work(begin, end) on ranges of at most `grain` that cover 0..n. `work` must not throw.
void share_range(int threads, int64_t n, int64_t grain,
                 const std::function<void(int64_t, int64_t)>& work);

// Calls work(0) ... work(threads - 1), side by side; the failure of the first of them that failed is rethrown here.
void in_threads(int threads, const std::function<void(int)>& work);

// Returns the part [begin, end) of n things that falls to thread t.
inline std::pair<size_t, size_t> part(size_t n, int t, int threads) {
    return {n / threads * t + n % threads * t / threads, n / threads * (t + 1) + n % threads * (t + 1) / threads};
}

}  // namespace adjudge
