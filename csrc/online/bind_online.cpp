// Python bindings of a stream of votes: take the lock, release the GIL, call. No logic lives here.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bind_online.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace adjudge {
namespace {

nb::tuple texts(Texts&& t) { return nb::make_tuple(owned<int64_t>(std::move(t.offsets)), owned<uint8_t>(std::move(t.data))); }

void learn_many(SharedOnline& s, nb::object frame, In<uint32_t, 1> labels, bool task_numbers, bool worker_numbers) {
    const nb::object capsule = frame.attr("__arrow_c_stream__")();
    auto* source = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
    if (!source) nb::raise_python_error();
    const nb::gil_scoped_release released;
    Stream stream(source);
    std::vector<std::unique_ptr<Batch>> batches;
    while (auto batch = stream.next()) batches.push_back(std::move(batch));
    const Writing lock(s.mutex);
    s.learn_many(batches, labels.data(), labels.size(), task_numbers, worker_numbers);
}

using NamedLabels = std::vector<std::pair<std::string, int32_t>>;

nb::list named(const NamedLabels& all) {
    nb::list out;
    for (const auto& [name, label] : all) out.append(nb::make_tuple(nb::str(name.data(), name.size()), label));
    return out;
}

// (worker, label) of the votes on a task, in order; None: no such task.
nb::object votes_of(SharedOnline& s, std::string_view task) {
    NamedLabels votes;
    const bool found = briefly<Reading>(s.mutex, [&] {
        const uint32_t place = s.find_task(task);
        if (place == NONE) return false;
        for (const uint32_t row : s.state().votes(place))
            votes.emplace_back(s.worker_text(s.state().row_worker(row)), s.state().row_label(row));
        return true;
    });
    return found ? nb::object(named(votes)) : nb::none();
}

// (task, label) of the votes of a worker on the tasks in memory, in the order of the tasks: all of these are looked at.
nb::list tasks_of(SharedOnline& s, std::string_view worker) {
    NamedLabels votes;
    at_length<Reading>(s.mutex, [&] {
        const Online& state = s.state();
        const uint32_t who = s.find_worker(worker);
        if (who == NONE) return;
        for (const uint32_t t : state.in_order())
            for (const uint32_t row : state.votes(t))
                if (state.row_worker(row) == who) votes.emplace_back(s.task_text(t), state.row_label(row));
    });
    return named(votes);
}

// (votes as `votes_of` has them; label, -1 without votes; soft: its posterior in units, [k], else None; whether the label is
// that of the last fit; gold, or -1; number); None: no such task. Few codes wait for their room to be given back, so that
// most calls are brief.
nb::object evict(SharedOnline& s, std::string_view task) {
    Record record;
    bool compacts = false;
    const bool found = briefly<Writing>(s.mutex, [&] {
        const bool is_there = s.evict(task, record);
        compacts = s.wants_compaction();
        return is_there;
    });
    if (!found) return nb::none();
    if (compacts)
        at_length<Writing>(s.mutex, [&] {
            if (s.wants_compaction()) s.compact();
        });
    return nb::make_tuple(named(record.votes), record.label, record.units ? nb::cast(nb::tuple(nb::cast(*record.units))) : nb::none(),
                          record.fitted, record.gold, record.number);
}

// Restores a record from `evict`; ValueError, and no change, if the record is not from this stream.
void bring_back(SharedOnline& s, std::string_view task, nb::handle given) {
    using Fields = std::tuple<NamedLabels, int32_t, std::optional<std::vector<int64_t>>, int32_t, int32_t, int64_t>;
    Fields fields;
    require(nb::try_cast(nb::borrow(given), fields), "not the record of an evicted task");
    Record record;
    std::tie(record.votes, record.label, record.units, record.fitted, record.gold, record.number) = std::move(fields);
    briefly<Writing>(s.mutex, [&] { s.bring_back(task, record); });
}

template <class T>
nb::object array_of(const std::vector<T>& numbers) {
    Growing<T> copy(numbers.size());
    std::copy(numbers.begin(), numbers.end(), copy.data());
    return nb::cast(owned<T>(std::move(copy)));
}

// (sums over pairs of votes, or None; votes by given and true label, an array [k * k], and those of them that the sums leave
// out; tasks by label, [k]; votes in memory; changes)
nb::tuple measure(SharedOnline& s, bool sums) {
    const Measures m = at_length<Reading>(s.mutex, [&] { return s.state().measure(sums); });
    const nb::object pairs = sums ? nb::object(nb::make_tuple(m.together, m.apart, m.skills, m.alike, m.pairs)) : nb::none();
    return nb::make_tuple(pairs, array_of(m.given), array_of(m.left_out), nb::cast(m.tasks), m.votes, m.changes);
}

// False where a label was added since it was measured.
bool install(SharedOnline& s, In<double, 2> lent, double lent_total, In<double, 1> log_prior, In<double, 1> uniform,
             double shared_error, double holds, int64_t votes, uint64_t changes) {
    const size_t k = uniform.size();
    require(lent.shape(0) == k && lent.shape(1) == k && log_prior.size() == k, "a place for every label");
    require(votes >= 0, "how many votes there were");
    Measured m;
    m.lent.resize(k * k);
    for (size_t i = 0; i < k * k; ++i) m.lent[i] = lent.data()[i] * double(Online::ONE);
    m.lent_total = lent_total * double(Online::ONE);
    m.log_prior.assign(log_prior.data(), log_prior.data() + k);
    m.uniform.assign(uniform.data(), uniform.data() + k);
    m.shared_error = shared_error;
    m.holds = holds;
    m.votes = votes;
    m.changes = changes;
    return briefly<Writing>(s.mutex, [&] {
        if (k != size_t(s.state().labels())) return false;
        s.install(std::move(m));
        return true;
    });
}

// Today's pi of a worker, [k true, k given]; None: the worker has no votes.
nb::object confusion(SharedOnline& s, std::string_view worker) {
    int k = 0;
    Growing<double> out;
    const bool found = briefly<Reading>(s.mutex, [&] {
        k = s.state().labels();
        const uint32_t who = s.find_worker(worker);
        if (who == NONE || who >= s.state().workers()) return false;
        for (int c = 0; c < k; ++c)
            for (int g = 0; g < k; ++g) out.push(s.state().confusion(who, uint32_t(g), c));
        return true;
    });
    return found ? nb::cast(owned<double>(std::move(out))).attr("reshape")(k, k) : nb::none();
}

nb::dict snapshot(SharedOnline& s) {
    bool task_numbers = false, worker_numbers = false;
    Snapshot all = at_length<Reading>(s.mutex, [&] {
        task_numbers = s.numbers(true);
        worker_numbers = s.numbers(false);
        return s.snapshot();
    });
    nb::dict out;
    out["task_offsets"] = owned<int64_t>(std::move(all.tasks.offsets));
    out["task_texts"] = owned<uint8_t>(std::move(all.tasks.data));
    out["worker_offsets"] = owned<int64_t>(std::move(all.workers.offsets));
    out["worker_texts"] = owned<uint8_t>(std::move(all.workers.data));
    out["row_worker"] = owned<uint32_t>(std::move(all.row_worker));
    out["row_label"] = owned<uint32_t>(std::move(all.row_label));
    out["task_ptr"] = owned<int64_t>(std::move(all.task_ptr));
    out["row"] = owned<uint32_t>(std::move(all.row));
    const nb::object labels = nb::cast(owned<int32_t>(std::move(all.winners)));
    out["shares"] = all.hard ? labels : nb::cast(owned<int64_t>(std::move(all.units))).attr("reshape")(-1, all.k);
    out["n_labels"] = all.k;
    out["labels"] = labels;
    out["fitted"] = owned<uint8_t>(std::move(all.fitted));
    out["task_gold"] = owned<int32_t>(std::move(all.task_gold));
    out["gold_offsets"] = owned<int64_t>(std::move(all.golds.offsets));
    out["gold_texts"] = owned<uint8_t>(std::move(all.golds.data));
    out["gold_labels"] = owned<int32_t>(std::move(all.gold_labels));
    out["order"] = owned<int64_t>(std::move(all.order));
    const auto lines = [&](Growing<int64_t>&& cells) {
        return nb::cast(owned<int64_t>(std::move(cells))).attr("reshape")(-1, all.k);
    };
    if (all.evicted) {
        out["base_counts"] = lines(std::move(all.base_counts));
        out["base_classes"] = owned<int64_t>(std::move(all.base_classes));
    }
    if (all.evicted && !all.hard) {
        out["base_labelled"] = lines(std::move(all.base_labelled));
        out["base_labelled_classes"] = owned<int64_t>(std::move(all.base_labelled_classes));
    }
    const Measured& m = all.measured;
    out["measured"] = nb::none();
    if (m.votes >= 0) {
        out["measured"] = nb::make_tuple(m.lent_total, m.shared_error, m.holds, m.votes, m.changes);
        out["lent"] = array_of(m.lent).attr("reshape")(all.k, all.k);
        out["log_prior"] = array_of(m.log_prior);
        out["uniform"] = array_of(m.uniform);
    }
    out["changes"] = all.changes;
    out["tasks_seen"] = all.tasks_seen;
    out["evicted"] = all.evicted;
    out["abstentions"] = all.abstentions;
    out["numbers"] = nb::make_tuple(task_numbers, worker_numbers);
    return out;
}

nb::object task_table(SharedOnline& s, int kind) {
    bool numbers = false, due = false;
    const Confidence asked = confidence(kind);
    TaskTable all = at_length<Reading>(s.mutex, [&] {
        numbers = s.numbers(true);
        due = s.state().due(asked) != Due::nothing;
        return due ? TaskTable{} : s.task_table(asked);
    });
    if (due) return nb::bool_(false);
    return nb::make_tuple(texts(std::move(all.tasks)), numbers, owned<int32_t>(std::move(all.label)),
                          owned<double>(std::move(all.confidence)), owned<bool>(std::move(all.tie)),
                          owned<int64_t>(std::move(all.votes)),
                          all.has_gold ? nb::cast(owned<bool>(std::move(all.gold))) : nb::none());
}

nb::object worker_table(SharedOnline& s, int kind) {
    bool numbers = false, due = false;
    const Confidence asked = confidence(kind);
    WorkerTable all = at_length<Reading>(s.mutex, [&] {
        numbers = s.numbers(false);
        due = s.state().due(asked) != Due::nothing;
        return due ? WorkerTable{} : s.worker_table(asked);
    });
    if (due) return nb::bool_(false);
    return nb::make_tuple(texts(std::move(all.workers)), numbers, owned<int64_t>(std::move(all.votes)),
                          owned<int64_t>(std::move(all.right)), owned<int64_t>(std::move(all.doubt)));
}

nb::object counts_of(const std::vector<int64_t>& numbers, size_t k) {
    Growing<int64_t> copy(numbers.size());
    std::copy(numbers.begin(), numbers.end(), copy.data());
    return nb::cast(owned<int64_t>(std::move(copy))).attr("reshape")(k, k);
}

// (votes, answers and doubts by given label and label of the task, [k, k] each; votes; pairs; shared error; log prior, [k], and
// the mean worker's chance of a right answer, [k]: empty if nothing was measured); False: a renewal is due.
nb::object crowd(SharedOnline& s, int kind) {
    const Confidence asked = confidence(kind);
    CrowdSums sums;
    std::vector<double> log_prior, mean;
    double shared_error = 0.0;
    size_t k = 0;
    const bool is_due = at_length<Reading>(s.mutex, [&] {
        const Online& state = s.state();
        if (state.due(asked) != Due::nothing) return true;
        k = size_t(state.labels());
        sums = state.crowd(asked);
        if (asked == Confidence::posterior) return false;
        const Measured& m = state.measured();
        log_prior = m.log_prior;
        shared_error = m.shared_error;
        for (size_t c = 0; c < k; ++c) mean.push_back(m.lent[c * k + c] / m.lent_total);
        return false;
    });
    if (is_due) return nb::bool_(false);
    return nb::make_tuple(counts_of(sums.votes, k), counts_of(sums.right, k), counts_of(sums.doubt, k), sums.cast, sums.pairs,
                          shared_error, array_of(log_prior), array_of(mean));
}

// Per worker: (votes, sums over the worker's cells of the arrays, [k given, k label], as in `Online::judge`); a
// worker who is not known has no votes. None: a label was added meanwhile.
nb::object judge(SharedOnline& s, const std::vector<std::string>& workers, In<double, 2> right, In<double, 2> doubt) {
    const size_t n = workers.size(), k = right.shape(0);
    require(right.shape(1) == k && doubt.shape(0) == k && doubt.shape(1) == k, "a place for every pair of labels");
    Growing<int64_t> votes(n);
    Growing<double> sum_right(n), sum_doubt(n);
    const bool is_done = at_length<Reading>(s.mutex, [&] {
        if (k != size_t(s.state().labels())) return false;
        for (size_t i = 0; i < n; ++i) {
            const uint32_t who = s.find_worker(workers[i]);
            const Online::Judged found = who == NONE ? Online::Judged{} : s.state().judge(who, right.data(), doubt.data());
            votes[i] = found.votes, sum_right[i] = found.right, sum_doubt[i] = found.doubt;
        }
        return true;
    });
    if (!is_done) return nb::none();
    return nb::make_tuple(owned<int64_t>(std::move(votes)), owned<double>(std::move(sum_right)),
                          owned<double>(std::move(sum_doubt)));
}

using Winners = In<int32_t, 1>;
using Units = std::optional<In<int64_t, 2>>;
using Fitted = std::optional<In<uint8_t, 1>>;
using GoldOfTasks = std::optional<In<int32_t, 1>>;

Shares shares_of(const Winners& winners, const Units& units, const Fitted& fitted, const GoldOfTasks& gold,
                 size_t tasks) {
    require(winners.size() == tasks, "a label for every task");
    require(!units || units->shape(0) == tasks, "a share for every task");
    require(!fitted || fitted->size() == tasks, "whether a fit gave every label");
    require(!gold || gold->size() == tasks, "gold, or none, of every task");
    return {winners.data(), units ? units->data() : nullptr, units ? units->shape(1) : 0,
            fitted ? fitted->data() : nullptr, gold ? gold->data() : nullptr};
}

Given::Ids ids(const In<int64_t, 1>& offsets, const In<uint8_t, 1>& data) {
    return {offsets.data(), offsets.size() - 1, reinterpret_cast<const char*>(data.data()), data.size()};
}

// The sums of evicted tasks and the last measurement, both from a saved stream.
using Lines = std::optional<In<int64_t, 2>>;
using Line = std::optional<In<int64_t, 1>>;
using Moment = std::tuple<double, double, double, int64_t, uint64_t>;  // lent_total, shared_error, holds, votes, changes

const int64_t* cells(const Lines& lines, size_t rows, size_t k) {
    require(!lines || (lines->shape(0) == rows && lines->shape(1) == k), "what evicted tasks add up to, for every row and label");
    return lines ? lines->data() : nullptr;
}

const int64_t* cells(const Line& line, bool with, size_t n) {
    require(line.has_value() == with && (!line || line->size() == n), "what evicted tasks add up to, for every label");
    return line ? line->data() : nullptr;
}

Measured measured_of(const Moment& moment, const std::optional<In<double, 2>>& lent, const std::optional<In<double, 1>>& log_prior,
                     const std::optional<In<double, 1>>& uniform, size_t k) {
    require(lent && log_prior && uniform, "what was measured");
    require(lent->shape(0) == k && lent->shape(1) == k && log_prior->size() == k && uniform->size() == k, "a place for every label");
    Measured m;
    m.lent.assign(lent->data(), lent->data() + k * k);
    m.log_prior.assign(log_prior->data(), log_prior->data() + k);
    m.uniform.assign(uniform->data(), uniform->data() + k);
    std::tie(m.lent_total, m.shared_error, m.holds, m.votes, m.changes) = moment;
    require(m.votes >= 0, "how many votes there were");
    return m;
}

void restore(SharedOnline& s, In<int64_t, 1> task_offsets, In<uint8_t, 1> task_texts, In<int64_t, 1> worker_offsets,
             In<uint8_t, 1> worker_texts, In<uint32_t, 1> row_worker, In<uint32_t, 1> row_label, In<int64_t, 1> task_ptr,
             In<uint32_t, 1> row, In<int64_t, 1> gold_offsets, In<uint8_t, 1> gold_texts, In<int32_t, 1> gold_labels,
             Winners winners, Units units, Fitted fitted, int64_t abstentions, bool task_numbers, bool worker_numbers,
             Line order, int64_t tasks_seen, int64_t evicted, Lines base_counts, Line base_classes, Lines base_labelled,
             Line base_labelled_classes, int64_t changes, std::optional<Moment> measured, std::optional<In<double, 2>> lent,
             std::optional<In<double, 1>> log_prior, std::optional<In<double, 1>> uniform) {
    require(task_offsets.size() >= 1 && worker_offsets.size() >= 1 && gold_offsets.size() >= 1, "offsets begin with 0");
    require(gold_labels.size() == gold_offsets.size() - 1, "a label for every task with gold");
    require(task_ptr.size() == task_offsets.size(), "votes for every task");
    require(row_worker.size() == row_label.size(), "a worker and a label for every row");
    require(!order || order->size() == task_ptr.size() - 1, "a number for every task");
    const size_t k = briefly<Reading>(s.mutex, [&] { return size_t(s.state().labels()); });
    const Given given{ids(task_offsets, task_texts), ids(worker_offsets, worker_texts), row_worker.data(), row_label.data(),
                      row_worker.size(), task_ptr.data(), row.data(), row.size(), ids(gold_offsets, gold_texts),
                      gold_labels.data(), abstentions, order ? order->data() : nullptr, tasks_seen, evicted,
                      cells(base_counts, row_worker.size(), k), cells(base_classes, base_counts.has_value(), k),
                      cells(base_labelled, row_worker.size(), k), cells(base_labelled_classes, base_labelled.has_value(), k),
                      changes};
    const Shares shares = shares_of(winners, units, fitted, {}, task_ptr.size() - 1);
    std::optional<Measured> known;
    if (measured) known = measured_of(*measured, lent, log_prior, uniform, k);
    at_length<Writing>(s.mutex, [&] {
        if (k != size_t(s.state().labels())) throw std::invalid_argument("the labels were added to meanwhile");
        s.restore(given, shares, task_numbers, worker_numbers);
        if (known) s.install(std::move(*known));
    });
}

void adopt(SharedOnline& s, In<int64_t, 1> task_offsets, In<uint8_t, 1> task_texts, In<int64_t, 1> task_ptr,
           In<uint32_t, 1> row, Winners winners, Units units, Fitted fitted, GoldOfTasks gold) {
    require(task_offsets.size() >= 1, "offsets begin with 0");
    require(task_ptr.size() == task_offsets.size(), "votes for every task");
    const Shares shares = shares_of(winners, units, fitted, gold, task_ptr.size() - 1);
    at_length<Writing>(s.mutex, [&] {
        s.adopt(ids(task_offsets, task_texts), task_ptr.data(), row.data(), row.size(), shares, shares.units == nullptr);
    });
}

}  // namespace

void bind_online(nb::module_& m) {
    auto online = nb::class_<SharedOnline>(m, "Online");
    bind_votes(online);
    online.def(nb::init<std::vector<uint64_t>, uint64_t, bool, double, bool>(), "label_hash"_a, nb::kw_only(), "seed"_a, "hard"_a,
             "strength"_a, "replace"_a)
        .def_prop_ro("tasks", [](SharedOnline& s) { return briefly<Reading>(s.mutex, [&] { return s.tasks(); }); })
        .def_prop_ro("labels", [](SharedOnline& s) { return briefly<Reading>(s.mutex, [&] { return s.state().labels(); }); })
        .def_prop_ro("abstentions", [](SharedOnline& s) { return briefly<Reading>(s.mutex, [&] { return s.abstentions(); }); })
        .def_prop_ro("workers", [](SharedOnline& s) { return briefly<Reading>(s.mutex, [&] { return s.workers(); }); })
        .def("learn", [](SharedOnline& s, std::string_view task, std::string_view worker, uint32_t label, bool task_numbers,
                         bool worker_numbers) {
            briefly<Writing>(s.mutex, [&] { s.learn(task, worker, label, task_numbers, worker_numbers); });
        }, "task"_a, "worker"_a, "label"_a, "task_numbers"_a, "worker_numbers"_a)
        .def("abstain", [](SharedOnline& s, std::string_view task, std::string_view worker, bool task_numbers, bool worker_numbers) {
            briefly<Writing>(s.mutex, [&] { s.abstain(task, worker, task_numbers, worker_numbers); });
        }, "task"_a, "worker"_a, "task_numbers"_a, "worker_numbers"_a)
        .def("learn_many", &learn_many, "frame"_a, "labels"_a.noconvert(), "task_numbers"_a, "worker_numbers"_a)
        .def("retract", [](SharedOnline& s, std::string_view task, std::string_view worker) {
            return briefly<Writing>(s.mutex, [&] { return s.retract(task, worker); });
        }, "task"_a, "worker"_a)
        .def("add_label", [](SharedOnline& s, uint64_t hash) {
            at_length<Writing>(s.mutex, [&] { s.add_label(hash); });
        }, "label_hash"_a)
        .def("set_gold", [](SharedOnline& s, std::string_view task, int label) {  // -1 frees it; False if it has none
            return briefly<Writing>(s.mutex, [&] { return s.set_gold(task, label); });
        }, "task"_a, "label"_a)
        .def("forget", [](SharedOnline& s, std::string_view task) {  // how many votes there were; -1: no such task
            return at_length<Writing>(s.mutex, [&] { return s.forget(task); });
        }, "task"_a)
        .def("evict", &evict, "task"_a)
        .def("bring_back", &bring_back, "task"_a, "record"_a.none())
        .def_prop_ro("evicted", [](SharedOnline& s) { return briefly<Reading>(s.mutex, [&] { return s.state().evicted(); }); })
        .def("voted", [](SharedOnline& s, std::string_view task, std::string_view worker) {
            return briefly<Reading>(s.mutex, [&] { return s.voted(task, worker); });
        }, "task"_a, "worker"_a)
        .def("votes_of", &votes_of, "task"_a)
        .def("tasks_of", &tasks_of, "worker"_a)
        .def("votes_on", [](SharedOnline& s, std::string_view task) {  // how many there are on a task
            return briefly<Reading>(s.mutex, [&] {
                const uint32_t place = s.find_task(task);
                return place == NONE ? 0u : s.state().votes(place).size();
            });
        }, "task"_a)
        // What to renew for such readers now or within `ahead` more votes: 0 nothing, 1 labels, 2 all.
        .def("due", [](SharedOnline& s, int kind, uint64_t ahead) {
            const Confidence asked = confidence(kind);
            return int(briefly<Reading>(s.mutex, [&] { return s.state().due(asked, ahead); }));
        }, "kind"_a, "ahead"_a = 0)
        .def("measure", &measure, "sums"_a)
        .def("measured", [](SharedOnline& s) {  // (shared_error, holds, votes, changes) of the last renewal
            return briefly<Reading>(s.mutex, [&] {
                const Measured& m = s.state().measured();
                return std::make_tuple(m.shared_error, m.holds, m.votes, m.changes);
            });
        })
        .def("install", &install, "lent"_a.noconvert(), "lent_total"_a, "log_prior"_a.noconvert(), "uniform"_a.noconvert(),
             "shared_error"_a, "holds"_a, "votes"_a, "changes"_a)
        .def("confusion", &confusion, "worker"_a)
        .def("snapshot", &snapshot)
        .def("task_table", &task_table, "kind"_a)
        .def("worker_table", &worker_table, "kind"_a)
        .def("crowd", &crowd, "kind"_a)
        .def("judge", &judge, "workers"_a, "right"_a.noconvert(), "doubt"_a.noconvert())
        .def("restore", &restore, "task_offsets"_a.noconvert(), "task_texts"_a.noconvert(), "worker_offsets"_a.noconvert(),
             "worker_texts"_a.noconvert(), "row_worker"_a.noconvert(), "row_label"_a.noconvert(), "task_ptr"_a.noconvert(),
             "row"_a.noconvert(), "gold_offsets"_a.noconvert(), "gold_texts"_a.noconvert(), "gold_labels"_a.noconvert(),
             nb::kw_only(), "winners"_a.noconvert(), "units"_a.noconvert() = nb::none(),
             "fitted"_a.noconvert() = nb::none(), "abstentions"_a = 0, "task_numbers"_a, "worker_numbers"_a,
             "order"_a.noconvert() = nb::none(), "tasks_seen"_a = 0, "evicted"_a = 0, "base_counts"_a.noconvert() = nb::none(),
             "base_classes"_a.noconvert() = nb::none(), "base_labelled"_a.noconvert() = nb::none(),
             "base_labelled_classes"_a.noconvert() = nb::none(), "changes"_a = -1, "measured"_a = nb::none(),
             "lent"_a.noconvert() = nb::none(), "log_prior"_a.noconvert() = nb::none(), "uniform"_a.noconvert() = nb::none())
        .def("adopt", &adopt, "task_offsets"_a.noconvert(), "task_texts"_a.noconvert(), "task_ptr"_a.noconvert(), "row"_a.noconvert(), nb::kw_only(), "winners"_a.noconvert(),
             "units"_a.noconvert() = nb::none(), "fitted"_a.noconvert() = nb::none(), "gold"_a.noconvert() = nb::none())
        .def("counts", [](SharedOnline& s) {  // (counts by row, [rows * k], and by class, [k]), in units
            std::vector<int64_t> rows, classes;
            at_length<Reading>(s.mutex, [&] {
                rows = s.state().counts().rows;
                classes = s.state().counts().classes;
            });
            return nb::make_tuple(nb::cast(rows), nb::cast(classes));
        });
}

}  // namespace adjudge
