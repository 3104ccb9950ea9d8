/* SPDX-License-Identifier: Apache-2.0
 *
 * The tar of FORMAT.md section 2: one header at a time for writing, a strict walk for reading.
 * Offsets and sizes in bytes.
 */
#ifndef TSR_BUNDLE_TAR_H
#define TSR_BUNDLE_TAR_H

#include "bundle/limits.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/io/io.h"
#include "runtime/base/result.h"

#include <inttypes.h>

/* The form of every error about a bundle: FAIL(ctx, code, TSB "what" TSB_AT "A, got B", path,
 * offset, entry, …). */
#define TSB "tsb: %s: "
#define TSB_AT " at offset %" PRIu64 " (entry %.16s): expected "

/* The name of a member in messages: 8 digits of the digest, or the start of the name with
 * unprintable bytes replaced. */
typedef struct tsr_entry_text {
    char text[20];
} tsr_entry_text;
tsr_entry_text tsr_entry_text_digest(const tsr_digest *digest);

/* The header of a member. `name` has at most 99 bytes, size_bytes < 8 GiB. */
void tsr_tar_format_header(unsigned char out_block[static TSR_TAR_BLOCK_BYTES], const char *name,
                           char type, uint64_t size_bytes);

/* Returns the length of the pax record that aligns the bytes of a member that would begin at
 * `offset`: 0 if they are aligned without one, else a multiple of 512, at most
 * TSR_BUNDLE_ALIGN_BYTES. */
size_t tsr_tar_pad_size(uint64_t offset);
/* Writes the record, size_bytes long. */
void tsr_tar_format_pad(unsigned char *out_record, size_t size_bytes);

/* Returns the number of zero bytes from the end of a member of this size to the next block. */
static inline size_t tsr_tar_gap(uint64_t size_bytes) {
    return (size_t)(-size_bytes & (TSR_TAR_BLOCK_BYTES - 1));
}

/* Called for each regular member, in order. `name` has no leading "./" and is valid during the
 * call. */
typedef tsr_result (*tsr_tar_visit_fn)(tsr_ctx *ctx, void *user, const char *name, uint64_t offset,
                                       uint64_t size_bytes);

/* Walks the archive by the rules of normal mode (FORMAT.md section 9) and checks every header; the
 * members' bytes are not read. Errors are TSR_CORRUPT, TSR_IO, or the visitor's. */
TSR_RESULT tsr_tar_walk(tsr_ctx *ctx, int fd, const char *path, uint64_t file_size_bytes,
                        tsr_tar_visit_fn visit, void *user);

#endif
