// Tasks that leave memory and come back, and the order of tasks, which neither changes.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "state.hpp"

namespace adjudge {
namespace {

constexpr int64_t kMost = int64_t(1) << 62;  // units in a base: half the range of a count; the other half is for votes in memory

}  // namespace

// Tasks that came back have the last codes, and are few: only these are sorted.
std::vector<uint32_t> Online::in_order() const {
    std::vector<uint32_t> codes, late;
    codes.reserve(tasks_.size() - gone_);
    uint64_t largest = 0;
    for (uint32_t t = 0; t < tasks_.size(); ++t) {
        if (tasks_[t].gone) continue;
        const bool is_late = number_[t] < largest;
        (is_late ? late : codes).push_back(t);
        if (!is_late) largest = number_[t];
    }
    if (late.empty()) return codes;
    const auto before = [&](uint32_t a, uint32_t b) { return number_[a] != number_[b] ? number_[a] < number_[b] : a < b; };
    std::sort(late.begin(), late.end(), before);
    std::vector<uint32_t> all(codes.size() + late.size());
    std::merge(codes.begin(), codes.end(), late.begin(), late.end(), all.begin(), before);
    return all;
}

void Online::compact() {
    const std::vector<uint32_t> left = in_order();
    std::vector<Task> tasks;
    tasks.reserve(left.size());
    std::vector<uint64_t> number;
    number.reserve(left.size());
    std::vector<int64_t> posterior;
    if (!hard_) posterior.reserve(left.size() * size_t(k_));
    for (const uint32_t t : left) {  // nothing fails from here on
        tasks.push_back(std::move(tasks_[t]));
        number.push_back(number_[t]);
        if (!hard_) posterior.insert(posterior.end(), units(t), units(t) + k_);
    }
    std::swap(tasks_, tasks);
    std::swap(number_, number);
    std::swap(posterior_, posterior);
    gone_ = 0;
    is_in_order_ = true;
}

void Online::shift_base(const Evicted& of, int sign) noexcept {
    if (of.rows.empty()) return;
    Counts& labels = hard_ ? base_ : base_labelled_;
    for (const uint32_t row : of.rows) add(labels, row, of.label, sign * ONE);
    labels.classes[size_t(of.label)] += sign * ONE;
    labels.settled += sign;
    if (hard_) return;
    for (size_t c = 0; c < of.units.size(); ++c) {
        for (const uint32_t row : of.rows) add(base_, row, int(c), sign * of.units[c]);
        base_.classes[c] += sign * of.units[c];
    }
    base_.settled += sign;
}

Evicted Online::evict(uint32_t task) {
    Task& t = tasks_[task];
    Evicted out;
    out.rows.assign(t.votes.begin(), t.votes.end());
    out.label = t.label;
    if (!hard_) out.units.assign(units(task), units(task) + k_);
    out.fitted = t.fitted;
    out.gold = t.gold;
    out.number = number_[task];
    int64_t left = kMost;
    for (const int64_t units : base_.pooled_total) left -= units;
    if (int64_t(out.rows.size()) > left / ONE) throw std::length_error("more votes were evicted than counts can hold");
    base_.resize(k_, rows(), workers());
    if (!hard_) base_labelled_.resize(k_, rows(), workers());
    // Nothing fails from here on.
    shift_base(out, 1);
    Ballots none;
    t.votes = std::move(none);
    if (!hard_) std::fill_n(posterior_.data() + size_t(task) * k_, k_, 0);
    t.label = -1;
    t.fitted = 0;
    t.gold = -1;
    t.gone = true;
    ++gone_;
    ++evicted_;
    return out;
}

void Online::leave_base(const Evicted& back) {
    if (!evicted_) throw std::invalid_argument("no task was evicted");
    if (back.number >= next_number_) throw std::invalid_argument("it has a number that no task had");
    base_.resize(k_, rows(), workers());
    if (!hard_) base_labelled_.resize(k_, rows(), workers());
    shift_base(back, -1);
    const Counts& labels = labelled_base();
    const auto is_negative = [](int64_t units) { return units < 0; };
    bool is_there = base_.settled >= 0 && labels.settled >= 0 &&
                    std::none_of(base_.classes.begin(), base_.classes.end(), is_negative) &&
                    std::none_of(labels.classes.begin(), labels.classes.end(), is_negative);
    for (const uint32_t row : back.rows) {
        for (const Counts* counts : {static_cast<const Counts*>(&base_), &labels}) {
            const int64_t* line = counts->rows.data() + size_t(row) * k_;
            is_there &= std::none_of(line, line + k_, is_negative);
        }
    }
    if (!is_there) shift_base(back, 1);
    if (!is_there) throw std::invalid_argument("its votes are not among those of evicted tasks");
    --evicted_;
}

void Online::expect_back(size_t votes) {
    tasks_.back().votes.reserve(uint32_t(votes));
    scratch_.fit(k_, votes);
}

void Online::bring_back(const Evicted& back) noexcept {
    Task& t = tasks_.back();
    for (const uint32_t row : back.rows) t.votes.push_back(row);
    t.label = back.label;
    t.fitted = back.fitted;
    t.gold = back.gold;
    if (!hard_) std::copy(back.units.begin(), back.units.end(), posterior_.end() - k_);
    number_.back() = back.number;
    --next_number_;
    if (number_.size() > 1 && number_[number_.size() - 2] > back.number) is_in_order_ = false;
}

Counts Online::base_counts(const int64_t* by_row, const int64_t* classes) const {
    Counts out(k_, rows(), workers());
    int64_t left = kMost;
    for (size_t i = 0; i < rows() * size_t(k_); ++i) {
        if (by_row[i] < 0 || by_row[i] > left) throw std::invalid_argument("what evicted tasks add up to is from 0 on");
        left -= by_row[i];
        if (by_row[i]) add(out, uint32_t(i / size_t(k_)), int(i % size_t(k_)), by_row[i]);
    }
    int64_t tasks = 0;
    for (int c = 0; c < k_; ++c) {
        if (classes[c] < 0 || classes[c] > kMost - tasks) throw std::invalid_argument("evicted tasks are counted from 0 on");
        tasks += out.classes[size_t(c)] = classes[c];
    }
    if (tasks % ONE || tasks > kMost - left) throw std::invalid_argument("evicted tasks have at least one vote each");
    out.settled = tasks / ONE;
    return out;
}

void Online::start_base(const int64_t* counts, const int64_t* classes, const int64_t* labelled,
                        const int64_t* labelled_classes, uint64_t evicted) {
    Counts base = base_counts(counts, classes);
    const Counts labels = labelled ? base_counts(labelled, labelled_classes) : Counts(k_);
    if (uint64_t(base.settled) > evicted) throw std::invalid_argument("more tasks were evicted than were evicted");
    if (labelled && labels.settled != base.settled) throw std::invalid_argument("every evicted task has a label");
    const Counts& whole = labelled ? labels : base;
    for (const int64_t units : whole.rows)
        if (units % ONE) throw std::invalid_argument("the labels of evicted tasks are whole");
    for (const int64_t units : whole.classes)
        if (units % ONE) throw std::invalid_argument("the labels of evicted tasks are whole");
    for (size_t r = 0; labelled && r < rows(); ++r) {  // each vote is one, of whichever label its task is
        int64_t more = 0;
        for (size_t c = 0; c < size_t(k_); ++c) more += base.rows[r * k_ + c] - labels.rows[r * k_ + c];
        if (more) throw std::invalid_argument("evicted tasks have as many votes by label as by probability");
    }
    for (size_t g = 0; g < size_t(k_); ++g)
        for (size_t c = 0; c < size_t(k_); ++c) named_[g] += whole.pooled[g * k_ + c] / ONE;
    base_labelled_ = labelled ? labels : hard_ ? Counts(k_) : base;  // `adopt` may make labels of probabilities
    base_ = std::move(base);
    evicted_ = evicted;
}

void Online::start_numbers(const int64_t* numbers, uint64_t next) {
    for (size_t t = 0; t < tasks_.size(); ++t) {
        if (numbers[t] < (t ? numbers[t - 1] : 0)) throw std::invalid_argument("the numbers of tasks never fall");
        if (uint64_t(numbers[t]) >= next) throw std::invalid_argument("a task has a number that comes later");
    }
    for (size_t t = 0; t < tasks_.size(); ++t) number_[t] = uint64_t(numbers[t]);
    next_number_ = next;
}

}  // namespace adjudge
