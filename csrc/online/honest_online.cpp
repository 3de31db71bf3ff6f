// Honest confidence of a stream. kernels/online_honest.py does the same operations in the same order: both
// have the same bits.
#include <algorithm>
#include <cmath>

#include "../passes/honest.hpp"
#include "state.hpp"

namespace adjudge {
namespace {

constexpr double kLentHits = 5.0;    // votes of the mean worker lent where shared error is measured
constexpr double kLentAgreed = 2.0;  // and where agreement with the labels is

}  // namespace

Due Online::due(Confidence kind, uint64_t ahead) const {
    if (kind == Confidence::posterior) return Due::nothing;
    if (measured_.votes < 0) return Due::all;
    const uint64_t since = changes_ + ahead - measured_.changes;
    const uint64_t rare = uint64_t(k_) * uint64_t(k_) / kCellsPerChange;
    const uint64_t after = std::max((uint64_t(measured_.votes) + kRenewAfter - 1) / kRenewAfter, rare);
    if (kind == Confidence::honest && since && since >= after) return Due::all;
    for (int c = 0; c < k_; ++c)
        if (named_[c] && !(measured_.uniform[c] > 0.0)) return Due::labels;
    return Due::nothing;
}

Answer Online::answer(uint32_t task, Confidence kind, Scratch& scratch, double* p) const {
    const Task& t = tasks_[task];
    if (t.gold >= 0) {
        std::fill_n(p, k_, 0.0);
        p[t.gold] = 1.0;
        return {t.gold, false, true};
    }
    return answer_of(task, predict(task, scratch, p), kind, scratch, p);
}

Answer Online::answer_learned(uint32_t task, Confidence kind, double* p) {
    if (!is_found_ || tasks_[task].gold >= 0) return answer(task, kind, scratch_, p);
    std::copy_n(scratch_.posterior(), k_, p);
    return answer_of(task, found_, kind, scratch_, p);
}

// Of a task without gold, of which the E-step said this, with this posterior: p IN and OUT [k].
Answer Online::answer_of(uint32_t task, baseline::Decision d, Confidence kind, Scratch& scratch, double* p) const {
    const Task& t = tasks_[task];
    if (t.votes.empty()) return {d.label, false};
    Answer told = t.fitted ? Answer{t.label, t.fitted > 1} : Answer{d.label, d.tied};
    if (kind == Confidence::posterior) return told;
    honest(task, scratch, p);
    const LastStep last = last_step(p, k_, told.label);
    told.tied |= last.tied;
    p[told.label] = last.best;
    for (int c = 0; c < k_; ++c) p[c] /= last.total;
    return told;
}

void Online::honest(uint32_t task, Scratch& scratch, double* p) const {
    const Ballots& mine = tasks_[task].votes;
    const size_t k = size_t(k_), own = size_t(tasks_[task].label);
    const Counts& n = labelled();
    scratch.fit(k_, mine.size());
    double *const product = scratch.log_prior(), *const shown = scratch.lent(), *const says = scratch.scores();
    const double lent_total = measured_.lent_total;
    std::copy_n(measured_.log_prior.data(), k, p);
    std::copy_n(measured_.uniform.data(), k, shown);
    for (size_t first = 0; first < mine.size(); first += TOGETHER) {
        std::fill_n(product, k, 1.0);
        for (size_t v = first; v < std::min<size_t>(mine.size(), first + TOGETHER); ++v) {
            const size_t row = mine[v], given = row_label_[row];
            const int64_t* seen = n.rows.data() + row * k;
            const int64_t* all = n.workers.data() + size_t(row_worker_[row]) * k;
            const double* lent = measured_.lent.data() + given * k;
            for (size_t c = 0; c < k; ++c) says[c] = (double(seen[c]) + lent[c]) / (double(all[c]) + lent_total);
            says[own] = (double(seen[own] - ONE) + lent[own]) / (double(all[own] - ONE) + lent_total);
            says[given] = *std::max_element(says, says + k);  // no vote speaks against what it says
            for (size_t c = 0; c < k; ++c) product[c] *= says[c];
            shown[given] += 1.0;
        }
        for (size_t c = 0; c < k; ++c)
            if (measured_.uniform[c] > 0.0) p[c] += std::log(product[c]);
    }
    Honest h;
    h.uniform = measured_.uniform.data();
    h.shared_error = measured_.shared_error;
    h.holds = measured_.holds;
    honest_mix(h, k_, double(mine.size()), p, shown);
}

CrowdSums Online::crowd(Confidence kind) const {
    const size_t k = size_t(k_);
    CrowdSums out;
    out.votes.assign(k * k, 0), out.right.assign(k * k, 0), out.doubt.assign(k * k, 0);
    uint64_t votes = 0;
    for (const Task& t : tasks_) {
        const int64_t size = int64_t(t.votes.size());
        votes += uint64_t(size);
        if (t.gold >= 0) continue;
        out.cast += size;
        out.pairs += size * (size - 1);
    }
    const uint64_t every = std::max<uint64_t>(1, votes * k / kSampledCells);
    std::vector<double> p(k);
    Scratch scratch;
    for (uint32_t t = 0; t < tasks(); ++t) {
        if (tasks_[t].votes.empty() || baseline::mix(number_[t]) % every) continue;
        const size_t label = size_t(tasks_[t].label);
        if (const int gold = tasks_[t].gold; gold >= 0) {
            std::fill(p.begin(), p.end(), 0.0);
            p[size_t(gold)] = 1.0;
        } else if (kind == Confidence::posterior) {
            predict(t, scratch, p.data());
        } else {
            honest(t, scratch, p.data());
        }
        const int64_t doubt = std::llrint((1.0 - p[label]) / kAnswerUnit);
        for (const uint32_t row : tasks_[t].votes) {
            const size_t cell = size_t(row_label_[row]) * k + label;
            ++out.votes[cell];
            out.right[cell] += std::llrint(p[row_label_[row]] / kAnswerUnit);
            out.doubt[cell] += doubt;
        }
    }
    return out;
}

Online::Judged Online::judge(uint32_t worker, const double* right, const double* doubt) const {
    Judged out;
    const size_t k = size_t(k_);
    for (uint32_t g = 0; g < uint32_t(k_); ++g) {
        const int32_t row = row_of(worker, g);
        if (row < 0) continue;
        const int64_t* line = labelled().rows.data() + size_t(row) * k;
        for (size_t c = 0; c < k; ++c) {
            if (!line[c]) continue;
            const int64_t votes = line[c] / ONE;
            out.votes += votes;
            out.right += double(votes) * right[g * k + c];
            out.doubt += double(votes) * doubt[g * k + c];
        }
    }
    return out;
}

int Online::majority(uint32_t task, int64_t* shown) const {
    const Ballots& mine = tasks_[task].votes;
    int64_t most = 0;
    for (const uint32_t row : mine) most = std::max(most, ++shown[row_label_[row]]);
    int winner = -1;
    uint64_t key = 0;
    for (const uint32_t row : mine) {
        const int c = int(row_label_[row]);
        if (shown[c] < most || c == winner) continue;
        const uint64_t hash = baseline::mix(tasks_[task].key ^ label_hash_[size_t(c)]);
        if (winner < 0 || hash > key || (hash == key && c < winner)) winner = c, key = hash;
    }
    for (const uint32_t row : mine) shown[row_label_[row]] = 0;
    return winner;
}

Measures Online::measure(bool sums) const {
    const Counts &n = labelled(), &base = labelled_base();
    const size_t k = size_t(k_);
    Measures m;
    m.given = n.pooled;
    m.tasks = n.classes;
    for (int64_t& units : m.given) units /= ONE;
    for (int64_t& units : m.tasks) units /= ONE;
    m.left_out = base.pooled;
    for (int64_t& units : m.left_out) units /= ONE;
    m.changes = changes_;
    double same = 0.0, agree = 0.0;
    std::vector<int64_t> named = named_;  // by label, on tasks in memory without gold
    for (size_t i = 0; i < k * k; ++i) named[i / k] -= m.left_out[i];
    for (const int64_t votes : named) m.votes += votes;
    if (!sums || !m.votes) return m;
    for (const Task& t : tasks_) {
        if (t.gold < 0) continue;
        for (const uint32_t row : t.votes) {
            ++m.left_out[size_t(row_label_[row]) * k + size_t(t.gold)];
            --named[row_label_[row]];
        }
    }
    int64_t open = 0;
    for (const int64_t votes : named) open += votes;
    if (!open) return m;
    const double every = double(open);
    for (size_t c = 0; c < k; ++c) {
        same += (double(named[c]) / every) * (double(named[c]) / every);
        agree += double(m.given[c * k + c] - m.left_out[c * k + c]);
    }
    const double chance = std::min(same, 0.999);
    agree /= every;

    // By worker: all votes, those that equal the winner of majority vote, and those that equal the label.
    struct Worker {
        int64_t votes = 0, hits = 0, right = 0;
    };
    struct Vote {
        double rate, deviation, skill;
    };
    std::vector<Worker> workers(this->workers());
    const std::vector<uint32_t> order = in_order();  // of sums, whose last bits depend on it
    std::vector<int32_t> winner(tasks());
    std::vector<int64_t> shown(k, 0);
    int64_t hits = 0;
    for (uint32_t t = 0; t < tasks(); ++t) {
        if (tasks_[t].gold >= 0) continue;
        winner[t] = majority(t, shown.data());
        for (const uint32_t row : tasks_[t].votes) {
            Worker& w = workers[row_worker_[row]];
            const int32_t label = int32_t(row_label_[row]);
            ++w.votes;
            w.hits += label == winner[t];
            w.right += label == tasks_[t].label;
            hits += label == winner[t];
        }
    }
    const double mean = double(hits) / every;
    std::vector<Vote> of(workers.size());
    for (size_t a = 0; a < of.size(); ++a) {
        const Worker& w = workers[a];
        const double rate = (double(w.hits) + kLentHits * mean) / (double(w.votes) + kLentHits);
        const double agreed = (double(w.right) + kLentAgreed * agree) / (double(w.votes) + kLentAgreed);
        of[a].rate = std::min(std::max(rate, 0.02), 0.98);
        of[a].deviation = std::sqrt(of[a].rate * (1.0 - of[a].rate));
        of[a].skill = std::min(std::max((agreed - chance) / (1.0 - chance), 0.0), 1.0);
    }
    int64_t alike = 0, pairs = 0;
    for (const uint32_t t : order) {
        if (tasks_[t].gold >= 0) continue;
        double x = 0.0, xx = 0.0, d = 0.0, dd = 0.0, s = 0.0, ss = 0.0;
        for (const uint32_t row : tasks_[t].votes) {
            const Vote& v = of[row_worker_[row]];
            const double error = double(int32_t(row_label_[row]) == winner[t]) - v.rate;
            alike += 2 * shown[row_label_[row]]++;
            x += error, xx += error * error;
            d += v.deviation, dd += v.deviation * v.deviation;
            s += v.skill, ss += v.skill * v.skill;
        }
        for (const uint32_t row : tasks_[t].votes) shown[row_label_[row]] = 0;
        const int64_t size = tasks_[t].votes.size();
        pairs += size * (size - 1);
        m.together += x * x - xx;
        m.apart += d * d - dd;
        m.skills += s * s - ss;
    }
    m.alike = double(alike);
    m.pairs = double(pairs);
    return m;
}

}  // namespace adjudge
