/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the toy (tests/runtime/toy.h) as code that any GPU from compute capability 8.0 on
 * translates: with the arguments of a bundle's kernels, each operation rounded by itself as on the
 * CPU. (The map that the third takes is encoded from 9.0 on.)
 */
#ifndef TSR_TESTS_RUNTIME_DEVICE_TOY_PTX_H
#define TSR_TESTS_RUNTIME_DEVICE_TOY_PTX_H

#include "runtime/base/arena.h"

#include <stdint.h>

/* In the arena; NULL without memory. `limit`: as toy_limit. */
char *toy_ptx(tsr_arena *arena, int64_t limit);

#endif
