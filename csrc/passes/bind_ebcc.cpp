// Python binding of EBCC's kernel: checks shapes and codes, releases the GIL, distributes restarts over threads.
#include <nanobind/stl/optional.h>

#include <optional>
#include <string>
#include <vector>

#include "../bind_common.hpp"
#include "../threads.hpp"
#include "ebcc.hpp"
#include "special.hpp"

namespace nb = nanobind;
using namespace adjudge;

namespace {

void need(bool fits, const char* name) {
    if (fits) return;
    throw nb::value_error((std::string(name) + " does not have the shape or the values that the other arrays ask for").c_str());
}

template <class T>
void need_codes(const T* codes, size_t n, int64_t below, int64_t least, const char* name) {
    for (size_t i = 0; i < n; ++i) need(int64_t(codes[i]) >= least && int64_t(codes[i]) < below, name);
}

template <class T>
void need_offsets(const T* at, size_t n, size_t most, const char* name) {
    need(n >= 1 && at[0] == 0 && size_t(at[n - 1]) == most, name);
    for (size_t i = 1; i < n; ++i) need(at[i] >= at[i - 1], name);
}

void py_ebcc(In<int64_t, 1> task_ptr, In<uint32_t, 1> row, In<int64_t, 1> row_pair, In<double, 1> row_weight,
             In<int32_t, 1> pair_label, In<int64_t, 1> worker_ptr, In<double, 2> shares, In<int32_t, 1> gold,
             In<uint64_t, 1> task_key, In<uint64_t, 1> label_hash, int subtypes, int64_t first, double diagonal, double other,
             double subtype_weight, std::optional<In<double, 1>> class_weight, std::optional<In<double, 1>> log_classes,
             double tol, Out<double, 3> posterior, Out<double, 2> bound, Out<int64_t, 2> changed,
             Out<int64_t, 1> iterations, int threads) {
    Ebcc e;
    const size_t k = label_hash.size(), tasks = task_key.size(), restarts = iterations.size();
    need(k >= 1 && subtypes >= 1, "subtypes");
    need(task_ptr.size() == tasks + 1, "task_ptr");
    need_offsets(task_ptr.data(), task_ptr.size(), row.size(), "task_ptr");
    need_codes(row.data(), row.size(), int64_t(row_pair.size()), 0, "row");
    need_codes(row_pair.data(), row_pair.size(), int64_t(pair_label.size()), 0, "row_pair");
    need(row_weight.size() == row_pair.size(), "row_weight");
    need_codes(pair_label.data(), pair_label.size(), int64_t(k), 0, "pair_label");
    need_offsets(worker_ptr.data(), worker_ptr.size(), pair_label.size(), "worker_ptr");
    need(shares.shape(0) == tasks && shares.shape(1) == k, "shares");
    need(gold.size() == tasks, "gold");
    need_codes(gold.data(), tasks, int64_t(k), -1, "gold");
    need(bool(class_weight) != bool(log_classes), "class_weight");
    need((class_weight ? class_weight : log_classes)->size() == k, "class_weight");
    need(posterior.shape(0) == restarts && posterior.shape(1) == tasks && posterior.shape(2) == k, "posterior");
    need(bound.shape(0) == restarts && bound.shape(1) >= 1, "bound");
    need(changed.shape(0) == restarts && changed.shape(1) == bound.shape(1), "changed");
    e.task_ptr = task_ptr.data();
    e.row = row.data();
    e.tasks = int64_t(tasks);
    e.row_pair = row_pair.data();
    e.row_weight = row_weight.data();
    e.pair_label = pair_label.data();
    e.worker_ptr = worker_ptr.data();
    e.pairs = int64_t(pair_label.size());
    e.workers = int64_t(worker_ptr.size()) - 1;
    e.shares = shares.data();
    e.gold = gold.data();
    e.task_key = task_key.data();
    e.label_hash = label_hash.data();
    e.k = int(k);
    e.subtypes = subtypes;
    e.diagonal = diagonal;
    e.other = other;
    e.subtype_weight = subtype_weight;
    e.class_weight = class_weight ? class_weight->data() : nullptr;
    e.log_classes = log_classes ? log_classes->data() : nullptr;
    e.tol = tol;
    e.max_iter = int64_t(bound.shape(1));
    const size_t most = size_t(e.max_iter), crew = std::min<size_t>(size_t(std::max(threads, 1)), std::max<size_t>(restarts, 1));
    nb::gil_scoped_release release;
    std::vector<std::vector<double>> room(crew, std::vector<double>(ebcc_room(e)));
    std::vector<std::vector<int32_t>> labels(crew, std::vector<int32_t>(tasks));
    share_out(int(crew), int64_t(restarts), [&](int thread, int64_t i) {
        const EbccOut out{posterior.data() + size_t(i) * tasks * k, bound.data() + size_t(i) * most,
                          changed.data() + size_t(i) * most, iterations.data() + i};
        ebcc_restart(e, first + i, out, room[size_t(thread)].data(), labels[size_t(thread)].data());
    });
}

void py_gamma_logs(In<double, 1> x, Out<double, 1> digamma, Out<double, 1> log_gamma) {
    need(digamma.size() == x.size() && log_gamma.size() == x.size(), "x");
    for (size_t i = 0; i < x.size(); ++i) {
        const GammaLogs both = gamma_logs(x.data()[i]);
        digamma.data()[i] = both.digamma;
        log_gamma.data()[i] = both.log_gamma;
    }
}

}  // namespace

void adjudge::bind_ebcc(nb::module_& m) {
    using namespace nb::literals;
    m.def("ebcc", &py_ebcc, "task_ptr"_a.noconvert(), "row"_a.noconvert(), "row_pair"_a.noconvert(),
          "row_weight"_a.noconvert(), "pair_label"_a.noconvert(), "worker_ptr"_a.noconvert(), "shares"_a.noconvert(),
          "gold"_a.noconvert(), "task_key"_a.noconvert(), "label_hash"_a.noconvert(), nb::kw_only(), "subtypes"_a, "first"_a,
          "diagonal"_a, "other"_a, "subtype_weight"_a, "class_weight"_a.noconvert().none(),
          "log_classes"_a.noconvert().none(), "tol"_a, "posterior"_a.noconvert(), "bound"_a.noconvert(),
          "changed"_a.noconvert(), "iterations"_a.noconvert(), "threads"_a = 1);
    m.def("gamma_logs", &py_gamma_logs, "x"_a.noconvert(), "digamma"_a.noconvert(), "log_gamma"_a.noconvert());
}
