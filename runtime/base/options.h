/* SPDX-License-Identifier: Apache-2.0
 *
 * Option structs of public functions. Each options struct begins with `size_t size_bytes`, the
 * struct's size when the caller was compiled. New fields are added only at the end; zero is the
 * default of every field.
 */
#ifndef TSR_BASE_OPTIONS_H
#define TSR_BASE_OPTIONS_H

#include "runtime/base/result.h"

/* Copies the caller's fields of the struct `type` (its name, for messages) and zeroes the rest.
 * `size_bytes` is the struct's size in this library. NULL sets all defaults. TSR_USAGE with both
 * sizes if the struct is larger (from a newer header) or too small for its size field. */
TSR_RESULT tsr_options_copy(tsr_ctx *ctx, const char *type, const void *options, void *out_options,
                            size_t size_bytes);

#endif
