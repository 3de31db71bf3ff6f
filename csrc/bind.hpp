// What each part of the core offers to Python.
#pragma once

#include <nanobind/nanobind.h>

namespace quorate {

void bind_passes(nanobind::module_& m);
void bind_encode(nanobind::module_& m);
void bind_online(nanobind::module_& m);

}  // namespace quorate
