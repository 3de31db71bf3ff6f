// Buffers of the core as NumPy arrays.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>

#include "encode/growing.hpp"

namespace quorate {

template <class T>
using Array = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>, nanobind::c_contig>;

// Returns a NumPy array that owns the buffer. Bytes are held as char and shown as uint8.
template <class Shown, class T>
Array<Shown> owned(Growing<T>&& buffer) {
    static_assert(sizeof(Shown) == sizeof(T));
    auto* kept = new Growing<T>(std::move(buffer));
    nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<Growing<T>*>(p); });
    return Array<Shown>(kept->data(), {kept->size()}, owner);
}

}  // namespace quorate
