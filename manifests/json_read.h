/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to manifests/: code shared by the readers of the config and of the deployment manifest.
 * Reading is lenient, and exact at the end: the result is encoded again and compared with the input
 * bytes. Errors are TSR_CORRUPT and begin with the path being read.
 */
#ifndef TSR_MANIFESTS_JSON_READ_H
#define TSR_MANIFESTS_JSON_READ_H

#include "manifests/config.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/json.h"

struct cJSON;

typedef struct tsr_json_reader {
    tsr_ctx *ctx;
    tsr_arena *arena;         /* memory of the result */
    tsr_json_options options; /* subject: the path being read */
    char subject[96];
    /* The config has the features of these names. */
    bool has_effects, has_infinite, has_groups, has_hyperparameters, has_open;
} tsr_json_reader;

/* Sets the beginning of later error messages: "config: entries[3]". */
void tsr_json_at(tsr_json_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define TSR_JSON_READ_FAIL(r, key, wanted, got)                                                    \
    FAIL((r)->ctx, TSR_CORRUPT, "%s: %s: expected %s, got '%s'", (r)->subject, key, wanted,        \
         tsr_json_printable(got))
const char *tsr_json_printable(const char *text); /* Returns "?" if the text cannot be printed. */

TSR_RESULT tsr_json_read_name(tsr_json_reader *r, const struct cJSON *object, const char *key,
                              const char **out);
/* Reads `dtype` and `shape`. */
TSR_RESULT tsr_json_read_type(tsr_json_reader *r, const struct cJSON *object, tsr_dtype *out_dtype,
                              tsr_shape *out_shape);
/* Allocates an array for at most `count_max` items of `size` bytes and does not read them yet:
 * *out_items points to the array, in the arena. */
TSR_RESULT tsr_json_read_table(tsr_json_reader *r, const struct cJSON *object, const char *key,
                               size_t count_max, size_t size, const struct cJSON **out_array,
                               size_t *out_count, void *out_items);
/* Reads a double in its hexadecimal form. */
TSR_RESULT tsr_json_read_double(tsr_json_reader *r, const struct cJSON *object, const char *key,
                                double *out);
/* Reads `name`, `kind`, `batch`, `inputs`, `outputs`. */
TSR_RESULT tsr_json_read_entry(tsr_json_reader *r, const struct cJSON *object, const char *subject,
                               tsr_config_entry *entry);
/* Parses "1.0": decimal, no leading zeros. */
bool tsr_json_parse_version(const char *text, uint32_t *out_major, uint32_t *out_minor);
/* Fails unless `again`, the encoding of the decoded input, equals the input bytes. */
TSR_RESULT tsr_json_check_canonical(tsr_ctx *ctx, const char *subject, const tsr_buffer *again,
                                    const char *json, size_t size_bytes);

#endif
