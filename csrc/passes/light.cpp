#include "light.hpp"

#include <vector>

#include "one_task.hpp"

namespace adjudge {

using namespace baseline;

void light_pass(const Light& in, double* right, double* total, int32_t* labels) {
    std::vector<double> scores(size_t(in.k), 0.0);  // zero between tasks
    for (int64_t n = 0; n < in.tasks; ++n) {
        const int64_t task = in.order[n], begin = in.task_ptr[task], end = in.task_ptr[task + 1];
        if (begin == end) continue;
        for (int64_t v = begin; v < end; ++v) {
            const uint32_t r = in.row[v];
            const int64_t w = in.row_worker[r];
            scores[size_t(in.row_label[r])] += right[w] / total[w] * (in.row_weight ? in.row_weight[r] : 1.0);
        }
        int32_t winner = in.gold ? in.gold[task] : -1;
        if (winner < 0) {
            // Weights are above 0, so that the best label is one of those given: the others need no look.
            double best = 0.0;
            for (int64_t v = begin; v < end; ++v) {
                const double score = scores[size_t(in.row_label[in.row[v]])];
                best = score > best ? score : best;
            }
            const double threshold = tie_threshold(best);
            double weight = kNever;
            uint64_t key = 0;
            for (int64_t v = begin; v < end; ++v) {
                const int32_t c = in.row_label[in.row[v]];
                if (!(scores[size_t(c)] >= threshold)) continue;
                const double favour = in.favour ? in.favour[c] : 0.0;
                const uint64_t hash = mix(in.task_key[task] ^ in.label_hash[c]);
                if (winner < 0 || favour > weight || (favour == weight && hash > key)) winner = c, weight = favour, key = hash;
            }
        }
        labels[task] = winner;
        for (int64_t v = begin; v < end; ++v) {
            const uint32_t r = in.row[v];
            const int64_t w = in.row_worker[r];
            const double one = in.row_weight ? in.row_weight[r] : 1.0;
            scores[size_t(in.row_label[r])] = 0.0;
            total[w] += one;
            if (in.row_label[r] == winner) right[w] += one;
        }
    }
}

}  // namespace adjudge
