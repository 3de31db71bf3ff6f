// Python bindings of a stream of votes, vote by vote: what a service calls.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bind_online.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace adjudge {
namespace {

// (label, or -1 without votes; tie; votes; whether it is gold; probabilities, [k]); None: no such task.
nb::object predict(SharedOnline& s, std::string_view task, int kind) {
    const Confidence asked = confidence(kind);
    enum class Found { answer, nothing, due };
    std::vector<double> p;
    Answer told{-1, false};
    int64_t votes = 0;
    const Found found = briefly<Reading>(s.mutex, [&] {
        p.assign(size_t(s.state().labels()), 0.0);
        const uint32_t place = s.find_task(task);
        if (place == NONE) {
            told = {s.gold(task), false, true};
            if (told.label >= 0) p[size_t(told.label)] = 1.0;
            return told.label >= 0 ? Found::answer : Found::nothing;
        }
        if (s.state().due(asked) != Due::nothing) return Found::due;
        Scratch scratch;
        told = s.state().answer(place, asked, scratch, p.data());
        votes = s.state().votes(place).size();
        if (!votes && !told.certain) told.label = -1;
        return Found::answer;
    });
    if (found == Found::due) return nb::bool_(false);
    return found == Found::nothing ? nb::none()
                                   : nb::object(nb::make_tuple(told.label, told.tied, votes, told.certain, nb::cast(p)));
}

// Learns a vote and returns its task's state, as `predict` does. False: learned, and a renewal is due; True:
// learned, and the label of its task, which has many votes, stays until one of the next votes.
nb::object vote(SharedOnline& s, std::string_view task, std::string_view worker, uint32_t label, int kind) {
    const Confidence asked = confidence(kind);
    std::vector<double> p;
    Answer told{-1, false};
    int64_t votes = 0;
    bool is_light = false;
    const bool is_due = briefly<Writing>(s.mutex, [&] {
        p.resize(size_t(s.state().labels()));
        const uint32_t place = s.vote(task, worker, label, is_light);
        if (is_light) return false;
        if (s.state().due(asked) != Due::nothing) return true;
        told = s.answer_learned(place, asked, p.data());
        votes = s.state().votes(place).size();
        return false;
    });
    if (is_due || is_light) return nb::bool_(is_light);
    return nb::make_tuple(told.label, told.tied, votes, told.certain, nb::cast(p));
}

// Texts of Python, which are kept alive if another thread changes the list.
struct Names {
    nb::tuple kept;
    std::vector<std::string_view> texts;
    Names(const nb::list& given, const char* error) : kept(given), texts(kept.size()) {
        for (size_t i = 0; i < texts.size(); ++i)
            if (!nb::try_cast(nb::object(kept[i]), texts[i])) throw nb::type_error(error);
    }
};

// Learns votes in order: the same as `vote` of each, but of those that are there already, unless `again` says so. Stops before a
// vote on a task of many votes, after one that makes a renewal due, and once it has looked at so many cells (votes of a task times
// labels). If it throws, the votes before are learned. Returns, of the votes that it came to, the label that the worker had given
// before, -1: none; and of the task after it, unless a renewal was due, the leading label (-1: the vote was there already), the
// votes, whether it ties (1) and is gold (2), and the probabilities, k of each; all in lists, as Python's numbers are read fast.
nb::tuple vote_many(SharedOnline& s, const nb::list& tasks, const nb::list& workers, const std::vector<uint32_t>& labels,
                    const std::optional<std::vector<bool>>& again, int kind, size_t cells) {
    const Confidence asked = confidence(kind);
    const Names task(tasks, "ids of tasks are texts"), worker(workers, "ids of workers are texts");
    const size_t n = task.texts.size();
    require(worker.texts.size() == n && labels.size() == n && (!again || again->size() == n), "a worker and a label for every task");
    std::vector<int32_t> was, label, flags;
    std::vector<uint32_t> votes;
    std::vector<double> p;
    for (auto* column : {&was, &label, &flags}) column->reserve(n);
    votes.reserve(n);
    briefly<Writing>(s.mutex, [&] {
        const size_t k = size_t(s.state().labels());
        p.reserve(n * k);
        for (size_t i = 0, looked = 0; i < n && looked <= cells; ++i) {
            const uint32_t known = s.find_task(task.texts[i]);
            if (known != NONE && s.state().votes(known).size() >= kManyVotes) break;
            was.push_back(known == NONE ? -1 : s.voted(task.texts[i], worker.texts[i]));
            Answer told{-1, false};
            uint32_t place = known;
            if (was[i] != int32_t(labels[i]) || (again && (*again)[i])) {
                bool is_light = false;
                place = s.vote(task.texts[i], worker.texts[i], labels[i], is_light);
                if (s.state().due(asked) != Due::nothing) break;
                p.resize((i + 1) * k);
                told = s.answer_learned(place, asked, p.data() + i * k);
            }
            p.resize((i + 1) * k);
            label.push_back(told.label);
            flags.push_back(int32_t(told.tied) + 2 * int32_t(told.certain));
            votes.push_back(s.state().votes(place).size());
            looked += size_t(votes[i]) * k;
        }
    });
    return nb::make_tuple(was, label, votes, flags, p);
}

// The same as `predict` of many tasks at one moment: arrays of labels, ties, votes, whether it is gold, and probabilities,
// [tasks, k]. An unknown task has the label -1, -1 votes, and no probabilities (zeros).
nb::object predict_many(SharedOnline& s, const nb::list& tasks, int kind) {
    const Confidence asked = confidence(kind);
    const Names names(tasks, "ids of tasks are texts");
    const std::vector<std::string_view>& ids = names.texts;
    const size_t n = ids.size();
    Growing<int32_t> label(n);
    Growing<bool> tie(n), gold(n);
    Growing<int64_t> votes(n);
    Growing<double> p;
    size_t k = 0;
    const bool is_due = at_length<Reading>(s.mutex, [&] {
        if (s.state().due(asked) != Due::nothing) return true;
        k = size_t(s.state().labels());
        p.resize(n * k);
        std::fill_n(p.data(), n * k, 0.0);
        Scratch scratch;
        for (size_t i = 0; i < n; ++i) {
            const uint32_t place = s.find_task(ids[i]);
            Answer told{-1, false};
            votes[i] = -1;
            if (place != NONE) {
                told = s.state().answer(place, asked, scratch, p.data() + i * k);
                votes[i] = s.state().votes(place).size();
                if (!votes[i] && !told.certain) told.label = -1;
            } else if (const int32_t known = s.gold(ids[i]); known >= 0) {
                told = {known, false, true};
                votes[i] = 0;
                p[i * k + size_t(known)] = 1.0;
            }
            label[i] = told.label;
            tie[i] = told.tied;
            gold[i] = told.certain;
        }
        return false;
    });
    if (is_due) return nb::bool_(false);
    return nb::make_tuple(owned<int32_t>(std::move(label)), owned<bool>(std::move(tie)), owned<int64_t>(std::move(votes)),
                          owned<bool>(std::move(gold)), nb::cast(owned<double>(std::move(p))).attr("reshape")(n, k));
}

}  // namespace

void bind_votes(nb::class_<SharedOnline>& online) {
    online.def("vote", &vote, "task"_a, "worker"_a, "label"_a, "kind"_a)
        .def("vote_many", &vote_many, "tasks"_a, "workers"_a, "labels"_a, "again"_a.none(), "kind"_a, "cells"_a)
        .def("predict", &predict, "task"_a, "kind"_a)
        .def("predict_many", &predict_many, "tasks"_a, "kind"_a);
}

}  // namespace adjudge
