/* SPDX-License-Identifier: Apache-2.0
 *
 * LLVM IR of an AMD target -> an object file for this CPU: lanes.h.
 */
#ifndef TSR_TESTS_LANES_TRANSLATE_H
#define TSR_TESTS_LANES_TRANSLATE_H

#include "manifests/fatbin.h"
#include "manifests/program.h"

/* `ir`: text of a module. Writes the object to `path`. */
TSR_RESULT lanes_translate(tsr_ctx *ctx, const char *ir, size_t size_bytes,
                           const tsr_program *program, const tsr_fatbin *launches,
                           const char *path);

#endif
