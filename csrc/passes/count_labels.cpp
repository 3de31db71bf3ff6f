#include "count_labels.hpp"

#include "crew.hpp"

namespace adjudge {

void count_labels(Pass p, int64_t* counts, int64_t* class_counts, int threads) {
    p.recount = Pass::Recount::hard;
    p.shared_hard = counts;
    const Shards shards(p);
    Crew crew(p, shards.useful(threads));
    crew.give_tallies(p, p.k);
    crew.run(p, shards, [](const Pass& q, Worker& w, int64_t begin, int64_t end, Sums&) {
        for (int64_t t = begin; t < end; t += kBlockTasks)
            kernels().recount(q, w, 0, t, int(std::min<int64_t>(end - t, kBlockTasks)));
    });
    crew.add_up(p, p.k, counts, class_counts, class_counts);
}

}  // namespace adjudge
