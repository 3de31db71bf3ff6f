#include "arrow_export.hpp"

#include <cerrno>
#include <exception>
#include <memory>
#include <utility>

namespace adjudge {
namespace {

struct Exported {
    const void* buffers[3];  // validity (none: all are there), offsets, bytes
    std::function<void()> let_go;
};

void release_schema(ArrowSchema* schema) { schema->release = nullptr; }  // all its strings are constants

void release_array(ArrowArray* array) {
    const std::unique_ptr<Exported> exported(static_cast<Exported*>(array->private_data));
    array->release = nullptr;
    exported->let_go();
}

// A column of a table, or a table: a consumer may move columns out, and release them later than their table.
struct ExportedColumn {
    const void* buffers[4];  // validity, views, the longer texts, and how many bytes these have
    int64_t text_size;
    std::shared_ptr<void> kept;
};

struct ExportedTable {
    std::vector<ArrowArray> columns;
    std::vector<ArrowArray*> children;
    const void* buffers[1] = {nullptr};
};

struct ExportedSchema {
    std::vector<std::string> names;
    std::vector<ArrowSchema> columns;
    std::vector<ArrowSchema*> children;
};

struct ExportedTables {
    std::vector<std::string> names;
    std::vector<ViewTable> tables;
    std::shared_ptr<void> kept;
    size_t next = 0;
    std::string error;
};

template <class Exported, class Struct>
void release_with_children(Struct* released) {
    const std::unique_ptr<Exported> exported(static_cast<Exported*>(released->private_data));
    for (auto& column : exported->columns)
        if (column.release) column.release(&column);
    released->release = nullptr;
}

void release_column(ArrowArray* array) {
    delete static_cast<ExportedColumn*>(array->private_data);
    array->release = nullptr;
}

void export_schema(const std::vector<std::string>& names, ArrowSchema* schema) {
    auto exported = std::make_unique<ExportedSchema>(ExportedSchema{names, {}, {}});
    for (const std::string& name : exported->names)
        exported->columns.push_back({"vu", name.c_str(), nullptr, 2, 0, nullptr, nullptr, release_schema, nullptr});  // 2: nullable
    for (ArrowSchema& column : exported->columns) exported->children.push_back(&column);
    *schema = {"+s", "", nullptr, 0, static_cast<int64_t>(names.size()), exported->children.data(), nullptr,
               release_with_children<ExportedSchema, ArrowSchema>, nullptr};
    schema->private_data = exported.release();
}

void export_table(const ViewTable& table, const std::shared_ptr<void>& kept, ArrowArray* array) {
    auto exported = std::make_unique<ExportedTable>();
    exported->columns.reserve(table.columns.size());
    for (const ViewTable::Column& column : table.columns) {
        auto* own = new ExportedColumn{{column.validity, column.views, table.text, nullptr}, table.text_size, kept};
        own->buffers[3] = &own->text_size;
        exported->columns.push_back({table.rows, column.missing, 0, 4, 0, own->buffers, nullptr, nullptr, release_column, own});
    }
    for (ArrowArray& column : exported->columns) exported->children.push_back(&column);
    *array = {table.rows, 0, 0, 1, static_cast<int64_t>(table.columns.size()), exported->buffers, exported->children.data(),
              nullptr, release_with_children<ExportedTable, ArrowArray>, nullptr};
    array->private_data = exported.release();
}

// Calls `work`; if it throws, keeps the message for the consumer.
template <class Work>
int guarded(ExportedTables& exported, Work work) {
    try {
        work();
        return 0;
    } catch (const std::exception& failure) {
        exported.error = failure.what();
        return ENOMEM;
    }
}

int next_table(ArrowArrayStream* stream, ArrowArray* array) {
    auto& exported = *static_cast<ExportedTables*>(stream->private_data);
    array->release = nullptr;  // the end, unless there is a table
    return guarded(exported, [&] {
        if (exported.next < exported.tables.size()) export_table(exported.tables[exported.next], exported.kept, array);
        ++exported.next;
    });
}

int schema_of(ArrowArrayStream* stream, ArrowSchema* schema) {
    auto& exported = *static_cast<ExportedTables*>(stream->private_data);
    return guarded(exported, [&] { export_schema(exported.names, schema); });
}

const char* error_of(ArrowArrayStream* stream) { return static_cast<ExportedTables*>(stream->private_data)->error.c_str(); }

void release_stream(ArrowArrayStream* stream) {
    delete static_cast<ExportedTables*>(stream->private_data);
    stream->release = nullptr;
}

}  // namespace

void export_tables(std::vector<std::string> names, std::vector<ViewTable> tables, std::shared_ptr<void> kept,
                   ArrowArrayStream* stream) {
    auto* exported = new ExportedTables{std::move(names), std::move(tables), std::move(kept), 0, {}};
    *stream = {schema_of, next_table, error_of, release_stream, exported};
}

void export_texts(const int64_t* offsets, const char* data, size_t n, std::function<void()> let_go,
                  ArrowSchema* schema, ArrowArray* array) {
    auto exported = std::make_unique<Exported>(Exported{{nullptr, offsets, data}, std::move(let_go)});
    *schema = {"U", "", nullptr, 0, 0, nullptr, nullptr, release_schema, nullptr};
    *array = {static_cast<int64_t>(n), 0, 0, 3, 0, exported->buffers, nullptr, nullptr, release_array, nullptr};
    array->private_data = exported.release();
}

}  // namespace adjudge
