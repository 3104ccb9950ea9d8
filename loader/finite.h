/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs of calls that are not finite.
 */
#ifndef TSR_LOADER_FINITE_H
#define TSR_LOADER_FINITE_H

#include "manifests/config.h"
#include "runtime/report.h"

/* What one call gave for one output, or took for one input. Borrowed. */
typedef struct tsr_finite_port {
    const tsr_config_port *port;
    const void *data;
    uint64_t row_count;    /* that count; 1 where the entry has no rows */
    uint64_t row_elements; /* of each */
    uint64_t first_row;    /* of the file or tensor that the rows belong to */
} tsr_finite_port;

/* The first element that is to be reported: NaN, or an infinity where the output may not be
 * infinite and that row of no input holds one. `inputs` are looked at only where an output has an
 * infinity. False if there is none. */
bool tsr_finite_find(const tsr_finite_port *output, const tsr_finite_port *inputs,
                     size_t input_count, uint64_t *out_element, double *out_value);
/* "output 'y' has nan at element [3, 5]; expected finite numbers" as TSR_NONFINITE. */
TSR_RESULT tsr_finite_refuse(tsr_ctx *ctx, const tsr_finite_port *output, uint64_t element,
                             double value);

#endif
