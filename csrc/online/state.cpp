#include "state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace adjudge {

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

// Lines (IN [n, k]) with one more place at the end of each.
template <class T>
std::vector<T> widened(const std::vector<T>& lines, size_t k, T filler) {
    std::vector<T> out(lines.size() / k * (k + 1), filler);
    for (size_t i = 0; i < lines.size(); ++i) out[i / k * (k + 1) + i % k] = lines[i];
    return out;
}

template <class T>
std::vector<T> longer(const std::vector<T>& line, T last) {
    std::vector<T> out;
    out.reserve(line.size() + 1);
    out = line;
    out.push_back(last);
    return out;
}

double log_ratio(double part, double whole) { return part > 0.0 ? std::log(part / whole) : kNever; }

}  // namespace

void Scratch::fit(int labels, size_t votes) {
    k = labels;
    if (numbers.size() < (4 + votes) * size_t(k)) numbers.resize((4 + votes) * size_t(k));
    places.reserve(votes);
    while (places.size() < votes) places.push_back(uint32_t(places.size()));
}

Counts::Counts(int k, size_t rows, size_t workers)
    : rows(rows * size_t(k), 0), workers(workers * size_t(k), 0), pooled(size_t(k) * size_t(k), 0),
      pooled_total(size_t(k), 0), classes(size_t(k), 0) {}

Counts Counts::widened(int k) const {
    const size_t n = size_t(k);
    Counts out(k + 1);
    out.rows = adjudge::widened(rows, n, int64_t(0));
    out.workers = adjudge::widened(workers, n, int64_t(0));
    const std::vector<int64_t> lines = adjudge::widened(pooled, n, int64_t(0));
    std::copy(lines.begin(), lines.end(), out.pooled.begin());
    std::copy(pooled_total.begin(), pooled_total.end(), out.pooled_total.begin());
    std::copy(classes.begin(), classes.end(), out.classes.begin());
    out.settled = settled;
    return out;
}

void Counts::resize(int k, size_t n_rows, size_t n_workers) {
    rows.resize(n_rows * size_t(k), 0);
    workers.resize(n_workers * size_t(k), 0);
}

Online::Online(std::vector<uint64_t> label_hash, bool hard, double strength)
    : k_(int(label_hash.size())), hard_(hard), strength_(strength), label_hash_(std::move(label_hash)), counts_(k_),
      labelled_(k_), base_(k_), base_labelled_(k_), named_(size_t(k_), 0), start_(size_t(k_)) {
    if (!k_) throw std::invalid_argument("a stream has at least one label");
}

void Online::add_task(uint64_t key, int gold) {
    Task task;
    task.key = key;
    task.gold = gold;
    number_.push_back(next_number_);
    tasks_.push_back(std::move(task));
    if (!hard_) posterior_.resize(tasks_.size() * size_t(k_), 0);
    ++next_number_;
}

uint32_t Online::add_row(uint32_t worker, uint32_t label) {
    if (workers() <= worker) {
        row_of_.resize((size_t(worker) + 1) * k_, -1);
        if (!hard_) labelled_.workers.resize((size_t(worker) + 1) * k_, 0);
        counts_.workers.resize((size_t(worker) + 1) * k_, 0);
    }
    int32_t& row = row_of_[size_t(worker) * k_ + label];
    if (row < 0) {
        if (rows() >= size_t(std::numeric_limits<int32_t>::max())) throw std::length_error("too many (worker, label) pairs");
        counts_.rows.resize((rows() + 1) * k_, 0);
        if (!hard_) labelled_.rows.resize((rows() + 1) * k_, 0);
        row_label_.push_back(label);
        row_worker_.push_back(worker);
        row = int32_t(rows() - 1);
    }
    return uint32_t(row);
}

void Online::expect(uint32_t task) {
    Task& t = tasks_[task];
    const uint32_t votes = t.votes.size() + t.coming + 1;
    t.votes.reserve(votes);
    if (scratch_.places.size() < votes) scratch_.fit(k_, std::max<size_t>(votes, 2 * scratch_.places.size()));
    ++t.coming;
}

void Online::rewind(const Mark& mark) noexcept {  // all become smaller: nothing allocates
    while (tasks_.size() > mark.tasks) tasks_.pop_back();
    number_.resize(mark.tasks);
    next_number_ = mark.number;
    if (!hard_) posterior_.resize(mark.tasks * size_t(k_));
    for (size_t r = mark.rows; r < rows(); ++r) row_of_[size_t(row_worker_[r]) * k_ + row_label_[r]] = -1;
    row_worker_.resize(mark.rows);
    row_label_.resize(mark.rows);
    counts_.rows.resize(mark.rows * size_t(k_));
    row_of_.resize(mark.workers * size_t(k_));
    counts_.workers.resize(mark.workers * size_t(k_));
    if (hard_) return;
    labelled_.rows.resize(mark.rows * size_t(k_));
    labelled_.workers.resize(mark.workers * size_t(k_));
}

void Online::add(Counts& to, uint32_t row, int c, int64_t weight) const {
    to.rows[size_t(row) * k_ + c] += weight;
    to.workers[size_t(row_worker_[row]) * k_ + c] += weight;
    to.pooled[size_t(row_label_[row]) * k_ + c] += weight;
    to.pooled_total[c] += weight;
}

void Online::shift(Counts& to, uint32_t task, const int64_t* units) const {
    const Ballots& mine = tasks_[task].votes;
    for (int c = 0; c < k_; ++c) {
        to.classes[c] += units[c];
        to.pooled_total[c] += units[c] * int64_t(mine.size());
    }
    for (const uint32_t row : mine) {
        int64_t* __restrict by_row = to.rows.data() + size_t(row) * k_;
        int64_t* __restrict by_worker = to.workers.data() + size_t(row_worker_[row]) * k_;
        int64_t* __restrict by_label = to.pooled.data() + size_t(row_label_[row]) * k_;
        for (int c = 0; c < k_; ++c) {
            by_row[c] += units[c];
            by_worker[c] += units[c];
            by_label[c] += units[c];
        }
    }
}

void Online::relabel(uint32_t task, int label) {
    int32_t& now = tasks_[task].label;
    if (now == label) return;
    Counts& to = labelled();
    for (const uint32_t row : tasks_[task].votes) {
        if (now >= 0) add(to, row, now, -ONE);
        if (label >= 0) add(to, row, label, ONE);
    }
    if (now >= 0) to.classes[now] -= ONE;
    if (label >= 0) to.classes[label] += ONE;
    to.settled += (label >= 0) - (now >= 0);
    now = label;
}

void Online::adopt(const uint32_t* place, const int64_t* task_ptr, const uint32_t* row, Shares shares, bool hard) {
    if (hard_ && !hard && evicted_) throw std::invalid_argument("tasks that were evicted have labels, and no probabilities");
    Counts base = hard && !hard_ ? base_labelled_ : base_, base_labelled = hard ? Counts(k_) : base_labelled_;
    Counts counts = base, labelled = base_labelled;
    counts.resize(k_, rows(), workers());
    if (!hard) labelled.resize(k_, rows(), workers());
    std::vector<int32_t> labels(this->tasks(), -1);
    std::vector<int64_t> posterior(hard ? 0 : this->tasks() * size_t(k_), 0);
    std::vector<uint32_t> changed;
    size_t longest = 0;
    for (const uint32_t t : in_order()) {
        const Ballots& mine = tasks_[t].votes;
        longest = std::max<size_t>(longest, mine.size());
        const size_t at = place[t];
        const int32_t gold = tasks_[t].gold;
        if (at == NONE || !std::equal(mine.begin(), mine.end(), row + task_ptr[at], row + task_ptr[at + 1]) ||
            (shares.gold && shares.gold[at] != gold) || (gold >= 0 && !mine.empty() && shares.winners[at] != gold)) {
            changed.push_back(t);
        } else if (mine.empty()) {
            continue;
        } else {
            Counts& to = hard ? counts : labelled;
            labels[t] = shares.winners[at];
            for (const uint32_t r : mine) add(to, r, labels[t], ONE);
            to.classes[labels[t]] += ONE;
            ++to.settled;
            if (hard) continue;
            int64_t* const units = posterior.data() + size_t(t) * k_;
            std::copy_n(shares.units + at * shares.width, shares.width, units);
            shift(counts, t, units);
            ++counts.settled;
        }
    }
    scratch_.fit(k_, longest);
    // Nothing fails from here on.
    std::swap(counts_, counts);
    std::swap(labelled_, labelled);
    std::swap(base_, base);
    std::swap(base_labelled_, base_labelled);
    std::swap(posterior_, posterior);
    hard_ = hard;
    changes_ += kFit;
    for (uint32_t t = 0; t < this->tasks(); ++t) {
        tasks_[t].label = labels[t];
        tasks_[t].fitted = shares.fitted && labels[t] >= 0 ? shares.fitted[place[t]] : 0;
    }
    for (const uint32_t t : changed) settle(t);
}

double Online::mean(uint32_t given, int c) const {
    const int64_t all = counts_.pooled_total[c];
    return all > 0 ? double(counts_.pooled[size_t(given) * k_ + c]) / double(all) : 1.0 / k_;
}

double Online::confusion(uint32_t worker, uint32_t given, int c) const {
    const int32_t row = row_of_[size_t(worker) * k_ + given];
    const double seen = row < 0 ? 0.0 : double(counts_.rows[size_t(row) * k_ + c]) / ONE;
    const double all = double(counts_.workers[size_t(worker) * k_ + c]) / ONE + strength_;
    return all > 0.0 ? (seen + (strength_ > 0.0 ? strength_ * mean(given, c) : 0.0)) / all : 0.0;
}

// The table has a line per vote; or, `together`, a line for every few votes, whose probabilities are multiplied before
// the logarithm is taken. That is faster, but loses the number of votes that a label makes impossible.
// kernels/online_reference.py does the same operations in the same order: both have the same bits.
Pass Online::one_task(uint32_t task, bool together, Scratch& scratch) const {
    const Ballots& mine = tasks_[task].votes;
    const size_t each = together ? TOGETHER : 1, lines = (mine.size() + each - 1) / each;
    const double extra = strength_ * double(ONE);
    double* const lent = scratch.lent();
    for (int c = 0; c < k_; ++c) {
        const int64_t all = counts_.pooled_total[c];
        lent[c] = all > 0 ? extra / double(all) : -1.0;
    }
    for (size_t line = 0; line < lines; ++line) {
        double* product = scratch.table() + line * k_;
        std::fill_n(product, k_, 1.0);
        for (size_t v = line * each; v < std::min<size_t>(mine.size(), (line + 1) * each); ++v) {
            const uint32_t row = mine[v];
            const int64_t* seen = counts_.rows.data() + size_t(row) * k_;
            const int64_t* all = counts_.workers.data() + size_t(row_worker_[row]) * k_;
            const int64_t* mean = counts_.pooled.data() + size_t(row_label_[row]) * k_;
            for (int c = 0; c < k_; ++c) {
                const double more = lent[c] < 0.0 ? extra / k_ : lent[c] * double(mean[c]);
                const double part = double(seen[c]) + more;
                product[c] *= part > 0.0 ? part / (double(all[c]) + extra) : 0.0;
            }
        }
        for (int c = 0; c < k_; ++c) product[c] = product[c] > 0.0 ? std::log(product[c]) : kNever;
    }
    const double tasks = double(counts_.settled) * double(ONE);
    for (int c = 0; c < k_; ++c)
        scratch.log_prior()[c] =
            counts_.settled > 0 ? log_ratio(double(counts_.classes[c]), tasks) : -std::log(double(k_));
    scratch.ends[1] = int64_t(lines);
    Pass p;
    p.task_ptr = scratch.ends;
    p.row = scratch.places.data();
    p.tasks = 1;
    p.rows = int64_t(lines);
    p.k = k_;
    p.table = scratch.table();
    p.log_prior = scratch.log_prior();
    p.task_key.ready = &tasks_[task].key;
    p.label_hash = label_hash_.data();
    return p;
}

Decision Online::predict(uint32_t task, Scratch& scratch, double* posterior) const {
    scratch.fit(k_, tasks_[task].votes.size());
    double* const scores = scratch.scores();
    Pass p = one_task(task, true, scratch);
    score_one(p, 0, scores);
    if (std::all_of(scores, scores + k_, [](double s) { return s == kNever; })) p = one_task(task, false, scratch);
    const Decision d = decide(p, 0, scores);
    const double best = *std::max_element(scores, scores + k_);
    double total = 0.0;
    for (int c = 0; c < k_; ++c) total += posterior[c] = std::exp(scores[c] - best);
    for (int c = 0; c < k_; ++c) posterior[c] /= total;
    return d;
}

void Online::settle(uint32_t task) {
    tasks_[task].fitted = 0;
    is_found_ = false;
    if (hard_) settle_hard(task);
    else settle_soft(task);
}

// The paper's step for a question: majority vote, M-step, E-step for this question, M-step. The M-steps are the counts
// themselves: parameters are read from them when they are needed. Labels are moved, not taken out and put in again:
// most votes leave majority, old label and new label the same, and then the counts of the other votes need no touch.
void Online::settle_hard(uint32_t task) {
    const Ballots& mine = tasks_[task].votes;
    if (mine.empty()) return relabel(task, -1);
    if (tasks_[task].gold >= 0) return relabel(task, tasks_[task].gold);
    double* const ballots = scratch_.scores();
    std::fill_n(ballots, k_, 0.0);
    for (const uint32_t row : mine) ballots[row_label_[row]] += 1.0;
    Pass p;
    p.k = k_;
    p.task_key.ready = &tasks_[task].key;
    p.label_hash = label_hash_.data();
    const int majority = baseline::settle(p, 0, ballots, *std::max_element(ballots, ballots + k_)).label;
    relabel(task, majority);
    found_ = predict(task, scratch_, scratch_.posterior());
    relabel(task, found_.label);
    is_found_ = found_.label == majority;
}

void Online::settle_soft(uint32_t task) {
    const Ballots& mine = tasks_[task].votes;
    int64_t* kept = posterior_.data() + size_t(task) * k_;
    std::fill_n(kept, k_, 0);
    if (mine.empty()) return relabel(task, -1);
    if (const int gold = tasks_[task].gold; gold >= 0) {
        kept[gold] = ONE;
        shift(counts_, task, kept);
        ++counts_.settled;
        return relabel(task, gold);
    }
    double* const ballots = scratch_.scores();
    std::fill_n(ballots, k_, 0.0);
    for (const uint32_t row : mine) ballots[row_label_[row]] += 1.0;
    for (int c = 0; c < k_; ++c) ballots[c] /= double(mine.size());
    to_units(ballots, k_, start_.data());
    shift(counts_, task, start_.data());
    ++counts_.settled;
    const Decision d = predict(task, scratch_, scratch_.posterior());
    to_units(scratch_.posterior(), k_, kept);
    for (int c = 0; c < k_; ++c) start_[c] = kept[c] - start_[c];
    shift(counts_, task, start_.data());
    relabel(task, d.label);
}

void Online::learn(uint32_t task, uint32_t row, bool replace) noexcept {
    Task& t = tasks_[task];
    --t.coming;
    take_out(task, row_worker_[row], replace);
    t.votes.push_back(row);
    ++named_[row_label_[row]];
    ++changes_;
    if (t.label >= 0) add(labelled(), row, t.label, ONE);
    settle(task);
}

bool Online::settles_next(uint32_t task) const {
    const uint32_t votes = tasks_[task].votes.size();
    if (votes < kManyVotes) return true;
    uint64_t every = 1;
    while (every * 2 * kLooksPerDoubling <= votes) every *= 2;
    return baseline::mix(changes_) % every == 0;
}

void Online::learn_lightly(uint32_t task, uint32_t row, bool replace) noexcept {
    Task& t = tasks_[task];
    --t.coming;
    is_found_ = false;
    if (replace)
        t.votes.remove_if([&](uint32_t earlier) {
            if (row_worker_[earlier] != row_worker_[row]) return false;
            --named_[row_label_[earlier]];
            add_share(task, earlier, -1);
            return true;
        });
    t.votes.push_back(row);
    ++named_[row_label_[row]];
    ++changes_;
    add_share(task, row, 1);
}

void Online::add_share(uint32_t task, uint32_t row, int sign) {
    add(labelled(), row, tasks_[task].label, sign * ONE);
    if (hard_) return;
    const int64_t* share = posterior_.data() + size_t(task) * k_;
    for (int c = 0; c < k_; ++c) add(counts_, row, c, sign * share[c]);
}

int Online::retract(uint32_t task, uint32_t worker) {
    const Ballots& mine = tasks_[task].votes;
    const auto number = std::count_if(mine.begin(), mine.end(), [&](uint32_t r) { return row_worker_[r] == worker; });
    if (!number) return 0;
    scratch_.fit(k_, mine.size());
    take_out(task, worker, true);
    settle(task);
    changes_ += uint64_t(number);
    return int(number);
}

void Online::set_gold(uint32_t task, int gold) {
    Task& t = tasks_[task];
    scratch_.fit(k_, t.votes.size());
    take_out(task, 0, false);
    t.gold = gold;
    settle(task);
    changes_ += t.votes.size();
}

void Online::add_label(uint64_t hash) {
    const size_t k = size_t(k_);
    std::vector<uint64_t> label_hash = longer(label_hash_, hash);
    std::vector<int64_t> named = longer(named_, int64_t(0)), start(k + 1);
    Counts counts = counts_.widened(k_), labelled = labelled_.widened(k_);
    Counts base = base_.widened(k_), base_labelled = base_labelled_.widened(k_);
    std::vector<int64_t> posterior = widened(posterior_, k, int64_t(0));
    std::vector<int32_t> row_of = widened(row_of_, k, int32_t(-1));
    Measured measured = measured_;  // nobody has given the label: it was not part of the measurement
    if (measured.votes >= 0) {
        measured.lent = widened(measured_.lent, k, 0.0);
        measured.lent.resize((k + 1) * (k + 1), 0.0);
        measured.log_prior = longer(measured_.log_prior, kNever);
        measured.uniform = longer(measured_.uniform, 0.0);
    }
    scratch_.fit(k_ + 1, scratch_.places.size());
    // Nothing fails from here on.
    ++k_;
    std::swap(label_hash_, label_hash);
    std::swap(named_, named);
    std::swap(start_, start);
    std::swap(counts_, counts);
    std::swap(labelled_, labelled);
    std::swap(base_, base);
    std::swap(base_labelled_, base_labelled);
    std::swap(posterior_, posterior);
    std::swap(row_of_, row_of);
    std::swap(measured_, measured);
}

int Online::forget(uint32_t task) noexcept {
    Task& t = tasks_[task];
    const uint32_t number = t.votes.size();
    take_out(task, 0, false);
    relabel(task, -1);
    for (const uint32_t row : t.votes) --named_[row_label_[row]];
    Ballots none;
    t.votes = std::move(none);
    if (!hard_) std::fill_n(posterior_.data() + size_t(task) * k_, k_, 0);
    t.fitted = 0;
    t.gold = -1;
    t.gone = true;
    ++gone_;
    changes_ += number;
    return int(number);
}

// Before a change: soft shares leave the counts; so do, where asked, the votes of a worker.
void Online::take_out(uint32_t task, uint32_t worker, bool theirs) {
    Ballots& mine = tasks_[task].votes;
    if (!hard_ && !mine.empty()) {
        const int64_t* share = posterior_.data() + size_t(task) * k_;
        for (int c = 0; c < k_; ++c) start_[c] = -share[c];
        shift(counts_, task, start_.data());
        --counts_.settled;
    }
    if (!theirs) return;
    const int32_t now = tasks_[task].label;
    mine.remove_if([&](uint32_t row) {
        if (row_worker_[row] != worker) return false;
        --named_[row_label_[row]];
        if (now >= 0) add(labelled(), row, now, -ONE);
        return true;
    });
}

}  // namespace adjudge
