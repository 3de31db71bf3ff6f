#include "state.hpp"

#include <algorithm>
#include <cmath>

namespace quorate {

using namespace baseline;

namespace {

// Probabilities (IN [k]) as units that sum to one exactly: the largest takes what rounding leaves.
void to_units(const double* p, int k, int64_t* out) {
    int64_t left = Online::ONE;
    int largest = 0;
    for (int c = 0; c < k; ++c) {
        out[c] = int64_t(std::rint(p[c] * double(Online::ONE)));
        left -= out[c];
        if (p[c] > p[largest]) largest = c;
    }
    out[largest] += left;
}

double log_ratio(double part, double whole) { return part > 0.0 ? std::log(part) - std::log(whole) : kNever; }

}  // namespace

Online::Online(std::vector<uint64_t> label_hash, bool hard, double strength)
    : k_(int(label_hash.size())), hard_(hard), strength_(strength), label_hash_(std::move(label_hash)),
      pooled_(size_t(k_) * k_, 0), pooled_total_(k_, 0), class_counts_(k_, 0), log_prior_(k_), scores_(k_),
      share_(k_), start_(k_) {}

void Online::add_task(uint64_t key) {
    votes_.emplace_back();
    key_.push_back(key);
    label_.push_back(-1);
    if (!hard_) posterior_.resize(posterior_.size() + k_, 0);
}

uint32_t Online::add_row(uint32_t worker, uint32_t label) {
    if (workers() <= worker) {
        totals_.resize(size_t(worker + 1) * k_, 0);
        row_of_.resize(size_t(worker + 1) * k_, -1);
    }
    int32_t& row = row_of_[size_t(worker) * k_ + label];
    if (row < 0) {
        row = int32_t(rows());
        row_worker_.push_back(worker);
        row_label_.push_back(label);
        counts_.resize(counts_.size() + k_, 0);
    }
    return uint32_t(row);
}

void Online::share(uint32_t task, int64_t* out) const {
    if (!hard_) {
        std::copy_n(posterior_.data() + size_t(task) * k_, k_, out);
        return;
    }
    std::fill_n(out, k_, 0);
    if (label_[task] >= 0) out[label_[task]] = ONE;
}

void Online::put(uint32_t task, const int64_t* share, int sign) {
    for (int c = 0; c < k_; ++c) {
        const int64_t weight = sign * share[c];
        if (!weight) continue;
        class_counts_[c] += weight;
        for (const uint32_t row : votes_[task]) {
            counts_[size_t(row) * k_ + c] += weight;
            totals_[size_t(row_worker_[row]) * k_ + c] += weight;
            pooled_[size_t(row_label_[row]) * k_ + c] += weight;
            pooled_total_[c] += weight;
        }
    }
    settled_ += sign;
}

void Online::set_share(uint32_t task, const int64_t* share) {
    if (votes_[task].empty()) return;
    put(task, share, 1);
    label_[task] = int32_t(std::max_element(share, share + k_) - share);
    if (!hard_) std::copy_n(share, k_, posterior_.data() + size_t(task) * k_);
}

double Online::mean(uint32_t given, int c) const {
    const int64_t all = pooled_total_[c];
    return all > 0 ? double(pooled_[size_t(given) * k_ + c]) / double(all) : 1.0 / k_;
}

double Online::confusion(uint32_t worker, uint32_t given, int c) const {
    const int32_t row = row_of_[size_t(worker) * k_ + given];
    const double seen = row < 0 ? 0.0 : double(counts_[size_t(row) * k_ + c]) / ONE;
    const double all = double(totals_[size_t(worker) * k_ + c]) / ONE + strength_;
    return all > 0.0 ? (seen + (strength_ > 0.0 ? strength_ * mean(given, c) : 0.0)) / all : 0.0;
}

Pass Online::one_task(uint32_t task) const {
    const std::vector<uint32_t>& mine = votes_[task];
    table_.resize(std::max<size_t>(table_.size(), mine.size() * k_));
    while (places_.size() < mine.size()) places_.push_back(uint32_t(places_.size()));
    const double extra = strength_ * double(ONE);
    for (size_t v = 0; v < mine.size(); ++v) {
        const int64_t* seen = counts_.data() + size_t(mine[v]) * k_;
        const int64_t* all = totals_.data() + size_t(row_worker_[mine[v]]) * k_;
        for (int c = 0; c < k_; ++c) {
            const double more = strength_ > 0.0 ? extra * mean(row_label_[mine[v]], c) : 0.0;
            table_[v * k_ + c] = log_ratio(double(seen[c]) + more, double(all[c]) + extra);
        }
    }
    const double tasks = double(settled_) * double(ONE);
    for (int c = 0; c < k_; ++c)
        log_prior_[c] = settled_ > 0 ? log_ratio(double(class_counts_[c]), tasks) : -std::log(double(k_));
    ends_[1] = int64_t(mine.size());
    Pass p;
    p.task_ptr = ends_;
    p.row = places_.data();
    p.tasks = 1;
    p.rows = int64_t(mine.size());
    p.k = k_;
    p.table = table_.data();
    p.log_prior = log_prior_.data();
    p.task_key = key_.data() + task;
    p.label_hash = label_hash_.data();
    return p;
}

Decision Online::predict(uint32_t task, double* posterior) const {
    const Pass p = one_task(task);
    score_one(p, 0, scores_.data());
    const Decision d = decide(p, 0, scores_.data());
    const double best = *std::max_element(scores_.begin(), scores_.end());
    double total = 0.0;
    for (int c = 0; c < k_; ++c) total += posterior[c] = std::exp(scores_[c] - best);
    for (int c = 0; c < k_; ++c) posterior[c] /= total;
    return d;
}

// The paper's step for a question: majority vote, M-step, E-step for this question, M-step. The M-steps are the counts
// themselves: parameters are read from them when they are needed.
void Online::settle(uint32_t task) {
    const std::vector<uint32_t>& mine = votes_[task];
    if (mine.empty()) {
        label_[task] = -1;
        if (!hard_) std::fill_n(posterior_.data() + size_t(task) * k_, k_, 0);
        return;
    }
    std::vector<double>& ballots = scores_;
    std::fill(ballots.begin(), ballots.end(), 0.0);
    for (const uint32_t row : mine) ballots[row_label_[row]] += 1.0;
    if (hard_) {
        Pass p;
        p.k = k_;
        p.task_key = key_.data() + task;
        p.label_hash = label_hash_.data();
        const int winner = baseline::settle(p, 0, ballots.data(), *std::max_element(ballots.begin(), ballots.end())).label;
        std::fill(start_.begin(), start_.end(), 0);
        start_[winner] = ONE;
    } else {
        for (double& b : ballots) b /= double(mine.size());
        to_units(ballots.data(), k_, start_.data());
    }
    put(task, start_.data(), 1);
    double posterior_room[64];
    std::vector<double> more(k_ > 64 ? k_ : 0);
    double* posterior = k_ > 64 ? more.data() : posterior_room;
    const Decision d = predict(task, posterior);
    put(task, start_.data(), -1);
    label_[task] = d.label;
    if (hard_) {
        std::fill(share_.begin(), share_.end(), 0);
        share_[d.label] = ONE;
    } else {
        to_units(posterior, k_, share_.data());
        std::copy_n(share_.data(), k_, posterior_.data() + size_t(task) * k_);
    }
    put(task, share_.data(), 1);
}

void Online::learn(uint32_t task, uint32_t worker, uint32_t label, bool replace) {
    const uint32_t row = add_row(worker, label);
    if (!votes_[task].empty()) {
        share(task, share_.data());
        put(task, share_.data(), -1);
    }
    std::vector<uint32_t>& mine = votes_[task];
    if (replace)
        mine.erase(std::remove_if(mine.begin(), mine.end(), [&](uint32_t r) { return row_worker_[r] == worker; }), mine.end());
    mine.push_back(row);
    settle(task);
}

int Online::retract(uint32_t task, uint32_t worker) {
    std::vector<uint32_t>& mine = votes_[task];
    const auto theirs = [&](uint32_t r) { return row_worker_[r] == worker; };
    const auto number = std::count_if(mine.begin(), mine.end(), theirs);
    if (!number) return 0;
    share(task, share_.data());
    put(task, share_.data(), -1);
    mine.erase(std::remove_if(mine.begin(), mine.end(), theirs), mine.end());
    settle(task);
    return int(number);
}

}  // namespace quorate
