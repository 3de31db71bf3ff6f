// Python binding of the kernels: checks shapes, releases the GIL, passes raw pointers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "../bind_common.hpp"
#include "bind_wide.hpp"
#include "confusion.hpp"
#include "count_labels.hpp"
#include "drive.hpp"
#include "glad.hpp"
#include "grades.hpp"
#include "hash.hpp"
#include "honest.hpp"
#include "majority.hpp"
#include "units.hpp"
#include "votes.hpp"

namespace nb = nanobind;
using namespace adjudge;

namespace {

template <class T, int D>
using Maybe = std::optional<Out<T, D>>;
using Scalars = std::tuple<double, double, int64_t, int64_t, int64_t>;
// Ids of tasks, which are hashed where tasks tie: whole numbers, or where texts begin and their bytes; and the seed.
using TaskIds = std::tuple<In<int64_t, 1>, std::optional<In<uint8_t, 1>>, uint64_t>;
using TaskKeys = std::variant<In<uint64_t, 1>, TaskIds>;  // ready, or ids

void need(bool fits, const char* name) {
    if (fits) return;
    throw nb::value_error((std::string(name) + " does not have the shape that the other arrays ask for").c_str());
}

void need_rising(const int64_t* at, size_t n, const char* name) {
    if (!rises(at, n)) throw nb::value_error((std::string(name) + " falls: each place is at least the one before").c_str());
}

template <class Array>
auto pointer(const std::optional<Array>& array, size_t size, const char* name) -> decltype(array->data()) {
    if (!array) return nullptr;
    need(array->size() == size, name);
    return array->data();
}

TieKeys tie_keys_of(const TaskKeys& given, size_t tasks) {
    TieKeys keys;
    if (const auto* ready = std::get_if<In<uint64_t, 1>>(&given)) {
        need(ready->size() == tasks, "task_key");
        keys.ready = ready->data();
        return keys;
    }
    const auto& [ids, texts, seed] = std::get<TaskIds>(given);
    need(ids.size() == tasks + (texts ? 1 : 0), "task_key");
    keys.salt = salt_of(seed);
    if (!texts) {
        keys.numbers = ids.data();
        return keys;
    }
    keys.offsets = ids.data();
    keys.texts = texts->data();
    keys.bytes = int64_t(texts->size());
    return keys;
}

// What all passes have in common.
Pass pass_over(const In<int64_t, 1>& task_ptr, const In<uint32_t, 1>& row, size_t rows,
               const TaskKeys& task_key, const In<uint64_t, 1>& label_hash,
               const Out<int32_t, 1>& labels, const Maybe<double, 1>& confidence, const Maybe<bool, 1>& tie,
               const Maybe<double, 2>& posterior) {
    need(task_ptr.size() >= 1, "task_ptr");
    Pass p;
    const size_t tasks = task_ptr.size() - 1, k = label_hash.size();
    need(task_ptr.data()[0] >= 0 && task_ptr.data()[tasks] <= int64_t(row.size()), "row");
    need(labels.size() == tasks, "labels");
    p.task_ptr = task_ptr.data();
    p.row = row.data();
    p.tasks = int64_t(tasks);
    p.rows = int64_t(rows);
    p.k = int(k);
    p.task_key = tie_keys_of(task_key, tasks);
    p.label_hash = label_hash.data();
    p.labels = labels.data();
    p.confidence = pointer(confidence, tasks, "confidence");
    p.tie = pointer(tie, tasks, "tie");
    p.posterior = pointer(posterior, tasks * k, "posterior");
    return p;
}

void with_model(Pass& p, const In<double, 2>& table, const In<double, 1>& log_prior, bool by_prior) {
    need(table.shape(1) == size_t(p.k), "table");
    need(log_prior.size() == size_t(p.k), "log_prior");
    p.table = table.data();
    p.log_prior = log_prior.data();
    p.favour = by_prior ? p.log_prior : nullptr;
}

// How soft shares are counted; see units.hpp.
void with_units(Pass& p, double unit, const Maybe<double, 2>& rest) {
    need(unit >= 0x1p-40 && unit <= 0x1p-16 && std::ldexp(1.0, std::ilogb(unit)) == unit, "unit");
    p.units = Units(unit);
    p.rest = pointer(rest, size_t(p.rows) * size_t(p.k), "rest");
}

Scalars scalars(const Sums& s) {
    return {s.log_likelihood, s.classification, s.changed, s.impossible, s.second_looks};
}

Scalars py_hard_pass(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<double, 2> table,
                     In<double, 1> log_prior, TaskKeys task_key, In<uint64_t, 1> label_hash,
                     bool by_prior, Out<int32_t, 1> labels, Maybe<double, 1> confidence, Maybe<bool, 1> tie,
                     Maybe<double, 2> posterior, Maybe<int64_t, 2> counts, Maybe<int64_t, 1> class_counts,
                     bool delta, bool likelihood, bool with_classification, int threads) {
    Pass p = pass_over(task_ptr, row, table.shape(0), task_key, label_hash, labels, confidence, tie, posterior);
    with_model(p, table, log_prior, by_prior);
    int64_t* cells = pointer(counts, table.size(), "counts");
    int64_t* classes = pointer(class_counts, size_t(p.k), "class_counts");
    need(!cells == !classes, "class_counts");
    p.recount = !cells ? Pass::Recount::none : delta ? Pass::Recount::delta : Pass::Recount::hard;
    p.likelihood = likelihood;
    if (p.tasks == 0 || p.k == 0) return scalars({});
    nb::gil_scoped_release release;
    return scalars(hard_pass(p, cells, classes, with_classification, threads));
}

// The table is the mean of its parts.
Scalars py_wide_pass(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, size_t rows, std::vector<WideArrays> table,
                     In<double, 1> log_prior, TaskKeys task_key, In<uint64_t, 1> label_hash, bool by_prior,
                     Out<int32_t, 1> labels, Maybe<double, 1> confidence, Maybe<bool, 1> tie, Maybe<double, 2> posterior,
                     Maybe<int64_t, 1> right, bool likelihood, int threads) {
    Pass p = pass_over(task_ptr, row, rows, task_key, label_hash, labels, confidence, tie, posterior);
    need(!table.empty(), "table");
    need(log_prior.size() == size_t(p.k), "log_prior");
    std::vector<Wide> parts;
    for (const WideArrays& part : table) parts.push_back(wide_of(part, rows, size_t(p.k)));
    p.log_prior = log_prior.data();
    p.favour = by_prior ? p.log_prior : nullptr;
    p.likelihood = likelihood;
    int64_t* sums = pointer(right, rows, "right");
    if (p.tasks == 0 || p.k == 0) return scalars({});
    nb::gil_scoped_release release;
    return scalars(wide_pass(p, parts.data(), int(parts.size()), sums, threads));
}

Scalars py_soft_pass(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<double, 2> table,
                     In<double, 1> log_prior, TaskKeys task_key, In<uint64_t, 1> label_hash,
                     bool by_prior, Out<int32_t, 1> labels, Maybe<double, 1> confidence, Maybe<bool, 1> tie,
                     Maybe<double, 2> posterior, Maybe<double, 2> counts, Maybe<double, 1> class_counts, double unit,
                     Maybe<double, 2> rest, Maybe<double, 1> class_rest, int threads) {
    Pass p = pass_over(task_ptr, row, table.shape(0), task_key, label_hash, labels, confidence, tie, posterior);
    with_model(p, table, log_prior, by_prior);
    double* cells = pointer(counts, table.size(), "counts");
    double* classes = pointer(class_counts, size_t(p.k), "class_counts");
    need(!cells == !classes, "class_counts");
    with_units(p, unit, rest);
    double* left = pointer(class_rest, size_t(p.k), "class_rest");
    need(cells || (!p.rest && !left), "rest");
    if (p.tasks == 0 || p.k == 0) return scalars({});
    nb::gil_scoped_release release;
    return scalars(soft_pass(p, cells, classes, left ? left : classes, threads));
}

// Counts are int64 for hard, float64 for soft.
template <class Cell>
void py_majority(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<int32_t, 1> row_label,
                 TaskKeys task_key, In<uint64_t, 1> label_hash, std::optional<In<double, 1>> favour,
                 std::optional<In<double, 1>> row_weight, Out<int32_t, 1> labels, Maybe<double, 1> confidence,
                 Maybe<bool, 1> tie, Maybe<double, 2> posterior, Maybe<Cell, 2> counts, Maybe<Cell, 1> class_counts,
                 double unit, Maybe<double, 2> rest, Maybe<double, 1> class_rest, int threads) {
    Pass p = pass_over(task_ptr, row, row_label.size(), task_key, label_hash, labels, confidence, tie, posterior);
    Cell* cells = pointer(counts, row_label.size() * size_t(p.k), "counts");
    Cell* classes = pointer(class_counts, size_t(p.k), "class_counts");
    need(!cells == !classes, "class_counts");
    with_units(p, unit, rest);
    double* left = pointer(class_rest, size_t(p.k), "class_rest");
    need((cells && std::is_same_v<Cell, double>) || (!p.rest && !left), "rest");
    if (favour) {
        need(favour->size() == size_t(p.k), "favour");
        p.favour = favour->data();
    }
    const double* weights = pointer(row_weight, row_label.size(), "row_weight");
    if (p.tasks == 0 || p.k == 0) return;
    nb::gil_scoped_release release;
    if constexpr (std::is_same_v<Cell, double>)
        majority(p, row_label.data(), weights, nullptr, nullptr, cells, classes, left ? left : classes, threads);
    else
        majority(p, row_label.data(), weights, cells, classes, nullptr, nullptr, nullptr, threads);
}

void py_count_labels(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<int32_t, 1> labels, Out<int64_t, 2> counts,
                     Out<int64_t, 1> class_counts, int threads) {
    need(task_ptr.size() >= 1, "task_ptr");
    const size_t tasks = task_ptr.size() - 1, k = class_counts.size();
    need(task_ptr.data()[0] >= 0 && task_ptr.data()[tasks] <= int64_t(row.size()), "row");
    need(labels.size() == tasks, "labels");
    need(counts.shape(1) == k, "counts");
    for (size_t t = 0; t < tasks; ++t) need(labels.data()[t] >= 0 && size_t(labels.data()[t]) < k, "labels");
    if (tasks == 0) return;
    Pass p;
    p.task_ptr = task_ptr.data();
    p.row = row.data();
    p.tasks = int64_t(tasks);
    p.rows = int64_t(counts.shape(0));
    p.k = int(k);
    p.labels = const_cast<int32_t*>(labels.data());  // read only: nothing decides here
    nb::gil_scoped_release release;
    count_labels(p, counts.data(), class_counts.data(), threads);
}

template <class Count>
void py_confusion_table(In<Count, 2> counts, In<int64_t, 1> worker_ptr, double smoothing, Out<double, 2> table,
                        Out<double, 2> totals, int threads) {
    need(worker_ptr.size() >= 1, "worker_ptr");
    const size_t k = counts.shape(1), workers = worker_ptr.size() - 1;
    need(worker_ptr.data()[workers] == int64_t(counts.shape(0)), "worker_ptr");
    need(worker_ptr.data()[0] == 0, "worker_ptr");
    need_rising(worker_ptr.data(), worker_ptr.size(), "worker_ptr");
    need(table.size() == counts.size() && table.shape(1) == k, "table");
    need(totals.size() == workers * k, "totals");
    nb::gil_scoped_release release;
    confusion_table(counts.data(), worker_ptr.data(), int64_t(workers), int(k), smoothing, table.data(),
                    totals.data(), threads);
}

void py_fit_judges(In<int32_t, 1> given, In<double, 2> counts, In<int64_t, 1> worker_ptr, Out<double, 2> judges, int threads) {
    need(worker_ptr.size() >= 1, "worker_ptr");
    const size_t k = counts.shape(1), workers = worker_ptr.size() - 1;
    need(worker_ptr.data()[workers] == int64_t(counts.shape(0)), "worker_ptr");
    need(worker_ptr.data()[0] == 0, "worker_ptr");
    need_rising(worker_ptr.data(), worker_ptr.size(), "worker_ptr");
    need(given.size() == counts.shape(0), "given");
    need(judges.shape(0) == workers && judges.shape(1) == 3, "judges");
    nb::gil_scoped_release release;
    fit_judges(given.data(), counts.data(), worker_ptr.data(), int64_t(workers), int(k), judges.data(), threads);
}

void py_restore_counts(Out<double, 1> counts, std::optional<In<double, 1>> rest, double unit, int threads) {
    const double* second = pointer(rest, counts.size(), "rest");
    need(unit > 0.0 && unit < 1.0, "unit");
    nb::gil_scoped_release release;
    restore_counts(counts.data(), second, unit, int64_t(counts.size()), threads);
}

void py_check_votes(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, int64_t rows, int threads) {
    need(task_ptr.size() >= 1, "task_ptr");
    const size_t tasks = task_ptr.size() - 1;
    const int64_t* ptr = task_ptr.data();
    need(ptr[0] >= 0 && ptr[tasks] <= int64_t(row.size()), "row");
    Fault fault;
    {
        nb::gil_scoped_release release;
        fault = check_votes(ptr, int64_t(tasks), row.data(), rows, threads);
    }
    const std::string at = std::to_string(fault.at);
    if (fault.what == Fault::What::falls)
        throw nb::value_error(("task_ptr falls at " + at + ": the votes of a task begin where those before it end").c_str());
    if (fault.what == Fault::What::row)
        throw nb::value_error(("row " + std::to_string(row.data()[fault.at]) + " of vote " + at + " does not exist: there are " +
                               std::to_string(rows) + " rows")
                                  .c_str());
}

void py_votes_per_row(In<uint32_t, 1> row, Out<int64_t, 1> counts, int threads) {
    nb::gil_scoped_release release;
    votes_per_row(row.data(), int64_t(row.size()), int64_t(counts.size()), counts.data(), threads);
}

Labelled labelled(const In<int64_t, 1>& task_ptr, const In<uint32_t, 1>& row, const In<int32_t, 1>& row_label,
                  const In<int32_t, 1>& labels, int k, const std::optional<In<double, 1>>& row_weight) {
    need(task_ptr.size() >= 1, "task_ptr");
    const size_t tasks = task_ptr.size() - 1;
    need(task_ptr.data()[0] >= 0 && task_ptr.data()[tasks] <= int64_t(row.size()), "row");
    need(labels.size() == tasks, "labels");
    return {task_ptr.data(), row.data(), int64_t(tasks), row_label.data(), int64_t(row_label.size()), labels.data(), k,
            pointer(row_weight, row_label.size(), "row_weight")};
}

void py_pair_sums(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<int32_t, 1> row_label, In<int32_t, 1> labels,
                  In<double, 3> values, int k, Out<double, 1> sums, std::optional<In<double, 1>> row_weight,
                  std::optional<In<int64_t, 1>> worker_ptr, int threads) {
    const Labelled v = labelled(task_ptr, row, row_label, labels, k, row_weight);
    const int64_t* const ptr = worker_ptr ? worker_ptr->data() : nullptr;
    const size_t n = worker_ptr ? std::max<size_t>(worker_ptr->size(), 1) - 1 : row_label.size();
    need(!worker_ptr || (worker_ptr->size() >= 1 && !row_weight && ptr[0] == 0 && ptr[n] == v.rows), "worker_ptr");
    if (worker_ptr) need_rising(ptr, n + 1, "worker_ptr");
    need(values.shape(1) == 2 && values.shape(2) == n, "values");
    need(sums.size() == values.shape(0) + 2, "sums");
    nb::gil_scoped_release release;
    pair_sums(v, values.data(), int(values.shape(0)), ptr, int64_t(n), sums.data(), threads);
}

// The lines of honest probabilities: whole, or in parts (bind_wide.hpp). Those with and without a vote may be side by side.
using Lines = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;
using HonestTable = std::variant<Lines, WideArrays>;

// `wide` holds the parts while the pass runs.
Honest honest_of(const HonestTable& lines, const std::optional<Lines>& without, const In<double, 1>& log_prior,
                 const In<double, 1>& uniform, double shared_error, double holds, size_t rows, Wide& wide) {
    const size_t k = log_prior.size();
    need(uniform.size() == k, "uniform");
    if (const auto* parts = std::get_if<WideArrays>(&lines)) {
        wide = wide_of(*parts, rows, k);
        return {nullptr, nullptr, 0, log_prior.data(), uniform.data(), shared_error, holds, &wide};
    }
    const auto& whole = std::get<Lines>(lines);
    need(whole.shape(0) == rows && whole.shape(1) == k && (k < 2 || whole.stride(1) == 1), "lines");
    need(without && without->shape(0) == rows && without->shape(1) == k && (k < 2 || without->stride(1) == 1), "without");
    const int64_t stride = rows > 1 ? whole.stride(0) : int64_t(k);
    need(rows < 2 || (stride >= int64_t(k) && without->stride(0) == stride), "without");
    return {whole.data(), without->data(), stride, log_prior.data(), uniform.data(), shared_error, holds};
}

void py_honest_pass(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<int32_t, 1> row_label, In<int32_t, 1> labels,
                    HonestTable lines, std::optional<Lines> without, In<double, 1> log_prior, In<double, 1> uniform,
                    double shared_error, double holds, std::optional<In<double, 1>> row_weight,
                    Maybe<double, 1> confidence, Maybe<bool, 1> tie, Maybe<double, 2> probabilities,
                    Maybe<int64_t, 1> answers, Maybe<int64_t, 1> doubts, std::optional<In<int32_t, 1>> wanted,
                    Maybe<double, 1> chance, int threads) {
    const size_t k = log_prior.size(), rows = row_label.size();
    const Labelled v = labelled(task_ptr, row, row_label, labels, int(k), row_weight);
    Wide wide;
    const Honest h = honest_of(lines, without, log_prior, uniform, shared_error, holds, rows, wide);
    const size_t tasks = size_t(v.tasks);
    const HonestOut out{pointer(confidence, tasks, "confidence"), pointer(tie, tasks, "tie"),
                        pointer(probabilities, tasks * k, "probabilities"), pointer(answers, rows, "answers"),
                        pointer(doubts, rows, "doubts"), pointer(wanted, tasks, "wanted"), pointer(chance, tasks, "chance")};
    need(!out.answers == !out.doubts, "doubts");
    need(!out.wanted == !out.chance, "chance");
    for (size_t t = 0; out.wanted && t < tasks; ++t) need(out.wanted[t] >= 0 && size_t(out.wanted[t]) < k, "wanted");
    if (k == 0) return;
    nb::gil_scoped_release release;
    honest_pass(v, h, out, threads);
}

void py_below_chance(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<int32_t, 1> row_label, In<int32_t, 1> labels,
                     HonestTable lines, std::optional<Lines> without, In<double, 1> log_prior, In<double, 1> uniform,
                     double shared_error, double holds, In<int64_t, 1> row_worker, In<int64_t, 1> worker_ptr, double unit,
                     Out<int64_t, 2> sums, std::optional<In<double, 1>> row_weight, int threads) {
    const size_t k = log_prior.size(), rows = row_label.size();
    const Labelled v = labelled(task_ptr, row, row_label, labels, int(k), row_weight);
    Wide wide;
    const Honest h = honest_of(lines, without, log_prior, uniform, shared_error, holds, rows, wide);
    need(worker_ptr.size() >= 1 && worker_ptr.data()[0] == 0, "worker_ptr");
    need_rising(worker_ptr.data(), worker_ptr.size(), "worker_ptr");
    need(worker_ptr.data()[worker_ptr.size() - 1] == int64_t(rows), "worker_ptr");
    need(row_worker.size() == rows, "row_worker");
    for (size_t r = 0; r < rows; ++r)
        need(row_worker.data()[r] >= 0 && row_worker.data()[r] < int64_t(worker_ptr.size()) - 1, "row_worker");
    need(sums.shape(0) == 4 && sums.shape(1) == rows, "sums");
    if (k == 0) return;
    nb::gil_scoped_release release;
    below_chance(v, h, {row_worker.data(), worker_ptr.data()}, unit, sums.data(), threads);
}

double py_classification(In<int64_t, 2> counts, In<int64_t, 1> class_counts, In<double, 2> table,
                         In<double, 1> log_prior, int threads) {
    need(counts.size() == table.size() && counts.shape(1) == table.shape(1), "counts");
    need(class_counts.size() == table.shape(1) && log_prior.size() == table.shape(1), "class_counts");
    nb::gil_scoped_release release;
    return classification(counts.data(), class_counts.data(), table.data(), log_prior.data(),
                          int64_t(table.shape(0)), int(table.shape(1)), threads);
}

void py_hash_texts(In<int64_t, 1> offsets, In<uint8_t, 1> data, Out<uint64_t, 1> hashes, int threads) {
    need(offsets.size() == hashes.size() + 1, "hashes");
    const int64_t* at = offsets.data();
    need(at[0] >= 0 && at[hashes.size()] <= int64_t(data.size()), "data");
    need_rising(at, offsets.size(), "offsets");
    nb::gil_scoped_release release;
    hash_texts(at, data.data(), int64_t(hashes.size()), hashes.data(), threads);
}

void py_hash_integers(In<int64_t, 1> values, Out<uint64_t, 1> hashes, int threads) {
    need(values.size() == hashes.size(), "hashes");
    nb::gil_scoped_release release;
    hash_integers(values.data(), int64_t(hashes.size()), hashes.data(), threads);
}

// The votes and the model that both of GLAD's passes read.
Glad glad_over(const In<int64_t, 1>& task_ptr, const In<uint32_t, 1>& row,
               const In<int32_t, 1>& row_worker, const In<double, 1>& ability, const In<double, 1>& ease,
               const Out<double, 1>& right, double log_others) {
    need(task_ptr.size() >= 1, "task_ptr");
    Glad g;
    const size_t tasks = task_ptr.size() - 1;
    const int64_t first = task_ptr.data()[0], last = task_ptr.data()[tasks];
    need(first >= 0 && first <= last && last <= int64_t(row.size()), "row");
    need(ease.size() == tasks, "ease");
    need(right.size() == size_t(last - first), "right");
    g.task_ptr = task_ptr.data();
    g.row = row.data();
    g.tasks = int64_t(tasks);
    g.row_worker = row_worker.data();
    g.workers = int64_t(ability.size());
    g.ability = ability.data();
    g.ease = ease.data();
    g.log_others = log_others;
    return g;
}

std::tuple<double, int64_t> py_glad_expect(
    In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<int32_t, 1> row_worker,
    In<int32_t, 1> row_label, In<double, 1> ability, In<double, 1> ease, In<double, 1> log_prior,
    double log_others, TaskKeys task_key, In<uint64_t, 1> label_hash, bool by_prior,
    Out<int32_t, 1> labels, Out<double, 1> right, Out<double, 1> class_counts, Maybe<double, 1> confidence,
    Maybe<bool, 1> tie, Maybe<double, 2> posterior, int threads) {
    const Glad g = glad_over(task_ptr, row, row_worker, ability, ease, right, log_others);
    Pass p = pass_over(task_ptr, row, row_label.size(), task_key, label_hash, labels, confidence, tie, posterior);
    need(row_worker.size() == row_label.size(), "row_worker");
    need(log_prior.size() == size_t(p.k), "log_prior");
    need(class_counts.size() == size_t(p.k), "class_counts");
    p.log_prior = log_prior.data();
    p.favour = by_prior ? p.log_prior : nullptr;
    if (p.tasks == 0 || p.k == 0) return {0.0, 0};
    nb::gil_scoped_release release;
    const Sums sums = glad_expect(g, p, row_label.data(), right.data(), class_counts.data(), threads);
    return {sums.log_likelihood, sums.changed};
}

double py_glad_gradient(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<int32_t, 1> row_worker,
                        In<double, 1> ability, In<double, 1> ease, Out<double, 1> right, double log_others,
                        Out<double, 1> by_worker, Out<double, 1> by_task, Out<double, 1> worker_curvature,
                        Out<double, 1> task_curvature, int threads) {
    const Glad g = glad_over(task_ptr, row, row_worker, ability, ease, right, log_others);
    need(by_worker.size() == ability.size(), "by_worker");
    need(worker_curvature.size() == ability.size(), "worker_curvature");
    need(by_task.size() == ease.size(), "by_task");
    need(task_curvature.size() == ease.size(), "task_curvature");
    nb::gil_scoped_release release;
    return glad_gradient(g, right.data(), by_worker.data(), by_task.data(), worker_curvature.data(),
                         task_curvature.data(), threads);
}

void py_tie_keys(Out<uint64_t, 1> hashes, uint64_t seed, int threads) {
    nb::gil_scoped_release release;
    tie_keys(hashes.data(), int64_t(hashes.size()), seed, threads);
}

}  // namespace

void adjudge::bind_passes(nb::module_& m) {
    using namespace nb::literals;
    const auto none = nb::none();
#define ADJUDGE_VOTES "task_ptr"_a.noconvert(), "row"_a.noconvert()
#define ADJUDGE_TASKS "labels"_a.noconvert(), "confidence"_a.noconvert() = none, "tie"_a.noconvert() = none, \
                      "posterior"_a.noconvert() = none
#define ADJUDGE_COUNTS "counts"_a.noconvert() = none, "class_counts"_a.noconvert() = none
#define ADJUDGE_UNITS "unit"_a = 0x1p-40, "rest"_a.noconvert() = none, "class_rest"_a.noconvert() = none
    m.def("hard_pass", &py_hard_pass, ADJUDGE_VOTES, "table"_a.noconvert(), "log_prior"_a.noconvert(),
          "task_key"_a.noconvert(), "label_hash"_a.noconvert(), nb::kw_only(), "by_prior"_a, ADJUDGE_TASKS,
          ADJUDGE_COUNTS, "delta"_a = false, "likelihood"_a = true, "classification"_a = true, "threads"_a = 1);
    m.def("soft_pass", &py_soft_pass, ADJUDGE_VOTES, "table"_a.noconvert(), "log_prior"_a.noconvert(),
          "task_key"_a.noconvert(), "label_hash"_a.noconvert(), nb::kw_only(), "by_prior"_a, ADJUDGE_TASKS,
          ADJUDGE_COUNTS, ADJUDGE_UNITS, "threads"_a = 1);
    m.def("wide_pass", &py_wide_pass, ADJUDGE_VOTES, "rows"_a, "table"_a.noconvert(), "log_prior"_a.noconvert(),
          "task_key"_a.noconvert(), "label_hash"_a.noconvert(), nb::kw_only(), "by_prior"_a, ADJUDGE_TASKS,
          "right"_a.noconvert() = none, "likelihood"_a = true, "threads"_a = 1);
#define ADJUDGE_MAJORITY(NAME, CELL)                                                                               \
    m.def(NAME, &py_majority<CELL>, ADJUDGE_VOTES, "row_label"_a.noconvert(), "task_key"_a.noconvert(),            \
          "label_hash"_a.noconvert(), nb::kw_only(), "favour"_a.noconvert() = none,                                \
          "row_weight"_a.noconvert() = none, ADJUDGE_TASKS, ADJUDGE_COUNTS, ADJUDGE_UNITS, "threads"_a = 1)
    ADJUDGE_MAJORITY("majority_hard", int64_t);
    ADJUDGE_MAJORITY("majority_soft", double);
    m.def("count_labels", &py_count_labels, ADJUDGE_VOTES, "labels"_a.noconvert(), "counts"_a.noconvert(),
          "class_counts"_a.noconvert(), "threads"_a = 1);
    m.def("confusion_table", &py_confusion_table<int64_t>, "counts"_a.noconvert(), "worker_ptr"_a.noconvert(),
          "smoothing"_a, "table"_a.noconvert(), "totals"_a.noconvert(), "threads"_a = 1);
    m.def("confusion_table", &py_confusion_table<double>, "counts"_a.noconvert(), "worker_ptr"_a.noconvert(),
          "smoothing"_a, "table"_a.noconvert(), "totals"_a.noconvert(), "threads"_a = 1);
    m.def("fit_judges", &py_fit_judges, "given"_a.noconvert(), "counts"_a.noconvert(), "worker_ptr"_a.noconvert(),
          "judges"_a.noconvert(), "threads"_a = 1);
    m.def("restore_counts", &py_restore_counts, "counts"_a.noconvert(), "rest"_a.noconvert() = none, "unit"_a = 0x1p-40,
          "threads"_a = 1);
    m.def("check_votes", &py_check_votes, ADJUDGE_VOTES, "rows"_a, "threads"_a = 1);
    m.def("votes_per_row", &py_votes_per_row, "row"_a.noconvert(), "counts"_a.noconvert(), "threads"_a = 1);
    m.def("pair_sums", &py_pair_sums, ADJUDGE_VOTES, "row_label"_a.noconvert(), "labels"_a.noconvert(),
          "values"_a.noconvert(), "n_labels"_a, "sums"_a.noconvert(), "row_weight"_a.noconvert() = none,
          "worker_ptr"_a.noconvert() = none, "threads"_a = 1);
    m.def("honest_pass", &py_honest_pass, ADJUDGE_VOTES, "row_label"_a.noconvert(), "labels"_a.noconvert(),
          "lines"_a.noconvert(), "without"_a.noconvert().none(), "log_prior"_a.noconvert(), "uniform"_a.noconvert(),
          "shared_error"_a, "holds"_a, nb::kw_only(), "row_weight"_a.noconvert() = none,
          "confidence"_a.noconvert() = none, "tie"_a.noconvert() = none, "probabilities"_a.noconvert() = none,
          "answers"_a.noconvert() = none, "doubts"_a.noconvert() = none, "wanted"_a.noconvert() = none,
          "chance"_a.noconvert() = none, "threads"_a = 1);
    m.def("below_chance", &py_below_chance, ADJUDGE_VOTES, "row_label"_a.noconvert(), "labels"_a.noconvert(),
          "lines"_a.noconvert(), "without"_a.noconvert().none(), "log_prior"_a.noconvert(), "uniform"_a.noconvert(),
          "shared_error"_a, "holds"_a, "row_worker"_a.noconvert(), "worker_ptr"_a.noconvert(), "unit"_a,
          "sums"_a.noconvert(), "row_weight"_a.noconvert() = none, "threads"_a = 1);
    m.def("classification", &py_classification, "counts"_a.noconvert(), "class_counts"_a.noconvert(),
          "table"_a.noconvert(), "log_prior"_a.noconvert(), "threads"_a = 1);
    m.def("glad_expect", &py_glad_expect, ADJUDGE_VOTES, "row_worker"_a.noconvert(), "row_label"_a.noconvert(),
          "ability"_a.noconvert(), "ease"_a.noconvert(), "log_prior"_a.noconvert(), "log_others"_a,
          "task_key"_a.noconvert(), "label_hash"_a.noconvert(), nb::kw_only(), "by_prior"_a, "labels"_a.noconvert(),
          "right"_a.noconvert(), "class_counts"_a.noconvert(), "confidence"_a.noconvert() = none,
          "tie"_a.noconvert() = none, "posterior"_a.noconvert() = none, "threads"_a = 1);
    m.def("glad_gradient", &py_glad_gradient, ADJUDGE_VOTES, "row_worker"_a.noconvert(), "ability"_a.noconvert(),
          "ease"_a.noconvert(), "right"_a.noconvert(), "log_others"_a, nb::kw_only(), "by_worker"_a.noconvert(),
          "by_task"_a.noconvert(), "worker_curvature"_a.noconvert(), "task_curvature"_a.noconvert(), "threads"_a = 1);
    m.def("hash_texts", &py_hash_texts, "offsets"_a.noconvert(), "data"_a.noconvert(), "hashes"_a.noconvert(),
          "threads"_a = 1);
    m.def("hash_integers", &py_hash_integers, "values"_a.noconvert(), "hashes"_a.noconvert(), "threads"_a = 1);
    m.def("tie_keys", &py_tie_keys, "hashes"_a.noconvert(), "seed"_a, "threads"_a = 1);
    m.def("use_kernels", [](int index) { use_kernels(kernels_by_index(index)); }, "index"_a);
    m.def("kernels", [] { return std::string(kernels().name); });
}
