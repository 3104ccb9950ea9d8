/* SPDX-License-Identifier: Apache-2.0
 *
 * Options structs of public functions. Each begins with `size_t size_bytes`, its size where the
 * caller was compiled, and grows at its end only; zero is the default of every field.
 */
#ifndef TSR_BASE_OPTIONS_H
#define TSR_BASE_OPTIONS_H

#include "runtime/base/result.h"

/* Copies what the caller knows of the struct `type` (its name, for messages), `size_bytes` long
 * here, and zeroes the rest; NULL is all defaults. TSR_USAGE with both sizes for a larger struct
 * (of a newer header) or one too small to hold its size. */
TSR_RESULT tsr_options_copy(tsr_ctx *ctx, const char *type, const void *options, void *out_options,
                            size_t size_bytes);

#endif
