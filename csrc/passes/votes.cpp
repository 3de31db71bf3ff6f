#include "votes.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "../threads.hpp"
#include "aligned.hpp"

namespace adjudge {
namespace {

constexpr int64_t kGrain = 1 << 18;

// The first place in 0..n where wrong(begin, end) finds a fault, and n where there is none.
template <class Wrong>
int64_t first_fault(int64_t n, int threads, const Wrong& wrong) {
    std::vector<int64_t> at(size_t((n + kGrain - 1) / kGrain), n);
    share_range(threads, n, kGrain,
                [&](int64_t begin, int64_t end) { at[size_t(begin / kGrain)] = wrong(begin, end); });
    for (const int64_t place : at)
        if (place < n) return place;
    return n;
}

}  // namespace

bool rises(const int64_t* at, size_t n, int threads) {
    const int64_t steps = int64_t(n) - 1;
    return n < 2 || steps == first_fault(steps, threads, [&](int64_t begin, int64_t end) {
        bool falls = false;  // all of them: a loop without an exit is done many at a time
        for (int64_t i = begin; i < end; ++i) falls |= at[i + 1] < at[i];
        return falls ? begin : steps;
    });
}

bool are_codes(const int32_t* code, size_t n, int64_t k, int threads) {
    return int64_t(n) == first_fault(int64_t(n), threads, [&](int64_t begin, int64_t end) {
        uint32_t largest = 0;  // codes below 0 are larger than all others
        for (int64_t i = begin; i < end; ++i) largest = std::max(largest, uint32_t(code[i]));
        return int64_t(largest) < k ? int64_t(n) : begin;
    });
}

Fault check_votes(const int64_t* task_ptr, int64_t tasks, const uint32_t* row, int64_t rows,
                  int threads) {
    const int64_t task = first_fault(tasks, threads, [&](int64_t begin, int64_t end) {
        bool falls = false;  // all of them first: a loop without an exit is done many at a time
        for (int64_t t = begin; t < end; ++t) falls |= task_ptr[t + 1] < task_ptr[t];
        for (int64_t t = begin; falls && t < end; ++t)
            if (task_ptr[t + 1] < task_ptr[t]) return t;
        return tasks;
    });
    if (task < tasks) return {Fault::What::falls, task};
    const int64_t first = task_ptr[0], votes = task_ptr[tasks] - first;
    const int64_t vote = first_fault(votes, threads, [&](int64_t begin, int64_t end) {
        uint32_t largest = 0;
        for (int64_t v = first + begin; v < first + end; ++v) largest = row[v] > largest ? row[v] : largest;
        for (int64_t v = first + begin; int64_t(largest) >= rows && v < first + end; ++v)
            if (int64_t(row[v]) >= rows) return v - first;
        return votes;
    });
    return vote < votes ? Fault{Fault::What::row, first + vote} : Fault{};
}

void votes_per_row(const uint32_t* row, int64_t votes, int64_t rows, int64_t* counts, int threads) {
    // A tally of bytes for every thread, whose full cells go to the counts, unless these would outgrow the votes.
    threads = int(std::clamp<int64_t>(2 * votes / std::max<int64_t>(rows, 1), 1, std::max(threads, 1)));
    std::vector<Aligned<uint8_t>> tally;
    for (int thread = 0; thread < threads; ++thread) tally.push_back(allocate<uint8_t>(size_t(rows)));
    share_out(threads, threads, [&](int, int64_t i) { std::memset(tally[size_t(i)].get(), 0, size_t(rows)); });
    share_out(threads, (votes + kGrain - 1) / kGrain, [&](int thread, int64_t piece) {
        uint8_t* const mine = tally[size_t(thread)].get();
        for (int64_t v = piece * kGrain; v < std::min(votes, (piece + 1) * kGrain); ++v)
            if (__builtin_expect(++mine[row[v]] == 0, 0)) __atomic_fetch_add(counts + row[v], int64_t(256), __ATOMIC_RELAXED);
    });
    share_range(threads, rows, kGrain, [&](int64_t begin, int64_t end) {
        for (const Aligned<uint8_t>& one : tally)
            for (int64_t r = begin; r < end; ++r) counts[r] += one[size_t(r)];
    });
}

}  // namespace adjudge
