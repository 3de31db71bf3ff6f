#include "arrow_stream.hpp"

#include <cstring>
#include <stdexcept>

namespace adjudge {
namespace {

Kind kind_of(const std::string& format) {
    if (format == "u" || format == "U" || format == "vu") return Kind::text;
    if (format.size() != 1) return Kind::other;
    if (std::strchr("cCsSiIlL", format[0])) return Kind::integer;
    if (std::strchr("efg", format[0])) return Kind::real;
    return format == "b" ? Kind::boolean : format == "n" ? Kind::null : Kind::other;
}

Field field_of(const ArrowSchema& schema) {
    const ArrowSchema& values = schema.dictionary ? *schema.dictionary : schema;
    return {schema.name ? schema.name : "", values.format, schema.dictionary ? schema.format : "", kind_of(values.format)};
}

}  // namespace

const uint8_t* validity_of(const ArrowArray& array) {
    const bool has_bits = array.null_count != 0 && array.n_buffers > 0;
    return has_bits ? static_cast<const uint8_t*>(array.buffers[0]) : nullptr;
}

const uint8_t* Column::validity() const { return validity_of(*array); }

Batch::Batch(std::shared_ptr<const std::vector<Field>> fields, bool is_table, ArrowArray array)
    : fields_(std::move(fields)), is_table_(is_table), array_(array) {}

Batch::~Batch() {
    if (array_.release) array_.release(&array_);
}

Column Batch::column(size_t i) const {
    const Field* field = &fields_->at(i);
    if (!is_table_) return {field, &array_, array_.offset, array_.length};
    // The offset of a table applies to its columns as well, on top of their own.
    const ArrowArray* child = array_.children[i];
    return {field, child, array_.offset + child->offset, array_.length};
}

Stream::Stream(ArrowArrayStream* source) : stream_(*source) {
    if (!source->release) throw std::runtime_error("this Arrow stream was read before");
    source->release = nullptr;
    ArrowSchema schema{};
    try {
        check(stream_.get_schema(&stream_, &schema));
        is_table_ = std::strcmp(schema.format, "+s") == 0;
        std::vector<Field> fields;
        for (int64_t i = 0; i < (is_table_ ? schema.n_children : 1); ++i)
            fields.push_back(field_of(is_table_ ? *schema.children[i] : schema));
        fields_ = std::make_shared<const std::vector<Field>>(std::move(fields));
    } catch (...) {
        if (schema.release) schema.release(&schema);
        stream_.release(&stream_);
        throw;
    }
    schema.release(&schema);
}

Stream::~Stream() { stream_.release(&stream_); }

std::unique_ptr<Batch> Stream::next() {
    ArrowArray array{};
    check(stream_.get_next(&stream_, &array));
    if (!array.release) return nullptr;
    auto batch = std::make_unique<Batch>(fields_, is_table_, array);
    if (is_table_ && array.null_count != 0 && validity_of(array)) {
        const uint8_t* bits = validity_of(array);
        for (int64_t i = array.offset; i < array.offset + array.length; ++i)
            if (!(bits[i >> 3] >> (i & 7) & 1)) throw std::runtime_error("a whole row of the table is missing");
    }
    return batch;
}

void Stream::check(int status) {
    if (status == 0) return;
    const char* words = stream_.get_last_error ? stream_.get_last_error(&stream_) : nullptr;
    throw std::runtime_error(words ? words : std::strerror(status));
}

}  // namespace adjudge
