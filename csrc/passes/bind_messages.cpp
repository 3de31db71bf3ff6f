// Python binding of messages and of pairs of workers: checks shapes and indices, releases the GIL.
#include "../bind_common.hpp"
#include "messages.hpp"
#include "votes.hpp"

namespace nb = nanobind;
using namespace adjudge;

namespace {

// Raises unless offsets rise from 0 to `end`.
void need_offsets(const In<int64_t>& ptr, size_t end, const char* message) {
    require(ptr.size() >= 1 && ptr.data()[0] == 0 && ptr.data()[ptr.size() - 1] == int64_t(end), message);
    require(rises(ptr.data(), ptr.size()), message);
}

template <class T>
void need_below(const In<T>& index, size_t n, const char* message) {
    for (size_t i = 0; i < index.size(); ++i) require(index.data()[i] >= 0 && size_t(index.data()[i]) < n, message);
}

Edges edges_of(const In<int64_t>& task_ptr, const In<int64_t>& worker_ptr, const In<int64_t>& vote,
               const In<double>& sign) {
    need_offsets(task_ptr, sign.size(), "task_ptr does not rise from 0 to the number of votes");
    need_offsets(worker_ptr, sign.size(), "worker_ptr does not rise from 0 to the number of votes");
    require(vote.size() == sign.size(), "vote does not have one position per vote");
    Edges e;
    e.task_ptr = task_ptr.data();
    e.tasks = int64_t(task_ptr.size()) - 1;
    e.worker_ptr = worker_ptr.data();
    e.vote = vote.data();
    e.workers = int64_t(worker_ptr.size()) - 1;
    e.sign = sign.data();
    return e;
}

double py_kos_tasks(In<int64_t> task_ptr, In<int64_t> worker_ptr, In<int64_t> vote, In<double> sign, In<double> to_task,
                    Out<double> to_worker, Out<double> score, Out<double> weight, int threads) {
    const Edges e = edges_of(task_ptr, worker_ptr, vote, sign);
    require(to_task.size() == sign.size() && to_worker.size() == sign.size(), "a message per vote is needed");
    require(score.size() == size_t(e.tasks) && weight.size() == size_t(e.tasks), "a score and weight per task are needed");
    nb::gil_scoped_release release;
    return kos_tasks(e, to_task.data(), to_worker.data(), score.data(), weight.data(), threads);
}

double py_kos_workers(In<int64_t> task_ptr, In<int64_t> worker_ptr, In<int64_t> vote, In<double> sign,
                      In<double> to_worker, Out<double> to_task, Out<double> total, int threads) {
    const Edges e = edges_of(task_ptr, worker_ptr, vote, sign);
    require(to_task.size() == sign.size() && to_worker.size() == sign.size(), "a message per vote is needed");
    require(total.size() == size_t(e.workers), "a total per worker is needed");
    need_below(vote, sign.size(), "vote holds a position that no vote has");
    nb::gil_scoped_release release;
    return kos_workers(e, to_worker.data(), to_task.data(), total.data(), threads);
}

Casts casts_of(const In<int64_t>& task_ptr, const In<int64_t>& task, const In<int32_t>& worker,
               const In<int32_t>& label, const In<int64_t>& times, const In<int64_t>& worker_ptr,
               const In<int64_t>& cast) {
    const size_t n = task.size();
    need_offsets(task_ptr, n, "task_ptr does not rise from 0 to the number of casts");
    need_offsets(worker_ptr, n, "worker_ptr does not rise from 0 to the number of casts");
    require(worker.size() == n && label.size() == n && times.size() == n && cast.size() == n, "casts differ in number");
    need_below(task, task_ptr.size() - 1, "task holds a code that no task has");
    need_below(worker, worker_ptr.size() - 1, "worker holds a code that no worker has");
    need_below(cast, n, "cast holds a position that no cast has");
    Casts c;
    c.task_ptr = task_ptr.data();
    c.tasks = int64_t(task_ptr.size()) - 1;
    c.task = task.data();
    c.worker = worker.data();
    c.label = label.data();
    c.times = times.data();
    c.worker_ptr = worker_ptr.data();
    c.cast = cast.data();
    c.workers = int64_t(worker_ptr.size()) - 1;
    return c;
}

void py_count_pairs(In<int64_t> task_ptr, In<int64_t> task, In<int32_t> worker, In<int32_t> label, In<int64_t> times,
                    In<int64_t> worker_ptr, In<int64_t> cast, Out<int64_t> degree, int threads) {
    const Casts c = casts_of(task_ptr, task, worker, label, times, worker_ptr, cast);
    require(degree.size() == size_t(c.workers), "a degree per worker is needed");
    nb::gil_scoped_release release;
    count_pairs(c, degree.data(), threads);
}

void py_fill_pairs(In<int64_t> task_ptr, In<int64_t> task, In<int32_t> worker, In<int32_t> label, In<int64_t> times,
                   In<int64_t> worker_ptr, In<int64_t> cast, In<int64_t> ptr, Out<int32_t> other, Out<int64_t> common,
                   Out<int64_t> agreed, int threads) {
    const Casts c = casts_of(task_ptr, task, worker, label, times, worker_ptr, cast);
    need_offsets(ptr, other.size(), "ptr does not rise from 0 to the number of pairs");
    require(ptr.size() == worker_ptr.size(), "ptr does not have one place per worker");
    require(common.size() == other.size() && agreed.size() == other.size(), "pairs differ in number");
    nb::gil_scoped_release release;
    fill_pairs(c, ptr.data(), other.data(), common.data(), agreed.data(), threads);
}

void py_trimmed_ratios(In<int64_t> ptr, In<int32_t> other, In<double> size, In<int64_t> trim, In<double> of,
                       In<double> own, Out<double> out, int threads) {
    need_offsets(ptr, other.size(), "ptr does not rise from 0 to the number of pairs");
    const size_t workers = ptr.size() - 1;
    require(size.size() == other.size(), "a size per pair is needed");
    require(trim.size() == workers && of.size() == workers && own.size() == workers && out.size() == workers,
            "a number per worker is needed");
    need_below(other, workers, "other holds a code that no worker has");
    nb::gil_scoped_release release;
    trimmed_ratios(ptr.data(), int64_t(workers), other.data(), size.data(), trim.data(), of.data(), own.data(),
                   out.data(), threads);
}

}  // namespace

namespace adjudge {

void bind_messages(nb::module_& m) {
    m.def("kos_tasks", &py_kos_tasks, nb::arg("task_ptr"), nb::arg("worker_ptr"), nb::arg("vote"), nb::arg("sign"),
          nb::arg("to_task"), nb::arg("to_worker").noconvert(), nb::arg("score").noconvert(),
          nb::arg("weight").noconvert(), nb::arg("threads"));
    m.def("kos_workers", &py_kos_workers, nb::arg("task_ptr"), nb::arg("worker_ptr"), nb::arg("vote"), nb::arg("sign"),
          nb::arg("to_worker"), nb::arg("to_task").noconvert(), nb::arg("total").noconvert(), nb::arg("threads"));
    m.def("count_pairs", &py_count_pairs, nb::arg("task_ptr"), nb::arg("task"), nb::arg("worker"), nb::arg("label"),
          nb::arg("times"), nb::arg("worker_ptr"), nb::arg("cast"), nb::arg("degree").noconvert(), nb::arg("threads"));
    m.def("fill_pairs", &py_fill_pairs, nb::arg("task_ptr"), nb::arg("task"), nb::arg("worker"), nb::arg("label"),
          nb::arg("times"), nb::arg("worker_ptr"), nb::arg("cast"), nb::arg("ptr"), nb::arg("other").noconvert(),
          nb::arg("common").noconvert(), nb::arg("agreed").noconvert(), nb::arg("threads"));
    m.def("trimmed_ratios", &py_trimmed_ratios, nb::arg("ptr"), nb::arg("other"), nb::arg("size"), nb::arg("trim"),
          nb::arg("of"), nb::arg("own"), nb::arg("out").noconvert(), nb::arg("threads"));
}

}  // namespace adjudge
