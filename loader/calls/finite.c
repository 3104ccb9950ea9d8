/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/calls/finite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *row_at(const tsr_finite_port *port, uint64_t row) {
    return (const char *)port->data + row * port->row_elements * tsr_dtype_size(port->port->dtype);
}

/* Returns true if the caller passed an infinity, or NaN, in this row. */
static bool is_given(const tsr_finite_port *inputs, size_t input_count, uint64_t row) {
    double value;
    for (size_t i = 0; i < input_count; i++) {
        const tsr_finite_port *input = &inputs[i];
        if (row < input->row_count &&
            tsr_dtype_find_nonfinite(input->port->dtype, row_at(input, row), input->row_elements,
                                     &value) != UINT64_MAX)
            return true;
    }
    return false;
}

bool tsr_finite_find(const tsr_finite_port *output, const tsr_finite_port *inputs,
                     size_t input_count, uint64_t *out_element, double *out_value) {
    const uint64_t each = output->row_elements;
    const tsr_dtype dtype = output->port->dtype;
    for (uint64_t row = 0; row < output->row_count;) {
        uint64_t at = tsr_dtype_find_nonfinite(dtype, row_at(output, row),
                                               (output->row_count - row) * each, out_value);
        if (at == UINT64_MAX) return false;
        row += at / each;
        *out_element = row * each + at % each;
        if (isnan(*out_value)) return true;
        if (!output->port->may_be_infinite && !is_given(inputs, input_count, row)) return true;
        at = tsr_dtype_find_nan(dtype, row_at(output, row), each);
        if (at != UINT64_MAX) {
            *out_element = row * each + at;
            *out_value = (double)NAN;
            return true;
        }
        row++;
    }
    return false;
}

/* Formats "[3, 5]", the index in the whole tensor that the rows belong to. */
static void format_index(const tsr_finite_port *output, uint64_t element,
                         char out_text[static TSR_TYPE_TEXT_MAX]) {
    const tsr_shape *shape = &output->port->shape;
    uint64_t index[TSR_RANK_MAX] = {0};
    size_t used = 0;
    for (uint32_t d = shape->rank; d-- > 0;) {
        index[d] = element % shape->dims[d];
        element /= shape->dims[d];
    }
    index[0] += output->first_row;
    for (uint32_t d = 0; d < shape->rank; d++)
        used += (size_t)snprintf(out_text + used, TSR_TYPE_TEXT_MAX - used, "%s%" PRIu64,
                                 d ? ", " : "[", index[d]);
    snprintf(out_text + used, TSR_TYPE_TEXT_MAX - used, "]");
}

tsr_result tsr_finite_refuse(tsr_ctx *ctx, const tsr_finite_port *output, uint64_t element,
                             double value) {
    const char *name = output->port->name;
    const char *expected = output->port->may_be_infinite ? "no NaN" : "finite numbers";
    char index[TSR_TYPE_TEXT_MAX];
    if (output->port->shape.rank == 0)
        FAIL(ctx, TSR_NONFINITE, "output '%s' is %g; expected %s", name, value,
             output->port->may_be_infinite ? expected : "a finite number");
    format_index(output, element, index);
    FAIL(ctx, TSR_NONFINITE, "output '%s' has %g at element %s; expected %s", name, value, index,
         expected);
}
