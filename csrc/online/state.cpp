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

double log_ratio(double part, double whole) { return part > 0.0 ? std::log(part / whole) : kNever; }

}  // namespace

Online::Online(std::vector<uint64_t> label_hash, bool hard, double strength)
    : k_(int(label_hash.size())), hard_(hard), strength_(strength), label_hash_(std::move(label_hash)),
      pooled_(size_t(k_) * k_, 0), pooled_total_(k_, 0), class_counts_(k_, 0), log_prior_(k_), scores_(k_), lent_(k_),
      posterior_room_(k_), start_(k_) {}

void Online::add_task(uint64_t key) {
    tasks_.push_back({{}, key, -1});
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
    if (tasks_[task].label >= 0) out[tasks_[task].label] = ONE;
}

void Online::add(uint32_t row, int c, int64_t weight) {
    counts_[size_t(row) * k_ + c] += weight;
    totals_[size_t(row_worker_[row]) * k_ + c] += weight;
    pooled_[size_t(row_label_[row]) * k_ + c] += weight;
    pooled_total_[c] += weight;
}

void Online::put(uint32_t task, const int64_t* share, int sign) {
    for (int c = 0; c < k_; ++c) {
        const int64_t weight = sign * share[c];
        if (!weight) continue;
        class_counts_[c] += weight;
        for (const uint32_t row : tasks_[task].votes) add(row, c, weight);
    }
    settled_ += sign;
}

void Online::relabel(uint32_t task, int label) {
    int32_t& now = tasks_[task].label;
    if (now == label) return;
    for (const uint32_t row : tasks_[task].votes) {
        if (now >= 0) add(row, now, -ONE);
        if (label >= 0) add(row, label, ONE);
    }
    if (now >= 0) class_counts_[now] -= ONE;
    if (label >= 0) class_counts_[label] += ONE;
    settled_ += (label >= 0) - (now >= 0);
    now = label;
}

void Online::set_share(uint32_t task, const int64_t* share) {
    if (tasks_[task].votes.empty()) return;
    put(task, share, 1);
    tasks_[task].label = int32_t(std::max_element(share, share + k_) - share);
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

// The table has a line per vote; or, `together`, a line for every few votes, whose probabilities are multiplied before
// the logarithm is taken. That is quicker, but no longer tells how many votes a label makes impossible.
Pass Online::one_task(uint32_t task, bool together) const {
    const Ballots& mine = tasks_[task].votes;
    const size_t each = together ? TOGETHER : 1, lines = (mine.size() + each - 1) / each;
    table_.resize(std::max(table_.size(), lines * k_));
    while (places_.size() < lines) places_.push_back(uint32_t(places_.size()));
    const double extra = strength_ * double(ONE);
    for (int c = 0; c < k_; ++c) lent_[c] = pooled_total_[c] > 0 ? extra / double(pooled_total_[c]) : -1.0;
    for (size_t line = 0; line < lines; ++line) {
        double* product = table_.data() + line * k_;
        std::fill_n(product, k_, 1.0);
        for (size_t v = line * each; v < std::min<size_t>(mine.size(), (line + 1) * each); ++v) {
            const uint32_t row = mine[v];
            const int64_t* seen = counts_.data() + size_t(row) * k_;
            const int64_t* all = totals_.data() + size_t(row_worker_[row]) * k_;
            const int64_t* mean = pooled_.data() + size_t(row_label_[row]) * k_;
            for (int c = 0; c < k_; ++c) {
                const double more = lent_[c] < 0.0 ? extra / k_ : lent_[c] * double(mean[c]);
                const double part = double(seen[c]) + more;
                product[c] *= part > 0.0 ? part / (double(all[c]) + extra) : 0.0;
            }
        }
        for (int c = 0; c < k_; ++c) product[c] = product[c] > 0.0 ? std::log(product[c]) : kNever;
    }
    const double tasks = double(settled_) * double(ONE);
    for (int c = 0; c < k_; ++c)
        log_prior_[c] = settled_ > 0 ? log_ratio(double(class_counts_[c]), tasks) : -std::log(double(k_));
    ends_[1] = int64_t(lines);
    Pass p;
    p.task_ptr = ends_;
    p.row = places_.data();
    p.tasks = 1;
    p.rows = int64_t(lines);
    p.k = k_;
    p.table = table_.data();
    p.log_prior = log_prior_.data();
    p.task_key = &tasks_[task].key;
    p.label_hash = label_hash_.data();
    return p;
}

Decision Online::predict(uint32_t task, double* posterior) const {
    Pass p = one_task(task, true);
    score_one(p, 0, scores_.data());
    if (std::all_of(scores_.begin(), scores_.end(), [](double s) { return s == kNever; })) p = one_task(task, false);
    const Decision d = decide(p, 0, scores_.data());
    const double best = *std::max_element(scores_.begin(), scores_.end());
    double total = 0.0;
    for (int c = 0; c < k_; ++c) total += posterior[c] = std::exp(scores_[c] - best);
    for (int c = 0; c < k_; ++c) posterior[c] /= total;
    return d;
}

// The paper's step for a question: majority vote, M-step, E-step for this question, M-step. The M-steps are the counts
// themselves: parameters are read from them when they are needed. Labels are moved, not taken out and put in again:
// most votes leave majority, old label and new label the same, and then the counts of the other votes need no touch.
void Online::settle_hard(uint32_t task) {
    const Ballots& mine = tasks_[task].votes;
    if (mine.empty()) return relabel(task, -1);
    std::fill(scores_.begin(), scores_.end(), 0.0);
    for (const uint32_t row : mine) scores_[row_label_[row]] += 1.0;
    Pass p;
    p.k = k_;
    p.task_key = &tasks_[task].key;
    p.label_hash = label_hash_.data();
    relabel(task, settle(p, 0, scores_.data(), *std::max_element(scores_.begin(), scores_.end())).label);
    relabel(task, predict(task, posterior_room_.data()).label);
}

void Online::settle_soft(uint32_t task) {
    const Ballots& mine = tasks_[task].votes;
    int64_t* kept = posterior_.data() + size_t(task) * k_;
    tasks_[task].label = -1;
    std::fill_n(kept, k_, 0);
    if (mine.empty()) return;
    std::fill(scores_.begin(), scores_.end(), 0.0);
    for (const uint32_t row : mine) scores_[row_label_[row]] += 1.0;
    for (double& ballots : scores_) ballots /= double(mine.size());
    to_units(scores_.data(), k_, start_.data());
    put(task, start_.data(), 1);
    const Decision d = predict(task, posterior_room_.data());
    put(task, start_.data(), -1);
    to_units(posterior_room_.data(), k_, kept);
    tasks_[task].label = d.label;
    put(task, kept, 1);
}

void Online::learn(uint32_t task, uint32_t worker, uint32_t label, bool replace) {
    const uint32_t row = add_row(worker, label);
    take_out(task, worker, replace);
    tasks_[task].votes.push_back(row);
    if (!hard_) return settle_soft(task);
    if (tasks_[task].label >= 0) add(row, tasks_[task].label, ONE);
    settle_hard(task);
}

int Online::retract(uint32_t task, uint32_t worker) {
    const Ballots& mine = tasks_[task].votes;
    const auto number = std::count_if(mine.begin(), mine.end(), [&](uint32_t r) { return row_worker_[r] == worker; });
    if (!number) return 0;
    take_out(task, worker, true);
    if (hard_) settle_hard(task);
    else settle_soft(task);
    return int(number);
}

// Before a change: soft shares leave the counts; so do, where asked, the votes of a worker.
void Online::take_out(uint32_t task, uint32_t worker, bool theirs) {
    Ballots& mine = tasks_[task].votes;
    if (!hard_ && !mine.empty()) put(task, posterior_.data() + size_t(task) * k_, -1);
    if (!theirs) return;
    const int32_t now = tasks_[task].label;
    mine.remove_if([&](uint32_t row) {
        const bool out = row_worker_[row] == worker;
        if (out && hard_ && now >= 0) add(row, now, -ONE);
        return out;
    });
}

}  // namespace quorate
