#include "row_numbers.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "codes.hpp"
#include "../threads.hpp"

namespace adjudge {
namespace {

// A table with a place for every pair, taken when there are not many more pairs than votes.
void number_in_table(uint32_t* worker, const uint32_t* label, size_t votes, Ranks workers, Ranks labels,
                     int64_t* worker_ptr, Growing<int32_t>& row_label, int threads) {
    const size_t pairs = workers.size * labels.size;
    std::vector<std::vector<uint8_t>> seen(threads);  // one per thread: no two write to the same place
    in_threads(threads, [&](int t) {
        seen[t].assign(pairs, 0);
        uint8_t* mine = seen[t].data();
        const auto [begin, end] = part(votes, t, threads);
        for (size_t i = begin; i < end; ++i) {
            if (label[i] == NONE) {
                worker[i] = NONE;
                continue;
            }
            const size_t pair = workers.rank[worker[i]] * labels.size + labels.rank[label[i]];
            mine[pair] = 1;
            worker[i] = static_cast<uint32_t>(pair);
        }
    });
    Growing<uint32_t> row_of(pairs);
    size_t pair = 0;
    for (size_t w = 0; w < workers.size; ++w) {
        worker_ptr[w] = static_cast<int64_t>(row_label.size());
        for (size_t k = 0; k < labels.size; ++k, ++pair) {
            row_of[pair] = static_cast<uint32_t>(row_label.size());
            if (std::any_of(seen.begin(), seen.end(), [pair](const auto& s) { return s[pair] != 0; }))
                row_label.push(static_cast<int32_t>(k));
        }
    }
    worker_ptr[workers.size] = static_cast<int64_t>(row_label.size());
    in_threads(threads, [&](int t) {
        const auto [begin, end] = part(votes, t, threads);
        for (size_t i = begin; i < end; ++i)
            if (worker[i] != NONE) worker[i] = row_of[worker[i]];
    });
}

// Votes are brought together by worker, and each worker's labels sorted: no place for pairs that do not occur.
void number_by_worker(uint32_t* worker, const uint32_t* label, size_t votes, Ranks workers, Ranks labels,
                      int64_t* worker_ptr, Growing<int32_t>& row_label) {
    std::vector<size_t> ends(workers.size + 1, 0);
    for (size_t i = 0; i < votes; ++i)
        if (label[i] != NONE) ++ends[workers.rank[worker[i]] + 1];
    for (size_t w = 0; w < workers.size; ++w) ends[w + 1] += ends[w];
    struct Given {
        uint32_t label, vote;
    };
    if (votes > NONE) throw std::length_error("more than four thousand million votes");
    Growing<Given> given(ends[workers.size]);
    std::vector<size_t> next(ends.begin(), ends.end() - 1);
    for (size_t i = 0; i < votes; ++i)
        if (label[i] != NONE)
            given[next[workers.rank[worker[i]]]++] = {labels.rank[label[i]], static_cast<uint32_t>(i)};
        else
            worker[i] = NONE;
    for (size_t w = 0; w < workers.size; ++w) {
        worker_ptr[w] = static_cast<int64_t>(row_label.size());
        Given *begin = given.data() + ends[w], *end = given.data() + ends[w + 1];
        std::sort(begin, end, [](Given a, Given b) { return a.label < b.label; });
        for (const Given* g = begin; g < end; ++g) {
            if (g == begin || g->label != g[-1].label) row_label.push(static_cast<int32_t>(g->label));
            worker[g->vote] = static_cast<uint32_t>(row_label.size() - 1);
        }
    }
    worker_ptr[workers.size] = static_cast<int64_t>(row_label.size());
}

}  // namespace

void number_rows(uint32_t* worker, const uint32_t* label, size_t votes, Ranks workers, Ranks labels,
                 int64_t* worker_ptr, Growing<int32_t>& row_label, int threads) {
    const bool is_moderate = labels.size == 0 || workers.size <= std::max<size_t>(votes, 1 << 20) / labels.size;
    if (is_moderate && votes < NONE)
        number_in_table(worker, label, votes, workers, labels, worker_ptr, row_label, threads);
    else
        number_by_worker(worker, label, votes, workers, labels, worker_ptr, row_label);
    row_label.shrink();
}

}  // namespace adjudge
