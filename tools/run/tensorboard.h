/* SPDX-License-Identifier: Apache-2.0
 *
 * Event files of TensorBoard: scalars by tag and step. A file is a sequence of records in the form
 * of TFRecord (length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes), and each
 * record is a protocol buffer `Event` (tensorflow/core/util/event.proto, framework/summary.proto).
 *
 *     tsr_tensorboard_begin(&board, step);
 *     tsr_tensorboard_scalar(&board, "train", "loss", 0.25);
 *     tsr_tensorboard_end(&board);                               one record, written at once
 */
#ifndef TSR_TOOLS_RUN_TENSORBOARD_H
#define TSR_TOOLS_RUN_TENSORBOARD_H

#include "runtime/base/buffer.h"

#include <signal.h>

typedef struct tsr_tensorboard {
    int fd;              /* owned; -1: closed */
    char *path;          /* owned */
    uint64_t size_bytes; /* of the complete records */
    int error;           /* errno of the first failed write, or 0 */
    /* Borrowed, or NULL: becomes TSR_LINES_STOP at the first failure, unless it is set already. */
    volatile sig_atomic_t *stop;
    tsr_buffer record, summary, value; /* owned, reused */
} tsr_tensorboard;

/* CRC-32C (Castagnoli): polynomial 0x1EDC6F41 reflected, as in RFC 3720, appendix B.4. */
uint32_t tsr_crc32c(const void *bytes, size_t size_bytes);

/* Creates a file in the directory, and the directory if it does not exist (not its parents). Every
 * run writes a file of its own; TensorBoard shows all files of a directory as one run. TSR_IO. */
TSR_RESULT tsr_tensorboard_open(tsr_ctx *ctx, const char *directory, volatile sig_atomic_t *stop,
                                tsr_tensorboard *out_board);
/* Call the three from one thread. A record that cannot be written is removed, and nothing is
 * written after it. */
void tsr_tensorboard_begin(tsr_tensorboard *board, uint64_t step);
void tsr_tensorboard_scalar(tsr_tensorboard *board, const char *group, const char *name,
                            double value);
void tsr_tensorboard_end(tsr_tensorboard *board);
/* Fails with TSR_IO if a record could not be written or stored. May be called twice. */
TSR_RESULT tsr_tensorboard_close(tsr_ctx *ctx, tsr_tensorboard *board);

static inline bool tsr_tensorboard_is_open(const tsr_tensorboard *board) { return board->fd >= 0; }

#endif
