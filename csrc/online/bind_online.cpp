// The Python face of the online state. No logic lives here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string_view>

#include "../bind.hpp"
#include "state.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace quorate {
namespace {

template <class T, int D>
using In = nb::ndarray<const T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;
template <class T, int D>
using Out = nb::ndarray<T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;

void need(bool fits, const char* what) {
    if (!fits) throw nb::value_error(what);
}

void check(const Online& s, uint32_t task, uint32_t label) {
    need(task < s.tasks(), "no such task");
    need(label < uint32_t(s.labels()), "no such label");
}

void learn_many(Online& s, In<uint32_t, 1> task, In<uint32_t, 1> worker, In<uint32_t, 1> label, bool replace) {
    need(worker.size() == task.size() && label.size() == task.size(), "codes of different lengths");
    for (size_t i = 0; i < task.size(); ++i) check(s, task.data()[i], label.data()[i]);
    nb::gil_scoped_release released;
    constexpr size_t kFar = 8, kNear = 3;  // votes ahead: far enough for memory to answer, near enough to be still there
    for (size_t i = 0; i < task.size(); ++i) {
        if (i + kFar < task.size()) s.fetch(task.data()[i + kFar]);
        if (i + kNear < task.size()) s.fetch_counts(task.data()[i + kNear]);
        s.learn(task.data()[i], worker.data()[i], label.data()[i], replace);
    }
}

std::tuple<int, bool, int64_t> predict(const Online& s, uint32_t task, Out<double, 1> posterior) {
    check(s, task, 0);
    need(posterior.size() == size_t(s.labels()), "posterior has a place for every label");
    const auto d = s.predict(task, posterior.data());
    return {d.label, d.tied, int64_t(s.votes(task).size())};
}

void predict_all(const Online& s, Out<int32_t, 1> labels, Out<double, 1> confidence, Out<bool, 1> tie, Out<int64_t, 1> votes) {
    need(labels.size() == s.tasks() && confidence.size() == s.tasks() && tie.size() == s.tasks() && votes.size() == s.tasks(),
         "a place for every task");
    nb::gil_scoped_release released;
    std::vector<double> posterior(s.labels());
    for (uint32_t t = 0; t < s.tasks(); ++t) {
        votes.data()[t] = int64_t(s.votes(t).size());
        const auto d = s.predict(t, posterior.data());
        labels.data()[t] = votes.data()[t] ? d.label : -1;
        confidence.data()[t] = posterior[d.label];
        tie.data()[t] = d.tied && votes.data()[t];
    }
}

void export_votes(const Online& s, Out<int64_t, 1> task_ptr, Out<uint32_t, 1> row, Out<int64_t, 2> shares) {
    need(task_ptr.size() == s.tasks() + 1 && shares.size() == s.tasks() * size_t(s.labels()), "a place for every task");
    int64_t at = task_ptr.data()[0] = 0;
    for (uint32_t t = 0; t < s.tasks(); ++t) {
        need(size_t(at) + s.votes(t).size() <= row.size(), "a place for every vote");
        for (const uint32_t r : s.votes(t)) row.data()[at++] = r;
        task_ptr.data()[t + 1] = at;
        s.share(t, shares.data() + size_t(t) * s.labels());
    }
}

void restore(Online& s, In<uint64_t, 1> key, In<uint32_t, 1> row_worker, In<uint32_t, 1> row_label, In<int64_t, 1> task_ptr,
             In<uint32_t, 1> row, In<int64_t, 2> shares) {
    need(s.tasks() == 0 && s.rows() == 0, "only an empty state can be restored");
    need(task_ptr.size() == key.size() + 1 && shares.size() == key.size() * size_t(s.labels()), "a share for every task");
    need(row_worker.size() == row_label.size(), "a worker and a label for every row");
    nb::gil_scoped_release released;
    for (size_t r = 0; r < row_worker.size(); ++r) {
        need(row_label.data()[r] < uint32_t(s.labels()), "no such label");
        need(s.add_row(row_worker.data()[r], row_label.data()[r]) == r, "a row stands twice");
    }
    for (uint32_t t = 0; t < key.size(); ++t) {
        s.add_task(key.data()[t]);
        for (int64_t v = task_ptr.data()[t]; v < task_ptr.data()[t + 1]; ++v) {
            need(size_t(v) < row.size() && row.data()[v] < s.rows(), "no such row");
            s.add_vote(t, row.data()[v]);
        }
        s.set_share(t, shares.data() + size_t(t) * s.labels());
    }
}

template <class From, class To>
void copy_out(const From& from, Out<To, 1>& to) {
    need(to.size() == from.size(), "as many places as things");
    std::copy(from.begin(), from.end(), to.data());
}

}  // namespace

void bind_online(nb::module_& m) {
    nb::class_<Online>(m, "Online")
        .def(nb::init<std::vector<uint64_t>, bool, double>(), "label_hash"_a, "hard"_a, "strength"_a)
        .def_prop_ro("tasks", &Online::tasks)
        .def_prop_ro("rows", &Online::rows)
        .def_prop_ro("workers", &Online::workers)
        .def("add_tasks", [](Online& s, In<uint64_t, 1> keys) {
            for (size_t i = 0; i < keys.size(); ++i) s.add_task(keys.data()[i]);
        }, "keys"_a.noconvert())
        .def("learn", [](Online& s, uint32_t task, uint32_t worker, uint32_t label, bool replace) {
            check(s, task, label);
            s.learn(task, worker, label, replace);
        }, "task"_a, "worker"_a, "label"_a, "replace"_a)
        .def("learn_many", &learn_many, "task"_a.noconvert(), "worker"_a.noconvert(), "label"_a.noconvert(), "replace"_a)
        .def("retract", [](Online& s, uint32_t task, uint32_t worker) {
            check(s, task, 0);
            return s.retract(task, worker);
        }, "task"_a, "worker"_a)
        .def("predict", &predict, "task"_a, "posterior"_a.noconvert())
        .def("predict_all", &predict_all, "labels"_a.noconvert(), "confidence"_a.noconvert(), "tie"_a.noconvert(), "votes"_a.noconvert())
        .def("n_votes", [](const Online& s) {
            size_t all = 0;
            for (uint32_t t = 0; t < s.tasks(); ++t) all += s.votes(t).size();
            return all;
        })
        .def("export_votes", &export_votes, "task_ptr"_a.noconvert(), "row"_a.noconvert(), "shares"_a.noconvert())
        .def("export_rows", [](const Online& s, Out<uint32_t, 1> worker, Out<uint32_t, 1> label) {
            need(worker.size() == s.rows() && label.size() == s.rows(), "a place for every row");
            for (size_t r = 0; r < s.rows(); ++r) worker.data()[r] = s.row_worker(r), label.data()[r] = s.row_label(r);
        }, "worker"_a.noconvert(), "label"_a.noconvert())
        .def("restore", &restore, "key"_a.noconvert(), "row_worker"_a.noconvert(), "row_label"_a.noconvert(),
             "task_ptr"_a.noconvert(), "row"_a.noconvert(), "shares"_a.noconvert())
        .def("counts", [](const Online& s, Out<int64_t, 1> out) { copy_out(s.counts(), out); }, "out"_a.noconvert())
        .def("class_counts", [](const Online& s, Out<int64_t, 1> out) { copy_out(s.class_counts(), out); }, "out"_a.noconvert())
        .def("confusion", [](const Online& s, uint32_t worker, Out<double, 2> out) {
            need(worker < s.workers() && out.size() == size_t(s.labels()) * s.labels(), "no such worker");
            for (int c = 0; c < s.labels(); ++c)
                for (int g = 0; g < s.labels(); ++g) out.data()[size_t(c) * s.labels() + g] = s.confusion(worker, g, c);
        }, "worker"_a, "out"_a.noconvert());
}

}  // namespace quorate
