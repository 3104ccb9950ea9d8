/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the toy (tests/runtime/toy.h) as code that every GPU from compute capability 8.0
 * on can translate. They have the arguments of a bundle's kernels, and round after each operation
 * as the CPU does. (The map that the third kernel takes is encoded only from 9.0 on.)
 */
#ifndef TSR_TESTS_RUNTIME_DEVICE_TOY_PTX_H
#define TSR_TESTS_RUNTIME_DEVICE_TOY_PTX_H

#include "runtime/base/arena.h"

#include <stdint.h>

/* Returns the text, which is in the arena; NULL if there is no memory. `limit`: see toy_limit. */
char *toy_ptx(tsr_arena *arena, int64_t limit);

#endif
