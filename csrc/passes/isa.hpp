// The name of the instruction set this file is compiled for.
//
// The kernels are compiled several times, each time with other flags, and the machine picks at run time. Everything
// they are made of lives in a namespace of that name: two functions of the same name compiled with different flags
// would be one function to the linker, and the wrong one could win.
#pragma once

#ifndef ADJUDGE_ISA
#define ADJUDGE_ISA baseline
#endif

#define ADJUDGE_INLINE inline __attribute__((always_inline))
#define ADJUDGE_APART __attribute__((noinline))  // called once per block of tasks: compiled once, not into every caller
