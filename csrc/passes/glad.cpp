#include "glad.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "one_task.hpp"
#include "../threads.hpp"

namespace adjudge {
namespace {

using namespace baseline;

constexpr int64_t kPieceVotes = 1 << 14;
constexpr int64_t kPieces = 64;
constexpr int kFactors = 256;   // each is at most 2, and so their product far from overflow

// The sum of softplus(x) = max(x, 0) + log(1 + exp(-|x|)); one logarithm of a product stands for many of its factors.
class Softplus {
  public:
    // exp(-|x|), which the caller needs as well
    ADJUDGE_INLINE double add(double x) {
        const double e = std::exp(-std::fabs(x));
        linear_ += x > 0.0 ? x : 0.0;
        product_ *= 1.0 + e;
        if (++factors_ == kFactors) fold();
        return e;
    }
    double sum() {
        fold();
        return linear_ + logs_;
    }

  private:
    void fold() {
        logs_ += std::log(product_);
        product_ = 1.0;
        factors_ = 0;
    }
    double linear_ = 0.0, logs_ = 0.0, product_ = 1.0;
    int factors_ = 0;
};

// Tasks in pieces of about as many votes each. Each piece has sums of its own, added up in order, so that not even the
// last bit depends on the threads; hence there are few, and fewer still where their tallies would outgrow the votes.
std::vector<int64_t> pieces_of(const Glad& g, int64_t tally) {
    const int64_t first = g.task_ptr[0], votes = g.task_ptr[g.tasks] - first;
    const int64_t most = std::clamp<int64_t>(votes / std::max<int64_t>(tally, 1), 1, kPieces);
    const int64_t n = std::clamp<int64_t>(votes / kPieceVotes, 1, most);
    std::vector<int64_t> begin{0};
    for (int64_t i = 1; i < n; ++i) {
        const int64_t* at = std::lower_bound(g.task_ptr, g.task_ptr + g.tasks, first + votes / n * i);
        begin.push_back(at - g.task_ptr);
    }
    begin.push_back(g.tasks);
    return begin;
}

}  // namespace

Sums glad_expect(const Glad& g, const Pass& p, const int32_t* row_label, double* right, double* class_counts,
                 int threads) {
    const std::vector<int64_t> begin = pieces_of(g, p.k);
    const int64_t pieces = int64_t(begin.size()) - 1;
    const size_t k = size_t(p.k);
    std::vector<Sums> part(size_t(pieces), Sums{});
    std::vector<double> classes(size_t(pieces) * k), room(size_t(pieces) * k);
    share_out(threads, pieces, [&](int, int64_t piece) {
        double* const scores = room.data() + size_t(piece) * k;
        double* const counts = classes.data() + size_t(piece) * k;
        Sums sums;
        for (int64_t t = begin[size_t(piece)]; t < begin[size_t(piece) + 1]; ++t) {
            const int64_t first = p.task_ptr[t], last = p.task_ptr[t + 1];
            for (size_t c = 0; c < k; ++c) scores[c] = 0.0;
            Softplus softplus;
            for (int64_t v = first; v < last; ++v) {
                const uint32_t row = p.row[v];
                const double x = g.ability[g.row_worker[row]] * g.ease[t];
                softplus.add(x);
                scores[row_label[row]] += x + g.log_others;
            }
            const double every = -softplus.sum() - double(last - first) * g.log_others;
            double best = kNever;
            for (size_t c = 0; c < k; ++c) {
                scores[c] += every + p.log_prior[c];
                best = scores[c] > best ? scores[c] : best;
            }
            const Decision chosen = settle(p, t, scores, tie_threshold(best));
            double total = 0.0;
            for (size_t c = 0; c < k; ++c) total += scores[c] = std::exp(scores[c] - best);
            for (size_t c = 0; c < k; ++c) {
                scores[c] /= total;
                counts[c] += scores[c];
                if (p.posterior) p.posterior[size_t(t) * k + c] = scores[c];
            }
            for (int64_t v = first; v < last; ++v) right[v - p.task_ptr[0]] = scores[row_label[p.row[v]]];
            sums.log_likelihood += best + std::log(total);
            sums.changed += p.labels[t] != chosen.label;
            p.labels[t] = chosen.label;
            if (p.confidence) p.confidence[t] = scores[chosen.label];
            if (p.tie) p.tie[t] = chosen.tied;
        }
        part[size_t(piece)] = sums;
    });
    Sums all;
    for (size_t piece = 0; piece < size_t(pieces); ++piece) {
        all += part[piece];
        for (size_t c = 0; c < k; ++c) class_counts[c] += classes[piece * k + c];
    }
    return all;
}

double glad_gradient(const Glad& g, const double* right, double* by_worker, double* by_task, double* worker_curvature,
                     double* task_curvature, int threads) {
    struct Slope {
        double gradient = 0.0, curvature = 0.0;
    };
    const std::vector<int64_t> begin = pieces_of(g, g.workers);
    const int64_t pieces = int64_t(begin.size()) - 1;
    const size_t workers = size_t(g.workers);
    std::vector<double> value(static_cast<size_t>(pieces));
    std::vector<Slope> tallies(size_t(pieces) * workers);
    share_out(threads, pieces, [&](int, int64_t piece) {
        Slope* const tally = tallies.data() + size_t(piece) * workers;
        Softplus softplus;
        double linear = 0.0;
        for (int64_t t = begin[size_t(piece)]; t < begin[size_t(piece) + 1]; ++t) {
            const double ease = g.ease[t];
            Slope task;
            for (int64_t v = g.task_ptr[t]; v < g.task_ptr[t + 1]; ++v) {
                const int32_t worker = g.row_worker[g.row[v]];
                const double r = right[v - g.task_ptr[0]];
                const double x = g.ability[worker] * ease;
                const double e = softplus.add(x);
                linear += r * x - (1.0 - r) * g.log_others;
                const double s = (x > 0.0 ? 1.0 : e) / (1.0 + e);
                const double w = std::fabs(x) < kFlat ? 0.25 : (s - 0.5) / x;
                tally[worker].gradient += (r - s) * ease;
                tally[worker].curvature += w * ease * ease;
                task.gradient += (r - s) * x;
                task.curvature += w * x * x;
            }
            by_task[t] = task.gradient;
            task_curvature[t] = task.curvature;
        }
        value[size_t(piece)] = linear - softplus.sum();
    });
    share_range(threads, g.workers, 1 << 12, [&](int64_t from, int64_t to) {
        for (size_t piece = 0; piece < size_t(pieces); ++piece)
            for (int64_t i = from; i < to; ++i) {
                by_worker[i] += tallies[piece * workers + size_t(i)].gradient;
                worker_curvature[i] += tallies[piece * workers + size_t(i)].curvature;
            }
    });
    double all = 0.0;
    for (const double v : value) all += v;
    return all;
}

}  // namespace adjudge
