// Work split over threads: pieces are handed out in order to whoever is free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace quorate {

// Calls work(thread, piece) for every piece, on up to `threads` threads; returns when all are done. The pieces do not
// depend on the number of threads. `work` must not throw.
template <class Work>
void share_out(int threads, std::int64_t pieces, const Work& work) {
    std::atomic<std::int64_t> next{0};
    const auto run = [&](int thread) {
        for (std::int64_t piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) work(thread, piece);
    };
    std::vector<std::thread> helpers;
    try {
        for (int i = 1; i < std::min<std::int64_t>(threads, pieces); ++i) helpers.emplace_back(run, i);
    } catch (const std::system_error&) {  // no more threads to be had: those we have do the work
    }
    run(0);
    for (std::thread& helper : helpers) helper.join();
}

// Calls work(begin, end) on ranges that cover 0..n.
template <class Work>
void share_range(int threads, std::int64_t n, std::int64_t grain, const Work& work) {
    share_out(threads, (n + grain - 1) / grain,
              [&](int, std::int64_t piece) { work(piece * grain, std::min(n, (piece + 1) * grain)); });
}

}  // namespace quorate
