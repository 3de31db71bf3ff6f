#include "threads.hpp"

#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace quorate {

void share_out(int threads, int64_t pieces, const std::function<void(int, int64_t)>& work) {
    std::atomic<int64_t> next{0};
    const auto run = [&](int thread) {
        for (int64_t piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) work(thread, piece);
    };
    std::vector<std::thread> helpers;
    try {
        for (int i = 1; i < std::min<int64_t>(threads, pieces); ++i) helpers.emplace_back(run, i);
    } catch (const std::system_error&) {  // no more threads to be had: those we have do the work
    }
    run(0);
    for (std::thread& helper : helpers) helper.join();
}

void share_range(int threads, int64_t n, int64_t grain,
                 const std::function<void(int64_t, int64_t)>& work) {
    share_out(threads, (n + grain - 1) / grain,
              [&](int, int64_t piece) { work(piece * grain, std::min(n, (piece + 1) * grain)); });
}

void in_threads(int threads, const std::function<void(int)>& work) {
    threads = std::max(threads, 1);
    std::vector<std::exception_ptr> failed(static_cast<size_t>(threads));
    share_out(threads, threads, [&](int, int64_t t) {
        try {
            work(int(t));
        } catch (...) {
            failed[size_t(t)] = std::current_exception();
        }
    });
    for (const std::exception_ptr& failure : failed)
        if (failure) std::rethrow_exception(failure);
}

}  // namespace quorate
