// The threads of a pass: their work, their buffers, and their counts.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "aligned.hpp"
#include "pass.hpp"
#include "../threads.hpp"

namespace adjudge {

constexpr int64_t kShardVotes = 1 << 16;
constexpr int64_t kMostShardTasks = 4 * kShardVotes;
constexpr size_t kPrivateBytes = size_t(1) << 30;  // more in tallies, and the threads share one
constexpr int64_t kMergeCells = 1 << 14;

inline int64_t votes_of(const Pass& p) { return p.task_ptr[p.tasks] - p.task_ptr[0]; }

// Shards depend on the votes alone, not on the threads.
struct Shards {
    int64_t tasks, number;

    explicit Shards(const Pass& p) {
        const int64_t votes = std::max<int64_t>(votes_of(p), 1);
        const double share = double(p.tasks) / double(votes) * double(kShardVotes);
        tasks = std::clamp<int64_t>(int64_t(share), 1, kMostShardTasks);
        if (tasks > kBlockTasks) tasks = tasks / kBlockTasks * kBlockTasks;
        number = (p.tasks + tasks - 1) / tasks;
    }
    int useful(int threads) const {
        return int(std::clamp<int64_t>(threads, 1, std::max<int64_t>(number, 1)));
    }
};

class Crew {
  public:
    Crew(const Pass& p, int threads) : threads_(threads), worker_(size_t(threads)) {
        const size_t k = size_t(padded(p.k) + 16);
        for (Worker& w : worker_) {
            w.class_counts = room(doubles_, k);
            std::fill_n(w.class_counts, k, 0.0);
            w.class_rest = room(doubles_, k);
            std::fill_n(w.class_rest, k, 0.0);
            w.scores = room(doubles_, kBlockNumbers + k);
            std::fill_n(w.scores, kBlockNumbers + k, 0.0);
            w.shares = w.scores;
            if (p.rest) {
                w.shares = room(doubles_, 2 * (kBlockNumbers + k));
                std::fill_n(w.shares, 2 * (kBlockNumbers + k), 0.0);
            }
            if (p.narrow_lanes > 16) w.narrow = room(floats_, size_t(p.narrow_lanes));
        }
    }

    // Gives every worker a cleared tally of its own, with lines of `stride` cells, if that is worth its memory; one of them
    // gets the caller's counts, if these have such lines.
    void give_tallies(const Pass& p, int stride) {
        const size_t sums = p.rest ? 2 : 1;
        const size_t cells = size_t(p.rows) * size_t(stride) * sums, all = cells * worker_.size();
        const int64_t votes = votes_of(p);
        if (votes < p.rows) return;
        if (p.recount == Pass::Recount::soft && all <= kPrivateBytes / sizeof(double)) {
            direct_ = !p.rest && has_whole_lines(p.shared_soft, p.k, stride);
            for (Worker& w : worker_) w.soft = direct_ && &w == worker_.data() ? p.shared_soft : room(doubles_, cells);
        } else if (p.recount == Pass::Recount::hard && all <= kPrivateBytes) {
            for (Worker& w : worker_) w.hard = room(tallies_, cells);
        }
        share_out(threads_, int64_t(worker_.size()), [&](int, int64_t i) {
            Worker& w = worker_[size_t(i)];
            if (w.soft && w.soft != p.shared_soft) std::memset(w.soft, 0, cells * sizeof(double));
            if (w.hard) std::memset(w.hard, 0, cells);
        });
    }

    // Runs one kernel over all shards; the sums are added in the order of the shards.
    template <class Kernel>
    Sums run(const Pass& p, const Shards& shards, const Kernel& kernel) {
        std::vector<Sums> part(size_t(shards.number));
        share_out(threads_, shards.number, [&](int thread, int64_t shard) {
            Sums sums;  // on the thread's own stack: neighbours in `part` share a cache line
            const int64_t begin = shard * shards.tasks;
            kernel(p, worker_[size_t(thread)], begin, std::min(p.tasks, begin + shards.tasks), sums);
            part[size_t(shard)] = sums;
        });
        Sums all;
        for (const Sums& s : part) all += s;
        return all;
    }

    // counts IN/OUT [rows, k], class_counts IN/OUT [k] and class_rest IN/OUT [k]: adds what the workers counted, the
    // tallies' lines being of `stride` cells. Shared counts are there already; class_rest may be class_counts.
    template <class Cell>
    void add_up(const Pass& p, int stride, Cell* counts, Cell* class_counts, Cell* class_rest) const {
        for (const Worker& w : worker_)
            for (int c = 0; c < p.k; ++c) {
                class_counts[c] += Cell(w.class_counts[c]);
                class_rest[c] += Cell(w.class_rest[c]);
            }
        share_range(threads_, p.rows, kMergeCells / p.k + 1, [&](int64_t begin, int64_t end) {
            for (const Worker& w : worker_) {
                if (direct_ && &w == worker_.data()) continue;
                const auto* tally = [&] {
                    if constexpr (std::is_floating_point_v<Cell>) return w.soft;
                    else return w.hard;
                }();
                if constexpr (std::is_floating_point_v<Cell>) {
                    for (int64_t r = begin; p.rest && tally && r < end; ++r)
                        for (int c = 0; c < p.k; ++c) {
                            counts[r * p.k + c] += tally[2 * r * stride + c];
                            p.rest[r * p.k + c] += tally[(2 * r + 1) * stride + c];
                        }
                    if (p.rest) continue;
                } else if (tally && stride == p.k) {
                    for (int64_t i = begin * p.k; i < end * p.k; ++i) counts[i] += Cell(tally[i]);
                    continue;
                }
                for (int64_t r = begin; tally && r < end; ++r)
                    for (int c = 0; c < p.k; ++c) counts[r * p.k + c] += Cell(tally[r * stride + c]);
            }
        });
    }

  private:
    template <class T>
    static T* room(std::vector<Aligned<T>>& keep, size_t n) {
        keep.push_back(allocate<T>(n));
        return keep.back().get();
    }

    int threads_;
    bool direct_ = false;  // the first worker counts in the caller's array
    std::vector<Worker> worker_;
    std::vector<Aligned<double>> doubles_;
    std::vector<Aligned<float>> floats_;
    std::vector<Aligned<uint8_t>> tallies_;
};

}  // namespace adjudge
