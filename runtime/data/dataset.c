/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/data/dataset.h"

#include "runtime/base/plural.h"
#include "runtime/data/array_file.h"
#include "runtime/data/shuffle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t memory_limit_default = (uint64_t)1 << 30;

typedef struct dataset_column {
    tsr_array *array;    /* owned; NULL once it is in memory */
    unsigned char *rows; /* owned; NULL: read on demand */
    uint64_t row_elements;
    size_t row_bytes;
} dataset_column;

struct tsr_dataset {
    size_t column_count;
    dataset_column *columns; /* owned */
    uint64_t row_count, memory_bytes;
    uint64_t stream_offset; /* offset from a sample to its position in the shuffler's stream, modulo
                               2^64 */
    tsr_shuffler shuffler;
    uint32_t *shuffle_table; /* owned */
};

/* Formats "name: 64x64xui8, …" for all ports. */
static void describe_ports(const tsr_dataset_port *ports, size_t port_count, char *out_text,
                           size_t capacity) {
    size_t used = 0;
    out_text[0] = 0;
    for (size_t i = 0; i < port_count; i++) {
        char type[TSR_TYPE_TEXT_MAX];
        tsr_shape rows = {.rank = ports[i].shape.rank - 1};
        memcpy(rows.dims, ports[i].shape.dims + 1, rows.rank * sizeof rows.dims[0]);
        tsr_type_format(ports[i].dtype, &rows, type);
        int length = snprintf(out_text + used, capacity - used, "%s%s=Nx%s", i ? ", " : "",
                              ports[i].name, type);
        if (length < 0 || (size_t)length >= capacity - used) return;
        used += (size_t)length;
    }
}

static tsr_result find_binding(tsr_ctx *ctx, const tsr_dataset_port *ports, size_t port_count,
                               size_t port, const tsr_dataset_binding *bindings,
                               size_t binding_count, const char **out_spec) {
    const char *spec = NULL;
    for (size_t i = 0; i < binding_count; i++) {
        if (strcmp(bindings[i].name, ports[port].name) != 0) continue;
        if (spec)
            FAIL(ctx, TSR_USAGE, "data '%s' is bound twice: to '%s' and to '%s'", ports[port].name,
                 spec, bindings[i].spec);
        spec = bindings[i].spec;
    }
    if (!spec) {
        char text[TSR_ERROR_TEXT_MAX / 2];
        describe_ports(ports, port_count, text, sizeof text);
        FAIL(ctx, TSR_USAGE, "no data is bound to '%s'; the entry needs %s (N rows each)",
             ports[port].name, text);
    }
    *out_spec = spec;
    return TSR_SUCCESS;
}

static tsr_result check_batch(tsr_ctx *ctx, const tsr_dataset_port *first,
                              const tsr_dataset_port *port) {
    char type[TSR_TYPE_TEXT_MAX], first_type[TSR_TYPE_TEXT_MAX];
    if (port->shape.rank >= 1 && port->shape.rank <= TSR_RANK_MAX &&
        port->shape.dims[0] == first->shape.dims[0])
        return TSR_SUCCESS;
    FAIL(ctx, TSR_CORRUPT, "data '%s' is %s; '%s' is %s: the batches differ", port->name,
         tsr_type_format(port->dtype, &port->shape, type), first->name,
         tsr_type_format(first->dtype, &first->shape, first_type));
}

/* Fits the array to the port: number of elements in a row, and number of rows. */
static tsr_result fit(tsr_ctx *ctx, const tsr_dataset_port *port, const char *spec,
                      const tsr_array *array, dataset_column *out_column, uint64_t *out_rows) {
    const tsr_shape *have = tsr_array_get_shape(array);
    char have_text[TSR_TYPE_TEXT_MAX], want_text[TSR_TYPE_TEXT_MAX];
    tsr_shape row = {.rank = port->shape.rank - 1};
    memcpy(row.dims, port->shape.dims + 1, row.rank * sizeof row.dims[0]);
    bool same = have->rank == port->shape.rank &&
                memcmp(have->dims + 1, row.dims, row.rank * sizeof row.dims[0]) == 0;
    bool windows = have->rank == 1 && row.rank == 1;
    uint64_t bytes = 0;
    if (!tsr_shape_count(&row, &out_column->row_elements) ||
        !tsr_shape_size(&row, port->dtype, &bytes) || !bytes)
        FAIL(ctx, TSR_CORRUPT, "data '%s': rows of %s are empty or too large", port->name,
             tsr_type_format(port->dtype, &row, want_text));
    if (tsr_array_get_dtype(array) != port->dtype || !(same || windows))
        FAIL(ctx, TSR_DATA, "data '%s': '%s' is %s; expected Nx%s", port->name, spec,
             tsr_type_format(tsr_array_get_dtype(array), have, have_text),
             tsr_type_format(port->dtype, &row, want_text));
    out_column->row_bytes = (size_t)bytes;
    if (!same && !tsr_array_is_flat(array) && have->dims[0] % out_column->row_elements)
        tsr_log(ctx, TSR_LOG_NOTICE,
                "data '%s': the last %" PRIu64 " element%s of '%s' do not fill a row of %" PRIu64,
                port->name, have->dims[0] % out_column->row_elements,
                TSR_PLURAL(have->dims[0] % out_column->row_elements), spec,
                out_column->row_elements);
    *out_rows = same ? have->dims[0] : have->dims[0] / out_column->row_elements;
    tsr_shape read = port->shape;
    read.dims[0] = *out_rows;
    tsr_array_tell_flat(ctx, array, "data", port->name, &read);
    return TSR_SUCCESS;
}

static tsr_result load_column(tsr_ctx *ctx, const char *spec, uint64_t row_count,
                              dataset_column *column) {
    size_t bytes = (size_t)row_count * column->row_bytes;
    unsigned char *rows = malloc(bytes);
    if (!rows) FAIL(ctx, TSR_MEMORY, "no memory for the %zu bytes of '%s'", bytes, spec);
    tsr_result result =
        tsr_array_read(ctx, column->array, 0, row_count * column->row_elements, rows);
    if (result.code) {
        free(rows);
        return result;
    }
    column->rows = rows;
    tsr_array_close(ctx, column->array);
    column->array = NULL;
    return TSR_SUCCESS;
}

static tsr_result open_columns(tsr_ctx *ctx, const tsr_dataset_port *ports, size_t port_count,
                               const tsr_dataset_binding *bindings, size_t binding_count,
                               const tsr_dataset_options *options, tsr_dataset *dataset) {
    const uint64_t rows_min = options->rows_min ? options->rows_min : 1;
    const uint64_t limit = options->never_in_memory      ? 0
                           : options->memory_limit_bytes ? options->memory_limit_bytes
                                                         : memory_limit_default;
    for (size_t i = 0; i < port_count; i++) {
        dataset_column *column = &dataset->columns[i];
        const char *spec = NULL;
        uint64_t rows = 0;
        TRY(ctx, check_batch(ctx, &ports[0], &ports[i]));
        TRY(ctx, find_binding(ctx, ports, port_count, i, bindings, binding_count, &spec));
        TRY(ctx, tsr_array_open(ctx, spec, ports[i].dtype, &column->array));
        TRY(ctx, fit(ctx, &ports[i], spec, column->array, column, &rows));
        if (i && rows != dataset->row_count)
            FAIL(ctx, TSR_DATA, "data '%s' has %" PRIu64 " row%s; '%s' has %" PRIu64, ports[i].name,
                 rows, TSR_PLURAL(rows), ports[0].name, dataset->row_count);
        if (rows < rows_min)
            FAIL(ctx, TSR_DATA,
                 "data '%s': '%s' has %" PRIu64 " row%s; at least %" PRIu64 " %s needed",
                 ports[i].name, spec, rows, TSR_PLURAL(rows), rows_min, TSR_IS_ARE(rows_min));
        dataset->row_count = rows;
        const uint64_t bytes = rows * column->row_bytes;
        if (bytes > limit - dataset->memory_bytes) continue;
        TRY(ctx, load_column(ctx, spec, rows, column));
        dataset->memory_bytes += bytes;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_dataset_open(tsr_ctx *ctx, const tsr_dataset_port *ports, size_t port_count,
                            const tsr_dataset_binding *bindings, size_t binding_count,
                            const tsr_dataset_options *options, tsr_dataset **out_dataset) {
    tsr_result result = TSR_SUCCESS;
    TSR_ASSERT(port_count > 0 && options->size_bytes == sizeof *options);
    tsr_dataset *dataset = calloc(1, sizeof *dataset);
    if (dataset) dataset->columns = calloc(port_count, sizeof *dataset->columns);
    if (!dataset || !dataset->columns)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a data set");
    dataset->column_count = port_count;
    TRY_GOTO(ctx, result,
             open_columns(ctx, ports, port_count, bindings, binding_count, options, dataset));
    size_t table_count = tsr_shuffler_table_count(dataset->row_count);
    if (table_count) {
        dataset->shuffle_table = calloc(table_count, sizeof *dataset->shuffle_table);
        if (!dataset->shuffle_table)
            FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to shuffle %" PRIu64 " rows",
                      dataset->row_count);
    }
    tsr_shuffler_init(&dataset->shuffler, dataset->row_count, dataset->shuffle_table);
    *out_dataset = dataset;
    dataset = NULL;
done:
    tsr_dataset_close(ctx, dataset);
    return result;
}

void tsr_dataset_close(tsr_ctx *ctx, tsr_dataset *dataset) {
    if (!dataset) return;
    for (size_t i = 0; dataset->columns && i < dataset->column_count; i++) {
        tsr_array_close(ctx, dataset->columns[i].array);
        free(dataset->columns[i].rows);
    }
    free(dataset->columns);
    free(dataset->shuffle_table);
    free(dataset);
}

uint64_t tsr_dataset_get_row_count(const tsr_dataset *dataset) { return dataset->row_count; }
uint64_t tsr_dataset_get_memory_bytes(const tsr_dataset *dataset) { return dataset->memory_bytes; }

void tsr_dataset_set_epoch_base(tsr_dataset *dataset, uint64_t epoch, uint64_t sample) {
    TSR_ASSERT(epoch <= INT64_MAX / dataset->row_count);
    dataset->stream_offset = epoch * dataset->row_count - sample;
}

uint64_t tsr_dataset_get_row(const tsr_dataset *dataset, uint32_t seed, uint64_t sample) {
    return tsr_shuffle_index(seed, dataset->row_count, sample + dataset->stream_offset);
}

static tsr_result copy_rows(tsr_ctx *ctx, const dataset_column *column, uint64_t first,
                            uint64_t count, void *out_rows) {
    if (column->rows) {
        memcpy(out_rows, column->rows + first * column->row_bytes,
               (size_t)count * column->row_bytes);
        return TSR_SUCCESS;
    }
    return tsr_array_read(ctx, column->array, first * column->row_elements,
                          count * column->row_elements, out_rows);
}

tsr_result tsr_dataset_batch(tsr_ctx *ctx, tsr_dataset *dataset, uint32_t seed,
                             uint64_t first_sample, uint64_t batch, void *const *outs) {
    for (uint64_t i = 0; i < batch; i++) {
        uint64_t row =
            tsr_shuffler_index(&dataset->shuffler, seed, first_sample + i + dataset->stream_offset);
        for (size_t c = 0; c < dataset->column_count; c++) {
            const dataset_column *column = &dataset->columns[c];
            TRY(ctx,
                copy_rows(ctx, column, row, 1, (unsigned char *)outs[c] + i * column->row_bytes));
        }
    }
    return TSR_SUCCESS;
}

tsr_result tsr_dataset_rows(tsr_ctx *ctx, const tsr_dataset *dataset, uint64_t first_row,
                            uint64_t count, void *const *outs) {
    TSR_ASSERT(first_row <= dataset->row_count);
    const uint64_t left = dataset->row_count - first_row;
    const uint64_t present = count < left ? count : left;
    for (size_t c = 0; c < dataset->column_count; c++) {
        const dataset_column *column = &dataset->columns[c];
        unsigned char *out = outs[c];
        if (present) TRY(ctx, copy_rows(ctx, column, first_row, present, out));
        memset(out + present * column->row_bytes, 0, (size_t)(count - present) * column->row_bytes);
    }
    return TSR_SUCCESS;
}
