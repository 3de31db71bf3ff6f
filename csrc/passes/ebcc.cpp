#include "ebcc.hpp"

#include <cmath>
#include <limits>

#include "hash.hpp"
#include "special.hpp"

namespace adjudge {
namespace {

using baseline::mix;

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

// Arrays of one fit, in its room.
struct State {
    double *counts, *lines;    // [pairs, cells] pseudo-votes and votes; expected log-probabilities
    double *totals;            // [cells] of one worker
    double *cells, *log_cells; // [cells] tasks of each; expected log-probabilities
    double *scores;            // [cells + 2 k] of one task
};

State laid_out(const Ebcc& e, double* room) {
    const size_t cells = size_t(e.k) * size_t(e.subtypes), all = size_t(e.pairs) * cells;
    double* const rest = room + 2 * all;
    return {room, room + all, rest, rest + cells, rest + 2 * cells, rest + 3 * cells};
}

void clear(const Ebcc& e, const State& s) {
    const size_t m = size_t(e.subtypes), cells = size_t(e.k) * m;
    for (int64_t p = 0; p < e.pairs; ++p) {
        double* const line = s.counts + size_t(p) * cells;
        for (size_t c = 0; c < cells; ++c) line[c] = e.other;
        for (size_t c = 0; c < m; ++c) line[size_t(e.pair_label[p]) * m + c] = e.diagonal;
    }
    for (size_t c = 0; c < cells; ++c) s.cells[c] = 0.0;
}

// Adds the distribution of a task over its cells to the counts.
void count(const Ebcc& e, const State& s, int64_t t, const double* q) {
    const size_t cells = size_t(e.k) * size_t(e.subtypes);
    for (size_t c = 0; c < cells; ++c) s.cells[c] += q[c];
    for (int64_t v = e.task_ptr[t]; v < e.task_ptr[t + 1]; ++v) {
        const double weight = e.row_weight[e.row[v]];
        double* const line = s.counts + size_t(e.row_pair[e.row[v]]) * cells;
        for (size_t c = 0; c < cells; ++c) line[c] += weight * q[c];
    }
}

void start(const Ebcc& e, const State& s, int64_t restart) {
    const size_t k = size_t(e.k), m = size_t(e.subtypes);
    clear(e, s);
    for (int64_t t = 0; t < e.tasks; ++t) {
        for (size_t l = 0; l < k; ++l) {
            const uint64_t key = mix(e.task_key[t] ^ e.label_hash[l]);
            double total = 0.0;
            for (size_t g = 0; g < m; ++g) {
                const uint64_t bits = mix(key + kGolden * (uint64_t(restart) * m + g + 1));
                total += s.scores[l * m + g] = -std::log((double(bits >> 11) + 0.5) * 0x1p-53);
            }
            for (size_t g = 0; g < m; ++g) s.scores[l * m + g] *= e.shares[size_t(t) * k + l] / total;
        }
        count(e, s, t, s.scores);
    }
}

// The expected logarithms of a Dirichlet with counts beyond the prior, OUT [n] with a stride of 1, and minus its
// divergence from the prior; where `prior` is a single number, it is that of each.
double expect(const double* seen, const double* prior, double one, size_t n, double* logs) {
    double total = 0.0, before = 0.0, minus = 0.0;
    for (size_t i = 0; i < n; ++i) {
        const double a = prior ? prior[i] : one;
        before += a;
        total += a + seen[i];
    }
    const GammaLogs every = gamma_logs(total);
    minus += gamma_logs(before).log_gamma - every.log_gamma;
    for (size_t i = 0; i < n; ++i) {
        const double a = prior ? prior[i] : one;
        if (!(a > 0.0)) {  // a label that cannot be
            logs[i] = -std::numeric_limits<double>::infinity();
            continue;
        }
        const GammaLogs now = gamma_logs(a + seen[i]);
        logs[i] = now.digamma - every.digamma;
        minus += now.log_gamma - gamma_logs(a).log_gamma - seen[i] * logs[i];
    }
    return minus;
}

// The M-step: lines and log-probabilities of the cells; minus the divergence of all posteriors from their priors.
double m_step(const Ebcc& e, const State& s) {
    const size_t k = size_t(e.k), m = size_t(e.subtypes), cells = k * m;
    const double every = e.diagonal + double(e.k - 1) * e.other;
    const double of_diagonal = gamma_logs(e.diagonal).log_gamma, of_other = gamma_logs(e.other).log_gamma;
    const double of_every = gamma_logs(every).log_gamma;
    double minus = 0.0;
    for (int64_t w = 0; w < e.workers; ++w) {
        for (size_t c = 0; c < cells; ++c) s.totals[c] = every;
        for (int64_t p = e.worker_ptr[w]; p < e.worker_ptr[w + 1]; ++p) {
            const double* const line = s.counts + size_t(p) * cells;
            for (size_t c = 0; c < cells; ++c) s.totals[c] += line[c] - (size_t(e.pair_label[p]) == c / m ? e.diagonal : e.other);
        }
        for (size_t c = 0; c < cells; ++c) {
            const GammaLogs total = gamma_logs(s.totals[c]);
            minus += of_every - total.log_gamma;
            s.totals[c] = total.digamma;
        }
        for (int64_t p = e.worker_ptr[w]; p < e.worker_ptr[w + 1]; ++p) {
            const double* const line = s.counts + size_t(p) * cells;
            double* const logs = s.lines + size_t(p) * cells;
            for (size_t c = 0; c < cells; ++c) {
                const bool own = size_t(e.pair_label[p]) == c / m;
                const GammaLogs now = gamma_logs(line[c]);
                logs[c] = now.digamma - s.totals[c];
                minus += now.log_gamma - (own ? of_diagonal : of_other) - (line[c] - (own ? e.diagonal : e.other)) * logs[c];
            }
        }
    }
    double* const classes = s.scores;
    for (size_t l = 0; l < k; ++l) {
        classes[l] = 0.0;
        for (size_t g = 0; g < m; ++g) classes[l] += s.cells[l * m + g];
        minus += expect(s.cells + l * m, nullptr, e.subtype_weight / double(e.subtypes), m, s.log_cells + l * m);
    }
    double* const logs = classes + k;
    if (e.class_weight)
        minus += expect(classes, e.class_weight, 0.0, k, logs);
    else
        for (size_t l = 0; l < k; ++l) logs[l] = e.log_classes[l];
    for (size_t c = 0; c < cells; ++c) s.log_cells[c] += logs[c / m];
    return minus;
}

// The E-step, which counts for the next M-step: the sum of the tasks' log-normalisers.
double e_step(const Ebcc& e, const State& s, double* posterior, int32_t* labels, int64_t* changed) {
    const size_t k = size_t(e.k), m = size_t(e.subtypes), cells = k * m;
    double sum = 0.0;
    clear(e, s);
    for (int64_t t = 0; t < e.tasks; ++t) {
        double* const score = s.scores;
        for (size_t c = 0; c < cells; ++c) score[c] = s.log_cells[c];
        for (int64_t v = e.task_ptr[t]; v < e.task_ptr[t + 1]; ++v) {
            const double weight = e.row_weight[e.row[v]];
            const double* const line = s.lines + size_t(e.row_pair[e.row[v]]) * cells;
            for (size_t c = 0; c < cells; ++c) score[c] += weight * line[c];
        }
        size_t from = 0, to = cells;
        if (e.gold && e.gold[t] >= 0) {
            from = size_t(e.gold[t]) * m;
            to = from + m;
        }
        double best = -std::numeric_limits<double>::infinity(), total = 0.0;
        for (size_t c = from; c < to; ++c) best = score[c] > best ? score[c] : best;
        if (!(best > -std::numeric_limits<double>::infinity())) {  // gold of a label whose prior is 0
            for (size_t c = from; c < to; ++c) score[c] = 0.0;
            best = 0.0;
        }
        for (size_t c = 0; c < cells; ++c) total += score[c] = c < from || c >= to ? 0.0 : std::exp(score[c] - best);
        const double scale = 1.0 / total;
        double most = -1.0;
        int32_t label = 0;
        for (size_t l = 0; l < k; ++l) {
            double share = 0.0;
            for (size_t g = 0; g < m; ++g) share += score[l * m + g] *= scale;
            posterior[size_t(t) * k + l] = share;
            if (share > most) {
                most = share;
                label = int32_t(l);
            }
        }
        *changed += labels[t] != label;
        labels[t] = label;
        sum += best + std::log(total);
        count(e, s, t, score);
    }
    return sum;
}

}  // namespace

size_t ebcc_room(const Ebcc& e) {
    const size_t k = size_t(e.k), cells = k * size_t(e.subtypes);
    return 2 * size_t(e.pairs) * cells + 4 * cells + 2 * k;
}

void ebcc_restart(const Ebcc& e, int64_t restart, const EbccOut& out, double* room, int32_t* labels) {
    const State s = laid_out(e, room);
    start(e, s, restart);
    for (int64_t t = 0; t < e.tasks; ++t) labels[t] = -1;
    int64_t n = 0;
    bool over = false;
    for (; n < e.max_iter && !over; ++n) {
        const double minus = m_step(e, s);
        out.changed[n] = 0;
        out.bound[n] = minus + e_step(e, s, out.posterior, labels, out.changed + n);
        over = n > 0 && out.bound[n] - out.bound[n - 1] < e.tol;
    }
    *out.iterations = n;
}

}  // namespace adjudge
