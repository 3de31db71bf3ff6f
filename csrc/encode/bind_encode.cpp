// The Python face of the encoder: Arrow streams in, NumPy arrays out. No logic lives here.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "../bind_common.hpp"
#include "../threads.hpp"
#include "arrow_export.hpp"
#include "arrow_stream.hpp"
#include "column_encode.hpp"
#include "group_by_task.hpp"
#if !defined(_WIN32)
#include "plain_csv.hpp"
#endif
#include "repeats.hpp"
#include "row_numbers.hpp"
#include "whole_numbers.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace adjudge {
namespace {

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::text: return "string";
        case Kind::integer: return "integer";
        case Kind::boolean: return "boolean";
        case Kind::real: return "float";
        case Kind::null: return "null";
        default: return "other";
    }
}

std::unique_ptr<Stream> open_stream(nb::object capsule) {
    auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
    if (!stream) nb::raise_python_error();
    return std::make_unique<Stream>(stream);
}

using AnyDictionary = std::variant<NumberedTexts*, IntDictionary*>;

// Encodes the columns of one batch, each with its own dictionary onto the end of its own codes; columns go to threads.
// Any number of calls may share a batch. Streams, dictionaries and codes serve one call at a time: callers that read
// in threads of their own makes new ones in each, as every reader of the package does.
std::vector<std::pair<int64_t, int64_t>> encode_batch(const Batch& batch, const std::vector<size_t>& fields,
                                                      const std::vector<AnyDictionary>& dictionaries,
                                                      const std::vector<Growing<uint32_t>*>& codes, int threads) {
    if (fields.size() != dictionaries.size() || fields.size() != codes.size())
        throw std::invalid_argument("give a dictionary and codes for every field");
    std::vector<size_t> before;
    for (const auto* column : codes) before.push_back(column->size());
    std::vector<Missing> missing(fields.size());
    std::atomic<size_t> todo{0};
    try {
        in_threads(std::clamp(threads, 1, static_cast<int>(std::max<size_t>(fields.size(), 1))), [&](int) {
            for (size_t i; (i = todo.fetch_add(1)) < fields.size();) {
                const Column column = batch.column(fields[i]);
                uint32_t* out = codes[i]->extend(column.length);
                missing[i] = std::visit([&](auto* d) { return encode(*d, column, out); }, dictionaries[i]);
            }
        });
    } catch (...) {
        for (size_t i = 0; i < codes.size(); ++i) codes[i]->resize(before[i]);  // of a refused batch nothing stays
        throw;
    }
    std::vector<std::pair<int64_t, int64_t>> result;
    for (const Missing& m : missing) result.emplace_back(m.count, m.first);
    return result;
}

// The rows of the votes take the place of the workers' codes, and the labels' codes serve as scratch: at ten million
// votes every array that need not be touched afresh counts.
nb::tuple assemble(In<uint32_t> task, Out<uint32_t> worker, Out<uint32_t> label, size_t tasks,
                   In<uint32_t> worker_rank, In<uint32_t> label_rank, size_t labels, int threads) {
    const size_t votes = task.shape(0), workers = worker_rank.shape(0);
    if (worker.shape(0) != votes || label.shape(0) != votes) throw std::invalid_argument("codes of different lengths");
    threads = std::max(threads, 1);
    Growing<int64_t> task_ptr(tasks + 1), worker_ptr(workers + 1);
    Growing<int32_t> row_label;
    size_t total;
    {
        nb::gil_scoped_release released;
        number_rows(worker.data(), label.data(), votes, {worker_rank.data(), workers}, {label_rank.data(), labels},
                    worker_ptr.data(), row_label, threads);
        total = group_by_task(task.data(), worker.data(), label.data(), votes, tasks, task_ptr.data(), threads);
    }
    return nb::make_tuple(owned<int64_t>(std::move(task_ptr)), total, owned<int64_t>(std::move(worker_ptr)),
                          owned<int32_t>(std::move(row_label)));
}

// The rows of the votes are sorted in place, up to the number returned; those whose row is NONE are left out.
nb::tuple group(In<uint32_t> task, Out<uint32_t> row, size_t tasks, int threads) {
    const size_t votes = task.shape(0);
    if (row.shape(0) != votes) throw std::invalid_argument("codes of different lengths");
    Growing<int64_t> task_ptr(tasks + 1);
    size_t total;
    {
        nb::gil_scoped_release released;
        if (std::any_of(task.data(), task.data() + votes, [&](uint32_t code) { return code >= tasks; }))
            throw std::invalid_argument("a task's code lies beyond the tasks");
        Growing<uint32_t> scratch(votes);
        total = group_by_task(task.data(), row.data(), scratch.data(), votes, tasks, task_ptr.data(), std::max(threads, 1));
    }
    return nb::make_tuple(owned<int64_t>(std::move(task_ptr)), total);
}

int64_t repeats(In<int64_t> task_ptr, In<uint32_t> row, In<uint32_t> row_worker, int threads) {
    if (task_ptr.shape(0) == 0) throw std::invalid_argument("tasks and votes do not fit");
    nb::gil_scoped_release released;
    return count_repeats(task_ptr.data(), task_ptr.shape(0) - 1, row.data(), row.shape(0), row_worker.data(),
                         row_worker.shape(0), std::max(threads, 1));
}

// An object that consumers of Arrow accept as an array of texts; it keeps the NumPy arrays alive.
struct TextArray {
    nb::object offsets, data;
};

nb::tuple export_array(const TextArray& texts) {
    const auto offsets = nb::cast<In<int64_t>>(texts.offsets);
    const auto data = nb::cast<In<uint8_t>>(texts.data);
    auto* schema = new ArrowSchema{};
    nb::capsule schema_capsule(schema, "arrow_schema", [](void* p) noexcept {
        auto* s = static_cast<ArrowSchema*>(p);
        if (s->release) s->release(s);
        delete s;
    });
    auto* array = new ArrowArray{};
    nb::capsule array_capsule(array, "arrow_array", [](void* p) noexcept {
        auto* a = static_cast<ArrowArray*>(p);
        if (a->release) a->release(a);
        delete a;
    });
    PyObject *kept_offsets = nb::object(texts.offsets).release().ptr(), *kept_data = nb::object(texts.data).release().ptr();
    const auto let_go = [kept_offsets, kept_data] {
        if (!Py_IsInitialized()) return;  // the process ends: nothing is left to give back to
        nb::gil_scoped_acquire held;
        Py_DECREF(kept_offsets);
        Py_DECREF(kept_data);
    };
    export_texts(offsets.data(), reinterpret_cast<const char*>(data.data()), offsets.shape(0) - 1, let_go, schema, array);
    return nb::make_tuple(schema_capsule, array_capsule);
}

#if !defined(_WIN32)
// A stream that a consumer of Arrow takes over.
struct Tables {
    ArrowArrayStream stream{};
    ~Tables() {
        if (stream.release) stream.release(&stream);
    }
};

nb::capsule export_stream(Tables& tables) {
    auto* stream = new ArrowArrayStream(std::exchange(tables.stream, {}));
    return nb::capsule(stream, "arrow_array_stream", [](void* p) noexcept {
        auto* s = static_cast<ArrowArrayStream*>(p);
        if (s->release) s->release(s);
        delete s;
    });
}

std::unique_ptr<Tables> next_tables(PlainCsv& reader) {
    auto tables = std::make_unique<Tables>();
    try {
        nb::gil_scoped_release released;
        return reader.next(&tables->stream) ? std::move(tables) : nullptr;
    } catch (const std::system_error& failure) {
        errno = failure.code().value();
        PyErr_SetFromErrno(PyExc_OSError);
    }
    nb::raise_python_error();
}
#endif

nb::object whole_numbers_of(In<int64_t> offsets, In<uint8_t> data) {
    Growing<int64_t> numbers;
    bool all;
    {
        nb::gil_scoped_release released;
        all = whole_numbers(offsets.data(), reinterpret_cast<const char*>(data.data()), offsets.shape(0) - 1, numbers);
    }
    return all ? nb::cast(owned<int64_t>(std::move(numbers))) : nb::none();
}

}  // namespace

void bind_encode(nb::module_& m) {
    m.attr("NONE") = NONE;
    nb::class_<Batch>(m, "Batch").def("__len__", &Batch::length);
    nb::class_<Stream>(m, "Stream")
        .def(nb::new_(&open_stream), "capsule"_a)
        .def_prop_ro("names", [](const Stream& s) {
            std::vector<std::string> names;
            for (const Field& f : s.fields()) names.push_back(f.name);
            return names;
        })
        .def_prop_ro("kinds", [](const Stream& s) {
            std::vector<std::string> kinds;
            for (const Field& f : s.fields()) kinds.push_back(name_of(f.kind));
            return kinds;
        })
        .def_prop_ro("formats", [](const Stream& s) {
            std::vector<std::string> formats;
            for (const Field& f : s.fields()) formats.push_back(f.format);
            return formats;
        })
        .def("next", &Stream::next, nb::call_guard<nb::gil_scoped_release>());
    nb::class_<NumberedTexts>(m, "TextDictionary")
        .def(nb::init<>())
        .def("__len__", &NumberedTexts::size)
        .def("texts", [](const NumberedTexts& numbered) {  // copies
            const TextDictionary& d = numbered.texts();
            Growing<int64_t> offsets(d.offsets().size());
            std::copy_n(d.offsets().data(), offsets.size(), offsets.data());
            Growing<char> data(d.data().size());
            std::copy_n(d.data().data(), data.size(), data.data());
            return nb::make_tuple(owned<int64_t>(std::move(offsets)), owned<uint8_t>(std::move(data)));
        })
        .def("finish", [](NumberedTexts& d) {
            Growing<int64_t> offsets;
            Growing<char> data;
            d.finish(offsets, data);
            return nb::make_tuple(owned<int64_t>(std::move(offsets)), owned<uint8_t>(std::move(data)));
        });
    nb::class_<IntDictionary>(m, "IntDictionary")
        .def(nb::init<>())
        .def("__len__", &IntDictionary::size)
        .def("finish", [](IntDictionary& d) { return owned<int64_t>(d.finish()); });
    nb::class_<Growing<uint32_t>>(m, "Codes")
        .def(nb::init<>())
        .def("__len__", &Growing<uint32_t>::size)
        .def("finish", [](Growing<uint32_t>& codes) {
            codes.shrink();
            return owned<uint32_t>(std::move(codes));
        });
    nb::class_<TextArray>(m, "TextArray")
        .def("__init__", [](TextArray* self, In<int64_t> offsets, In<uint8_t> data) {
            if (offsets.shape(0) == 0) throw std::invalid_argument("offsets begin with 0");
            new (self) TextArray{offsets.cast(), data.cast()};
        }, "offsets"_a, "data"_a)
        .def("__arrow_c_array__", [](const TextArray& texts, nb::object) { return export_array(texts); },
             "requested_schema"_a = nb::none());
#if !defined(_WIN32)
    nb::class_<Tables>(m, "Tables")
        .def("__arrow_c_stream__", [](Tables& tables, nb::object) { return export_stream(tables); },
             "requested_schema"_a = nb::none());
    nb::class_<PlainCsv>(m, "PlainCsv")
        .def(nb::init<int, char, size_t, std::vector<size_t>, std::vector<std::string>, int, int64_t>(),
             "file"_a, "separator"_a, "width"_a, "wanted"_a, "names"_a, "threads"_a, "piece"_a = PlainCsv::PIECE_BYTES)
        .def("next", &next_tables)
        .def_prop_ro("is_whole", &PlainCsv::is_whole);
#endif
    m.def("encode", &encode_batch, "batch"_a, "fields"_a, "dictionaries"_a, "codes"_a, "threads"_a = 1,
          nb::call_guard<nb::gil_scoped_release>());
    m.def("assemble", &assemble, "task"_a, "worker"_a, "label"_a, "tasks"_a, "worker_rank"_a, "label_rank"_a,
          "labels"_a, "threads"_a = 1);
    m.def("group_by_task", &group, "task"_a, "row"_a, "tasks"_a, "threads"_a = 1);
    m.def("repeats", &repeats, "task_ptr"_a, "row"_a, "row_worker"_a, "threads"_a = 1);
    m.def("whole_numbers", &whole_numbers_of, "offsets"_a, "data"_a);
}

}  // namespace adjudge
