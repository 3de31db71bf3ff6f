// What the Python faces of all parts share: arrays in and out, and the check of their shapes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>

#include "encode/growing.hpp"

namespace adjudge {

// What each part of the core offers to Python.
void bind_passes(nanobind::module_& m);
void bind_messages(nanobind::module_& m);
void bind_encode(nanobind::module_& m);
void bind_online(nanobind::module_& m);
void bind_light(nanobind::module_& m);
void bind_ebcc(nanobind::module_& m);
void bind_careful(nanobind::module_& m);
void bind_wide(nanobind::module_& m);
void bind_scores(nanobind::module_& m);
void bind_ranking(nanobind::module_& m);

// Arrays that are read, and arrays that are written into.
template <class T, int D = 1>
using In = nanobind::ndarray<const T, nanobind::ndim<D>, nanobind::c_contig, nanobind::device::cpu>;
template <class T, int D = 1>
using Out = nanobind::ndarray<T, nanobind::ndim<D>, nanobind::c_contig, nanobind::device::cpu>;
// Arrays that the core makes.
template <class T>
using Array = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>, nanobind::c_contig>;

// ValueError with this message, unless what is given fits.
inline void require(bool fits, const char* message) {
    if (!fits) throw nanobind::value_error(message);
}

// Returns a NumPy array that owns the buffer. Bytes are held as char and shown as uint8.
template <class Shown, class T>
Array<Shown> owned(Growing<T>&& buffer) {
    static_assert(sizeof(Shown) == sizeof(T));
    auto* kept = new Growing<T>(std::move(buffer));
    nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<Growing<T>*>(p); });
    return Array<Shown>(kept->data(), {kept->size()}, owner);
}

}  // namespace adjudge
