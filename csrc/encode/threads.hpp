// Work shared by a few threads that live for one call.
#pragma once
#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace quorate {

// Calls work(0) ... work(threads - 1), one of them on the calling thread; the first failure is rethrown here.
inline void in_threads(int threads, const std::function<void(int)>& work) {
    std::vector<std::exception_ptr> failed(threads > 1 ? threads : 1);
    auto guarded = [&](int t) {
        try {
            work(t);
        } catch (...) {
            failed[t] = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    int started = 1;
    try {
        others.reserve(failed.size());
        for (; started < threads; ++started) others.emplace_back(guarded, started);
    } catch (...) {
        // No more threads to be had: the calling thread does the rest.
    }
    guarded(0);
    for (int t = started; t < threads; ++t) guarded(t);
    for (auto& thread : others) thread.join();
    for (auto& failure : failed)
        if (failure) std::rethrow_exception(failure);
}

// Returns the part [begin, end) of n things that falls to thread t.
inline std::pair<size_t, size_t> part(size_t n, int t, int threads) {
    return {n / threads * t + n % threads * t / threads, n / threads * (t + 1) + n % threads * (t + 1) / threads};
}

}  // namespace quorate
