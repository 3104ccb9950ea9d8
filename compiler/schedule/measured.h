/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of kernels that a measurement chose. The compiler gives them to every kernel of that
 * target with that signature (compiler/tile/signature.h).
 */
#ifndef TSR_COMPILER_SCHEDULE_MEASURED_H
#define TSR_COMPILER_SCHEDULE_MEASURED_H

#include <stddef.h>
#include <stdint.h>

enum { TSR_MEASURED_SIZES_MAX = 12 };

typedef struct tsr_measured {
    const char *target;    /* borrowed, like the signature: "cpu:x86-64-v3" */
    const char *signature; /* as in the schedule of a bundle */
    size_t count;          /* sizes */
    int64_t sizes[TSR_MEASURED_SIZES_MAX];
    uint64_t safe_ns, measured_ns; /* of the model's choice, and of these sizes; 0: not known */
} tsr_measured;

#endif
