/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks outputs of calls for values that are not finite.
 */
#ifndef TSR_LOADER_CALLS_FINITE_H
#define TSR_LOADER_CALLS_FINITE_H

#include "manifests/config.h"
#include "tessera/report.h"

/* The value of one output or one input of a call. Borrowed. */
typedef struct tsr_finite_port {
    const tsr_config_port *port;
    const void *data;
    uint64_t row_count;    /* rows to check; 1 if the entry has no rows */
    uint64_t row_elements; /* elements of each row */
    uint64_t first_row;    /* index of the first row in the file or tensor that it belongs to */
} tsr_finite_port;

/* Finds the first element to report: NaN, or an infinity if the output may not be infinite and the
 * same row of no input contains one. Reads `inputs` only if an output contains an infinity. Returns
 * false if there is no such element. */
bool tsr_finite_find(const tsr_finite_port *output, const tsr_finite_port *inputs,
                     size_t input_count, uint64_t *out_element, double *out_value);
/* Fails with TSR_NONFINITE: "output 'y' has nan at element [3, 5]; expected finite numbers". */
TSR_RESULT tsr_finite_refuse(tsr_ctx *ctx, const tsr_finite_port *output, uint64_t element,
                             double value);

#endif
