/* SPDX-License-Identifier: Apache-2.0
 *
 * A data set: one array per data input of an entry, all with the same number of rows. Training
 * draws shuffled batches of the endless stream of samples (shuffle.h); evaluation and inference
 * read rows in order. Arrays that fit into memory are read when the data set is opened, others are
 * read row by row; nothing is allocated after opening.
 *
 *     port of shape    array of shape    row i
 *     [B, d1, …]       [N, d1, …]        array[i]
 *     [B, S]           [L], flat         elements i*S … i*S+S-1; N = L / S, a remainder is not used
 *
 * so a flat file of tokens is read as consecutive windows without overlap. A model that predicts
 * the next token binds a port of S+1 tokens and slices inputs and targets from it.
 */
#ifndef TSR_RUNTIME_DATA_DATASET_H
#define TSR_RUNTIME_DATA_DATASET_H

#include "runtime/base/tensor.h"

/* One data input of an entry. */
typedef struct tsr_dataset_port {
    const char *name; /* unique */
    tsr_dtype dtype;
    tsr_shape shape; /* rank >= 1; dims[0] is the batch, the same for all ports */
} tsr_dataset_port;

typedef struct tsr_dataset_binding {
    const char *name;
    const char *spec; /* see tsr_array_open; a flat file has the dtype of its port */
} tsr_dataset_binding;

typedef struct tsr_dataset_options {
    size_t size_bytes;           /* sizeof(tsr_dataset_options) */
    uint64_t rows_min;           /* fewer rows are refused: the batch for training; 0 means 1 */
    uint64_t memory_limit_bytes; /* total size of arrays read into memory; 0 means 1 GiB, UINT64_MAX
                                    no limit */
    bool never_in_memory;        /* every row is read from the file on demand */
} tsr_dataset_options;

typedef struct tsr_dataset tsr_dataset;

/* Every port needs a binding; bindings of other names (for another entry) are ignored. Ports,
 * bindings and options are not kept. Errors: TSR_USAGE (a port without binding: the message lists
 * all ports with dtypes and shapes; a name bound twice), TSR_DATA (another dtype or shape, unequal
 * row counts, too few rows; both values in the message), and the errors of tsr_array_open. */
TSR_RESULT tsr_dataset_open(tsr_ctx *ctx, const tsr_dataset_port *ports, size_t port_count,
                            const tsr_dataset_binding *bindings, size_t binding_count,
                            const tsr_dataset_options *options, tsr_dataset **out_dataset);
void tsr_dataset_close(tsr_ctx *ctx, tsr_dataset *dataset); /* accepts NULL */
uint64_t tsr_dataset_get_row_count(const tsr_dataset *dataset);
/* Bytes of rows that are kept in memory. */
uint64_t tsr_dataset_get_memory_bytes(const tsr_dataset *dataset);

/* Sample `sample` of the stream begins epoch `epoch`; both are 0 after opening. Products of epochs
 * and rows must stay below 2^63. */
void tsr_dataset_set_epoch_base(tsr_dataset *dataset, uint64_t epoch, uint64_t sample);
/* Returns the row that is sample `sample` of the stream of `seed`. */
uint64_t tsr_dataset_get_row(const tsr_dataset *dataset, uint32_t seed, uint64_t sample);

/* Reads the samples first_sample … first_sample+batch-1 of the stream of `seed` into outs[port]
 * (batch rows each, in the order of the ports given to open). Any batch size. Only one thread may
 * use a data set at a time. */
TSR_RESULT tsr_dataset_batch(tsr_ctx *ctx, tsr_dataset *dataset, uint32_t seed,
                             uint64_t first_sample, uint64_t batch, void *const *outs);
/* Reads rows first_row … first_row+count-1 in order; rows past the end are zeros. first_row <= row
 * count. */
TSR_RESULT tsr_dataset_rows(tsr_ctx *ctx, const tsr_dataset *dataset, uint64_t first_row,
                            uint64_t count, void *const *outs);

#endif
